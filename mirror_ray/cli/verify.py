"""The command verify: every record of a flow's topics against its copy."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray.cli import foreground
from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, FormatOption, NameOption, OutputFormat
from mirror_ray.cli.output import Columns, Row, column, count, emit, out, say, table
from mirror_ray.cli.system import ConfigOption, RequiredFlow, find_system, parse_flow, ray_for_spark
from mirror_ray.cli.times import TIME_FORMS, parse_time
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.mirror import Mirror
    from mirror_ray.observe.status import PartitionStatus
    from mirror_ray.verification.cluster_queries import PartitionQuery
    from mirror_ray.verification.planner import VerifyRequest
    from mirror_ray.verification.report import PartitionVerdict, VerifyReport
    from mirror_ray.verification.run import MakeFirstPass, VerifyProgress

_TOPICS: Columns = (
    column("TOPIC", "topic"),
    column("REMOTE TOPIC", "target_topic"),
    column("PARTITIONS", "partitions"),
    column("RECORDS", "records", count),
    column("RANGES", "ranges"),
    column("EQUAL", "equal"),
    column("DIFFER", "differs"),
    column("EXPLAINED", "explained"),
    column("NOT CHECKED", "not_checked"),
    column("STOPPED", "halted"),
    column("NOT COPIED", "not_copied", count),
    column("FIRST DIFFERENCE", "text"),
)
_TELL_EVERY_S = 5.0


def verify(
    flow: RequiredFlow,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...", help="Topics of the source; without any, all of them.", show_default=False
        ),
    ] = None,
    sample: Annotated[
        float,
        typer.Option("--sample", metavar="F", help="Look at this fraction of the ranges, spread over each topic."),
    ] = 1.0,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help=f"Records from then on: {TIME_FORMS}.", show_default=False),
    ] = None,
    by_spark: Annotated[
        bool, typer.Option("--spark", help="Let Spark read and hash, in the system's Ray: for very large topics.")
    ] = False,
    config: ConfigOption = None,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Compare every record of a flow's topics with its copy: order, key, value, headers, timestamp.

    Up to what was copied when it begins; flows, traffic and cleaning may go on. Exit 0: all that was copied is equal;
    1: something differs, could not be checked, or a partition is stopped or paused; 3: a cluster does not answer.
    """
    from mirror_ray.verification.planner import VerifyRequest

    if not 0 < sample <= 1:
        raise ConfigError(f"--sample {sample:g}: a fraction above 0, up to 1")
    since_ms = parse_time(since, round(time.time() * 1000)) if since is not None else None
    wanted = VerifyRequest(topics=tuple(dict.fromkeys(topics or ())), sample=sample, since_ms=since_ms)
    name_of_flow = parse_flow(flow)
    with find_system(config, name, address, name_of_flow) as (settings, mirror), foreground.interruptible():
        settings.flow(name_of_flow)
        with _looker(settings, name_of_flow, mirror, name, address) if by_spark else nullcontext() as make_first_pass:
            report = _report(settings, name_of_flow, wanted, mirror, make_first_pass)
    emit(report.plain(), output, lambda: _print(report))
    for each in report.partitions:
        if each.checked.gave_up:
            say(f"{each.topic}-{each.partition}: too much differs, the rest of it was not looked at", "yellow")
    if not report.equal:
        raise typer.Exit(1)


@contextmanager
def _looker(
    settings: MirrorSettings, flow: FlowName, mirror: Mirror | None, name: str, address: str | None
) -> Iterator[MakeFirstPass]:
    """Who takes the first look by Spark, in the system's Ray or in one of its own."""
    from mirror_ray.spark.session import spark_session
    from mirror_ray.spark.verification import SparkFirstPass

    say("verify: starting Spark in Ray")
    clusters = settings.clusters[flow.source], settings.clusters[flow.target]
    with (
        ray_for_spark(name, address, mirror),
        spark_session(f"verify {flow}", settings.spark, say) as spark,
    ):
        yield lambda logs, plain: SparkFirstPass(spark, clusters, logs, plain)


def _report(
    settings: MirrorSettings,
    flow: FlowName,
    wanted: VerifyRequest,
    mirror: Mirror | None,
    make_first_pass: MakeFirstPass | None,
) -> VerifyReport:
    from mirror_ray.verification.run import VerifyProgress, verify_with_routes

    running = asking(mirror, flow)
    with _telling(VerifyProgress()) as progress:
        return asyncio.run(
            verify_with_routes(
                settings, flow, wanted, running=running, make_first_pass=make_first_pass, progress=progress
            )
        )


def asking(mirror: Mirror | None, flow: FlowName) -> PartitionQuery:
    """Asks the running system how far it is; without its answer the state on the target says so, of a second ago."""

    async def ask() -> Sequence[PartitionStatus]:
        try:
            return await asyncio.to_thread(mirror.partitions, str(flow)) if mirror is not None else ()
        except MirrorError as error:
            say(f"{error}; going on without it, by the state on the target", "yellow")
            return ()

    return ask


@contextmanager
def _telling(progress: VerifyProgress) -> Iterator[VerifyProgress]:
    """Say on stderr how far it has come, while it takes long."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_TELL_EVERY_S):
            say(str(progress))

    telling = threading.Thread(target=tell, name="progress", daemon=True)
    telling.start()
    try:
        yield progress
    finally:
        over.set()
        telling.join()


def _print(report: VerifyReport) -> None:
    console = out()
    by_topic: dict[tuple[str, str], list[PartitionVerdict]] = {}
    for each in report.partitions:
        by_topic.setdefault((each.topic, each.target_topic), []).append(each)
    console.print(table([_row(partitions) for partitions in by_topic.values()], _TOPICS))
    notes = [f"{each.topic}-{each.partition}: {note}" for each in report.partitions for note in each.notes]
    if notes:
        console.print()
        for note in notes:
            console.print(note, soft_wrap=True)


def _row(partitions: Sequence[PartitionVerdict]) -> Row:
    from mirror_ray.verification.report import worst

    outcomes = [each.outcome for each in partitions]
    gravest = worst(partitions)
    return {
        "topic": partitions[0].topic,
        "target_topic": partitions[0].target_topic,
        "partitions": len(partitions),
        "records": sum(each.checked.records for each in partitions),
        "ranges": _of(
            sum(each.checked.ranges_checked for each in partitions), sum(each.checked.ranges for each in partitions)
        ),
        "halted": sum(each.halt is not None for each in partitions),
        "not_copied": sum(each.account.not_copied for each in partitions),
        **{outcome: outcomes.count(outcome) for outcome in ("equal", "differs", "explained", "not_checked")},
        "text": next(each.text for each in partitions if each.outcome == gravest),
    }


def _of(checked: int, ranges: int) -> str:
    return count(ranges) if checked == ranges else f"{count(checked)} of {count(ranges)}"
