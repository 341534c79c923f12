"""The commands takeover and handback: take flows over from MirrorMaker 2, and give them back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from mirror_ray.cli import foreground
from mirror_ray.cli.audit import audited
from mirror_ray.cli.options import (
    DEFAULT_NAME,
    AddressOption,
    ConfigArgument,
    FormatOption,
    NameOption,
    OutputFormat,
    name_option,
)
from mirror_ray.cli.output import Columns, Row, column, count, emit, or_empty, out, say, table
from mirror_ray.cli.system import find_system, parse_flow
from mirror_ray.model.errors import ConfigError, NotReadyError

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.kafka.audit_log import AuditLog
    from mirror_ray.model.names import FlowName
    from mirror_ray.takeover.decisions import TakeoverDecision
    from mirror_ray.takeover.handback import HandbackResult, PartitionHandback
    from mirror_ray.takeover.takeover import TakeoverResult

_T = TypeVar("_T")

_FlowsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[FLOW...]", help="For example 'A->B'; all enabled ones without it.")
]
_DryOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; nothing is written.")]
_ForceOption = Annotated[
    bool,
    typer.Option(
        "--force", help="Go on behind MM2's note also where nothing shows that the topic is the one that MM2 copied."
    ),
]
_QuietOption = Annotated[
    float, typer.Option("--quiet-for", metavar="SECONDS", min=0, help="How long nothing must be written by MM2.")
]
_TopicOption = Annotated[
    str | None,
    typer.Option(
        "--offsets-topic",
        metavar="TOPIC",
        help="offset.storage.topic of the Connect cluster that MM2 runs in; without it, dedicated mode's.",
    ),
]
_ConnectorOption = Annotated[
    str | None, typer.Option("--connector", metavar="NAME", help="MM2's source connector in that cluster.")
]
_GroupOption = Annotated[
    str | None,
    typer.Option(
        "--connect-group",
        metavar="GROUP",
        help="group.id of MM2's workers, which must have no members; in dedicated mode it is known.",
    ),
]
_TAKEN: Columns = (
    column("TOPIC", "topic"),
    column("PARTITION", "partition"),
    column("OUTCOME", "outcome"),
    column("MM2 NOTED", "noted", count),
    column("BEGINS AT", "begin", count),
    column("TARGET END", "target_end", count),
    column("COPIED SINCE", "found", count),
    column("MAY BE DOUBLED", "doubtful", count),
    column("MAY BE LOST", "lost", count),
    ("REMARK", lambda row: "; ".join(row["remarks"])),
)
_HANDED: Columns = (
    column("TOPIC", "topic"),
    column("PARTITION", "partition"),
    column("MM2 HAD NOTED", "before", count),
    column("MM2 NOTES NOW", "noted", count),
    column("TARGET END", "target_end", count),
    column("REMARK", "remark", or_empty),
)


def takeover(
    config: ConfigArgument,
    flows: _FlowsArgument = None,
    *,
    dry_run: _DryOption = False,
    force: _ForceOption = False,
    offsets_topic: _TopicOption = None,
    connector: _ConnectorOption = None,
    connect_group: _GroupOption = None,
    quiet_s: _QuietOption = 3.0,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Take over what a stopped MirrorMaker 2 has copied; `up` goes on from there.

    Exit 0: all is taken over; 1: a topic is refused, or MM2 or mirror-ray still runs, and the text says what to do.
    """
    from mirror_ray.takeover.takeover import take_over

    mm2 = offsets_topic, connector, connect_group
    act = partial(take_over, quiet_s=quiet_s, dry=dry_run, force=force)
    kept = partial(audited, name=name, command="takeover", dry_run=dry_run)
    done = _run_each(act, _stopped(config, flows, name, address), mm2, kept)
    emit([_plain_taken(taken) for taken in done], output, lambda: _print_taken(done))
    if not all(taken.ok for taken in done):
        raise typer.Exit(1)


def handback(
    config: ConfigArgument,
    flows: _FlowsArgument = None,
    *,
    dry_run: _DryOption = False,
    offsets_topic: _TopicOption = None,
    connector: _ConnectorOption = None,
    connect_group: _GroupOption = None,
    quiet_s: _QuietOption = 3.0,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Hand flows back to MirrorMaker 2, after `down`: it goes on behind the last record that was copied.

    From then on `up` refuses these flows, until `takeover` has taken them over again. Exit codes as of `takeover`.
    """
    from mirror_ray.takeover.handback import hand_back

    mm2 = offsets_topic, connector, connect_group
    act = partial(hand_back, quiet_s=quiet_s, dry=dry_run)
    kept = partial(audited, name=name, command="handback", dry_run=dry_run)
    done = _run_each(act, _stopped(config, flows, name, address), mm2, kept)
    emit([_plain_handed(handed) for handed in done], output, lambda: _print_handed(done))


def _stopped(
    config: Path, flows: list[str] | None, name: str, address: str | None
) -> Iterator[tuple[MirrorSettings, FlowName]]:
    """Yield each flow that is asked for, once it is known that it does not run.

    Raises:
        ConfigError: There is no such flow.
        NotReadyError: It runs.
    """
    from mirror_ray.config.load import load_settings

    settings = load_settings(config).settings
    chosen = [parse_flow(name) for name in flows or ()] or [
        flow.name for flow in settings.flows if flow.enabled and flow.route is None
    ]
    if not chosen:
        raise ConfigError("no flow is enabled: set A->B.enabled = true, with the aliases of your clusters")
    for flow in chosen:
        if settings.flow(flow).route is not None:
            raise ConfigError(f"{flow} is a route: MirrorMaker 2 has none, name its flow, {flow.live}")
        with find_system(config, name, address, flow, must_answer=True) as (_, mirror):
            if mirror is not None:
                raise NotReadyError(f"{flow} runs in the system {name!r}: `mirror-ray down{name_option(name)}` first")
        yield settings, flow


def _run_each(
    act: Callable[..., Coroutine[Any, Any, _T]],
    flows: Iterable[tuple[MirrorSettings, FlowName]],
    mm2: tuple[str | None, str | None, str | None],
    kept: Callable[[MirrorSettings, FlowName], AbstractContextManager[AuditLog]],
) -> list[_T]:
    """The results of all flows, one after the other.

    ``mm2``: its offsets topic, connector and group, where given. ``kept``: opens the audit log of a flow.
    """
    from mirror_ray.takeover.mm2_activity import which_mm2

    with foreground.interruptible():
        done = []
        for settings, flow in flows:
            with kept(settings, flow) as audit_log:
                done.append(asyncio.run(act(settings, flow, which_mm2(flow, *mm2), audit_log=audit_log)))
        return done


def _plain_taken(taken: TakeoverResult) -> dict[str, Any]:
    return {
        "flow": str(taken.flow),
        "dry_run": taken.dry,
        "ok": taken.ok,
        "partitions": [_plain_partition(row) for row in taken.rows],
        "other_topics": list(taken.others),
    }


def _plain_handed(handed: HandbackResult) -> dict[str, Any]:
    return {
        "flow": str(handed.flow),
        "dry_run": handed.dry,
        "partitions": [_plain_partition(row) for row in handed.partitions],
    }


def _plain_partition(row: TakeoverDecision | PartitionHandback) -> dict[str, Any]:
    fields = asdict(row)
    source, remote = fields.pop("source"), fields.pop("remote")
    return {"topic": source.topic, "partition": source.partition, "remote_topic": remote, **fields}


def _print_taken(done: list[TakeoverResult]) -> None:
    for taken in done:
        plain = _plain_taken(taken)
        _print(plain, plain["partitions"], _TAKEN)
        begun = [row for row in plain["partitions"] if row["outcome"] == "taken"]
        found, doubtful, lost = (sum(row[key] for row in begun) for key in ("found", "doubtful", "lost"))
        say(f"{found} records that MM2 copied after its last note were found; at most {doubtful} may be doubled")
        if lost:
            say(f"--force: at most {lost} records before MM2's notes may be lost", "yellow")
        if taken.others:
            say(f"not selected by {taken.flow}, though MM2 copied them: {', '.join(taken.others)}", "yellow")
        if not taken.dry:
            say(f"{taken.flow}: `mirror-ray up` goes on from there")
        refused = sorted({row.source.topic for row in taken.rows if row.outcome == "refused"})
        if refused:
            say(f"refused, and left as they are: {', '.join(refused)}", "red")


def _print_handed(done: list[HandbackResult]) -> None:
    for handed in done:
        plain = _plain_handed(handed)
        _print(plain, plain["partitions"], _HANDED)


def _print(plain: dict[str, Any], rows: list[Row], columns: Columns) -> None:
    console = out()
    console.print(f"{plain['flow']}{'  dry run, nothing was changed' if plain['dry_run'] else ''}\n")
    console.print(table(rows, columns))
