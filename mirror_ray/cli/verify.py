"""The command verify: compares every record of a flow's topics with its copy."""

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
    from mirror_ray.verification.report import PartitionVerdict, VerifyReport
    from mirror_ray.verification.run import MakeFirstPass, VerifyProgress
    from mirror_ray.verification.topic_schemas import TopicSchemas

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
_SCHEMAS: Columns = (
    column("TOPIC", "topic"),
    column("REMOTE TOPIC", "target_topic"),
    column("SCHEMAS", "met", count),
    column("MISSING", "missing", count),
    column("DIFFERENT", "different", count),
    column("UNKNOWN ON SOURCE", "unknown", count),
    column("RESULT", "outcome"),
)
_REPORT_INTERVAL_S = 5.0


def verify(
    flow: RequiredFlow,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics of the source; without any, all of them.")
    ] = None,
    sample: Annotated[
        float,
        typer.Option("--sample", metavar="F", help="Look at this fraction of the ranges, spread over each topic."),
    ] = 1.0,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help=f"Records from then on: {TIME_FORMS}.")
    ] = None,
    by_spark: Annotated[
        bool,
        typer.Option("--spark", help="Let Spark compare, on several cores and nodes of Ray: for very many records."),
    ] = False,
    schemas: Annotated[
        bool,
        typer.Option("--schemas", help="Also look up in both schema registries what the records' schema ids mean."),
    ] = False,
    config: ConfigOption = None,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Compare every record of a flow's topics with its copy: order, key, value, headers, timestamp.

    Up to what was copied when it begins; flows, traffic and cleaning may go on. Exit 0: all that was copied is equal,
    and with --schemas so are its schemas; 1: something differs, could not be checked, or a partition is stopped or
    paused; 3: a cluster does not answer.
    """
    from mirror_ray.verification.planner import VerifyRequest
    from mirror_ray.verification.run import VerifyProgress, verify_with_routes

    if not 0 < sample <= 1:
        raise ConfigError(f"--sample {sample:g}: a fraction above 0, up to 1")
    since_ms = parse_time(since, round(time.time() * 1000)) if since is not None else None
    request = VerifyRequest(
        topics=tuple(dict.fromkeys(topics or ())), sample=sample, since_ms=since_ms, schemas=schemas
    )
    flow_name = parse_flow(flow)
    with find_system(config, name, address, flow_name) as (settings, mirror), foreground.interruptible():
        settings.flow(flow_name)
        running = partition_query(mirror, flow_name)
        spark = _spark_first_pass(settings, flow_name, mirror, name, address) if by_spark else nullcontext()
        with spark as make_first_pass, _reporting(VerifyProgress()) as progress:
            verifying = verify_with_routes(
                settings, flow_name, request, running=running, make_first_pass=make_first_pass, progress=progress
            )
            report = asyncio.run(verifying)
    emit(report.plain(), output, lambda: _print(report))
    for partition in report.partitions:
        if partition.checked.gave_up:
            say(f"{partition.topic}-{partition.partition}: too much differs, the rest was not compared", "yellow")
    if not report.equal:
        raise typer.Exit(1)


@contextmanager
def _spark_first_pass(
    settings: MirrorSettings, flow: FlowName, mirror: Mirror | None, name: str, address: str | None
) -> Iterator[MakeFirstPass]:
    """Make the first pass by Spark, in the system's Ray or in a new one."""
    from mirror_ray.spark.session import spark_session
    from mirror_ray.spark.verification import SparkFirstPass

    say("verify: starting Spark in Ray")
    clusters = settings.clusters[flow.source], settings.clusters[flow.target]
    with ray_for_spark(name, address, mirror), spark_session(f"verify {flow}", settings.spark, say) as spark:
        yield lambda logs, plain: SparkFirstPass(spark, clusters, logs, plain)


def partition_query(mirror: Mirror | None, flow: FlowName) -> PartitionQuery:
    """Return a query for the running system's partitions; without an answer the state on the target is used."""

    async def ask() -> Sequence[PartitionStatus]:
        try:
            return await asyncio.to_thread(mirror.partitions, str(flow)) if mirror is not None else ()
        except MirrorError as error:
            say(f"{error}; going on without it, by the state on the target", "yellow")
            return ()

    return ask


@contextmanager
def _reporting(progress: VerifyProgress) -> Iterator[VerifyProgress]:
    """Report progress on stderr every few seconds."""
    finished = threading.Event()

    def report() -> None:
        while not finished.wait(_REPORT_INTERVAL_S):
            say(str(progress))

    thread = threading.Thread(target=report, name="progress", daemon=True)
    thread.start()
    try:
        yield progress
    finally:
        finished.set()
        thread.join()


def _print(report: VerifyReport) -> None:
    console = out()
    by_topic: dict[tuple[str, str], list[PartitionVerdict]] = {}
    for partition in report.partitions:
        by_topic.setdefault((partition.topic, partition.target_topic), []).append(partition)
    console.print(table([_row(partitions) for partitions in by_topic.values()], _TOPICS))
    notes = [f"{verdict.topic}-{verdict.partition}: {note}" for verdict in report.partitions for note in verdict.notes]
    if notes:
        console.print()
        for note in notes:
            console.print(note, soft_wrap=True)
    if report.schemas is not None:
        console.print()
        _print_schemas(report.schemas)


def _print_schemas(topics: Sequence[TopicSchemas]) -> None:
    console = out()
    console.print(table([_schemas_row(topic) for topic in topics], _SCHEMAS))
    sentences = [f"{topic.topic}: {sentence}" for topic in topics for sentence in topic.sentences]
    if sentences:
        console.print()
        for sentence in sentences:
            console.print(sentence, soft_wrap=True)


def _schemas_row(topic: TopicSchemas) -> Row:
    return {
        "topic": topic.topic,
        "target_topic": topic.target_topic,
        "met": topic.met,
        "missing": len(topic.missing),
        "different": len(topic.different),
        "unknown": len(topic.unknown),
        "outcome": topic.outcome,
    }


def _row(partitions: Sequence[PartitionVerdict]) -> Row:
    from mirror_ray.verification.report import worst

    outcomes = [partition.outcome for partition in partitions]
    overall = worst(partitions)
    checked = sum(partition.checked.ranges_checked for partition in partitions)
    ranges = sum(partition.checked.ranges for partition in partitions)
    return {
        "topic": partitions[0].topic,
        "target_topic": partitions[0].target_topic,
        "partitions": len(partitions),
        "records": sum(partition.checked.records for partition in partitions),
        "ranges": count(ranges) if checked == ranges else f"{count(checked)} of {count(ranges)}",
        "halted": sum(partition.halt is not None for partition in partitions),
        "not_copied": sum(partition.account.not_copied for partition in partitions),
        **{outcome: outcomes.count(outcome) for outcome in ("equal", "differs", "explained", "not_checked")},
        "text": next(partition.text for partition in partitions if partition.outcome == overall),
    }
