"""The commands failover and failback."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirror_ray.cli import foreground
from mirror_ray.cli.audit import audited
from mirror_ray.cli.columns import date
from mirror_ray.cli.control import confirm
from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, FormatOption, NameOption, OutputFormat, YesOption
from mirror_ray.cli.output import Columns, Row, column, duration, emit, out, say, table
from mirror_ray.cli.system import ConfigOption, RequiredFlow, find_system, parse_flow
from mirror_ray.model.errors import ConfigError
from mirror_ray.whoami import whoami

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.failover.plan import FailoverPlan, Kind, StepResult
    from mirror_ray.failover.run import FailoverOrder, FailoverReport

_STEPS: Columns = (
    column("STEP", "step"),
    column("OUTCOME", "outcome"),
    ("TOOK", lambda row: duration((row["ended_ms"] - row["began_ms"]) / 1000)),
    ("WHAT", lambda row: row["summary"].splitlines()[0] if row["summary"] else ""),
)
_PLANS: Columns = (
    column("PLAN", "id"),
    column("FLOW", "flow"),
    column("BY", "by"),
    column("BEGAN", "began_ms", date),
    column("STATE", "state"),
    column("WAVE", "wave"),
)
_GROUPS: Columns = (
    column("GROUP", "group"),
    ("PARTITIONS", lambda row: str(len(row["partitions"]))),
    ("EXACT", lambda row: str(sum(p["offset"] is not None and p["exact"] for p in row["partitions"]))),
    ("BEFORE", lambda row: str(sum(p["offset"] is not None and not p["exact"] for p in row["partitions"]))),
    ("WITHOUT", lambda row: str(sum(p["offset"] is None for p in row["partitions"]))),
    ("REASON", lambda row: next((p["reason"] for p in row["partitions"] if p["reason"]), "")),
)

ForceOption = Annotated[bool, typer.Option("--force", help="Replace offsets that somebody else committed, too.")]
SkipOption = Annotated[bool, typer.Option("--skip-active", help="Leave groups that have members where they are.")]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, with its figures.")]
RestartOption = Annotated[bool, typer.Option("--restart", help="Give up a plan that broke off, and begin anew.")]
StatusOption = Annotated[bool, typer.Option("--status", help="Show the flow's plans and the last one's steps.")]
QuietOption = Annotated[
    float, typer.Option("--quiet-for", metavar="SECONDS", min=0, help="How long nothing must be written.")
]
DivergedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--diverged",
        metavar="[PATTERN=]POLICY",
        help="What becomes of topics that hold records on the source which the target never got: recreate or append.",
    ),
]
ExportOption = Annotated[
    str,
    typer.Option(
        "--export-diverged",
        metavar="topic|DIR",
        help="Copy such records first: to topics SOURCE.TOPIC.diverged on the target, or to files in a directory.",
    ),
]
NewTopicsOption = Annotated[
    list[str] | None,
    typer.Option("--new-topics", metavar="PATTERN", help="Topics that only the target has, to be copied, too."),
]
CatchUpOption = Annotated[
    float, typer.Option("--catch-up-within", metavar="SECONDS", min=0, help="How long to wait for the lag.")
]


def failover(
    flow: RequiredFlow,
    config: ConfigOption = None,
    source_is_gone: Annotated[
        bool, typer.Option("--source-is-gone", help="Go by what the target knows; the source is not waited for.")
    ] = False,
    force: ForceOption = False,
    skip_active: SkipOption = False,
    dry_run: DryOption = False,
    restart: RestartOption = False,
    status: StatusOption = False,
    yes: YesOption = False,
    quiet_s: QuietOption = 3.0,
    catch_up_s: CatchUpOption = 600.0,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Rehearse it on two clusters of its own, made for it on this machine.")
    ] = False,
    planned: Annotated[
        bool, typer.Option("--planned", help="Of a simulation: the source is not killed, groups are stopped cleanly.")
    ] = False,
    kills: Annotated[
        bool, typer.Option("--kills", help="Of a simulation: command, coordinator and brokers are killed in each step.")
    ] = False,
    identity: Annotated[
        bool,
        typer.Option(
            "--identity", help="Of a simulation with --kills: topics keep their names; the failback reverses the flow."
        ),
    ] = False,
    there_and_back: Annotated[
        int | None,
        typer.Option(
            "--there-and-back",
            metavar="ROUNDS",
            min=1,
            help="Of a simulation: fail over and back so often, in topics that keep their names.",
        ),
    ] = None,
    preserve_offsets: Annotated[
        bool, typer.Option("--preserve-offsets", help="Of a simulation there and back: with offsets = preserve.")
    ] = False,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            "--groups", metavar="PATTERN", help="Move these groups alone, a wave. Of a simulation: how many (6)."
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", metavar="PATTERN", help="Of a wave: topics whose producers move, too."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of a simulation.")] = 1,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Move a flow's consumer groups to its target, in nine steps. Broken off, the same command goes on with it.

    Exit 0: all is moved; 1: something must be done first, and the last step says what; 3: a cluster does not answer.
    """
    from mirror_ray.failover.plan import FailoverOptions

    if simulate:
        from mirror_ray.cli import failover_drill

        drill = failover_drill.chosen(
            _number(groups),
            seed,
            planned=planned,
            kills=kills,
            identity=identity,
            rounds=there_and_back,
            preserve_offsets=preserve_offsets,
        )
        # Never the name of a system that may run.
        failover_drill.simulate(parse_flow(flow), drill, "rehearsal" if name == DEFAULT_NAME else name)
        return
    if kills or there_and_back is not None:
        option = "--kills" if kills else "--there-and-back"
        raise ConfigError(f"{option} is for a simulation, on clusters of its own: say --simulate, too")
    options = FailoverOptions(
        source_is_gone=source_is_gone,
        force=force,
        skip_active=skip_active,
        groups=tuple(groups or ()),
        topics=tuple(topics or ()),
    )
    order = _order("failover", flow, options, (quiet_s, catch_up_s), dry=dry_run, restart=restart)
    _run(order, config, name, address, output, status=status, yes=yes)


def failback(
    flow: RequiredFlow,
    config: ConfigOption = None,
    force: ForceOption = False,
    skip_active: SkipOption = False,
    dry_run: DryOption = False,
    restart: RestartOption = False,
    status: StatusOption = False,
    yes: YesOption = False,
    quiet_s: QuietOption = 3.0,
    catch_up_s: CatchUpOption = 600.0,
    wave: Annotated[
        str, typer.Option("--wave", metavar="PLAN", help="Bring back what this plan moved, a wave, and nothing else.")
    ] = "",
    diverged: DivergedOption = None,
    export_diverged: ExportOption = "",
    new_topics: NewTopicsOption = None,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Bring the groups of a failover of FLOW back to its source, and resume the flow at its former position.

    Nothing that both sides have is copied again. Where topics keep their names, what was written on the target since
    goes back in the same topics. Exit codes as of `failover`.
    """
    from mirror_ray.failover.plan import FailoverOptions

    options = FailoverOptions(
        force=force,
        skip_active=skip_active,
        diverged=tuple(diverged or ()),
        export_diverged=export_diverged,
        new_topics=tuple(new_topics or ()),
        wave=wave,
    )
    order = _order("failback", flow, options, (quiet_s, catch_up_s), dry=dry_run, restart=restart)
    _run(order, config, name, address, output, status=status, yes=yes)


def _number(groups: list[str] | None) -> int:
    """How many groups a simulation has."""
    text = groups[-1] if groups else "6"
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"--groups {text}: of a simulation it is how many groups, 1 or more")
    return int(text)


def _order(
    kind: Kind, flow: str, options: Any, waits_s: tuple[float, float], *, dry: bool, restart: bool
) -> FailoverOrder:
    from mirror_ray.failover.run import FailoverOrder
    from mirror_ray.failover.steps import StepTiming

    timing = StepTiming(quiet_s=waits_s[0], catch_up_s=waits_s[1])
    return FailoverOrder(
        kind=kind, flow=parse_flow(flow), options=options, timing=timing, dry=dry, restart=restart, by=whoami()
    )


def _run(
    order: FailoverOrder,
    config: Path | None,
    name: str,
    address: str | None,
    output: OutputFormat,
    *,
    status: bool,
    yes: bool,
) -> None:
    from mirror_ray.failover.run import carry_out

    # A failback in topics that keep their names has the flow off meanwhile.
    with find_system(config, name, address, order.flow, or_off=order.kind == "failback") as (settings, mirror):
        if status:
            _show_status(settings, order, output)
            return
        if not order.dry:
            confirm(f"{order.kind} of {order.flow}: groups are moved, the flow is paused or resumed. Go on?", yes=yes)
        try:
            kept = audited(settings, order.flow, name, order.kind, dry_run=order.dry)
            with foreground.interruptible(), kept as audit_log:
                running = mirror.client if mirror is not None else None
                report = asyncio.run(carry_out(settings, order, running, audit_log, _report_step))
        except KeyboardInterrupt:
            say("broken off; the same command goes on where it was", "yellow")
            raise
    emit(_plain(report), output, lambda: _print(report))
    if not report.dry and not report.plan.finished:
        raise typer.Exit(1)


def _report_step(plan: FailoverPlan, result: StepResult) -> None:
    style = "red" if result.outcome == "blocked" else None
    say(f"{plan.id}  {result.step}: {result.outcome}: {result.summary}", style)


def _show_status(settings: MirrorSettings, order: FailoverOrder, output: OutputFormat) -> None:
    from mirror_ray.failover.run import FailoverReport, read_history
    from mirror_ray.failover.waves import shown

    history = asyncio.run(read_history(settings, order.flow))
    plans = [plan for plan in history.plans() if plan.kind == order.kind]
    rows = [plan.head() | {"state": plan.state, "wave": shown(plan.options)} for plan in plans]
    reports = [_plain(FailoverReport(plan=plan, offsets=history.offsets(plan.id))) for plan in plans[-1:]]
    value = {"plans": rows, "last": next(iter(reports), None)}

    def show() -> None:
        out().print(table(rows, _PLANS))
        if plans:
            out().print()
            _print(FailoverReport(plan=plans[-1], offsets=history.offsets(plans[-1].id)))

    emit(value, output, show)


def _plain(report: FailoverReport) -> dict[str, Any]:
    plan = report.plan
    return plan.head() | {
        "state": plan.state,
        "dry_run": report.dry,
        "steps": [asdict(plan.results[step]) for step in plan.results],
        "groups": _groups(report),
    }


def _groups(report: FailoverReport) -> list[Row]:
    return [
        {
            "group": group,
            "partitions": [
                {
                    "topic": offset.origin.topic,
                    "partition": offset.origin.partition,
                    "origin_offset": offset.origin_offset,
                    "destination_topic": offset.destination.topic if offset.destination else None,
                    "offset": offset.offset,
                    "exact": offset.exact,
                    "reason": offset.reason,
                }
                for offset in offsets
            ],
        }
        for group, offsets in sorted(report.offsets.items())
    ]


def _print(report: FailoverReport) -> None:
    plan = report.plan
    console = out()
    state = "dry run, nothing was changed" if report.dry else plan.state
    console.print(f"{plan.id}  {plan.flow}  {state}\n")
    console.print(table([asdict(result) for result in plan.results.values()], _STEPS))
    rows: Sequence[Row] = _groups(report)
    if rows:
        console.print()
        console.print(table(rows, _GROUPS))
    last = next(reversed(list(plan.results.values())), None)
    if last is not None and (last.outcome == "blocked" or "\n" in last.summary):
        console.print(f"\n{last.summary}", soft_wrap=True)
