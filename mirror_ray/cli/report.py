"""The command report: throughput of a flow, by Spark."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, FormatOption, NameOption, OutputFormat
from mirror_ray.cli.output import emit, out, say
from mirror_ray.cli.system import ConfigOption, RequiredFlow, find_system, parse_flow, ray_for_spark
from mirror_ray.cli.times import TIME_FORMS, parse_time
from mirror_ray.model.errors import ConfigError

if TYPE_CHECKING:
    from mirror_ray.config.settings import FlowSettings, MirrorSettings
    from mirror_ray.mirror import Mirror
    from mirror_ray.report.json_document import ReportRequest

#: About what clouds take for a GB between regions.
DEFAULT_PRICE_PER_GB = 0.02


def report(
    flow: RequiredFlow,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The report's directory; later runs add to it.")],
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help=f"Show from then on: {TIME_FORMS}.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Show up to then, in the same forms.")
    ] = None,
    price_per_gb: Annotated[
        float, typer.Option("--price-per-gb", min=0, help="Of a GB (1,000,000,000 bytes) over the link.")
    ] = DEFAULT_PRICE_PER_GB,
    currency: Annotated[str, typer.Option("--currency", help="Of that price; any text.")] = "USD",
    config: ConfigOption = None,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Write what a flow copied, how fast and at what cost, as Parquet and as one HTML page; by Spark, in its Ray.

    Reads from the flow's statistics topic what is new since the last run to the same directory. Exit 1: nothing is
    known of that time.
    """
    from mirror_ray.report.json_document import ReportRequest

    flow_name = parse_flow(flow)
    now_ms = time.time_ns() // 1_000_000
    request = ReportRequest(
        since_ms=None if since is None else parse_time(since, now_ms),
        until_ms=None if until is None else parse_time(until, now_ms),
        price_per_gb=price_per_gb,
        currency=currency,
        created_ms=now_ms,
    )
    if request.since_ms is not None and request.until_ms is not None and request.since_ms >= request.until_ms:
        raise ConfigError(f"--since {since} is not before --until {until}")
    with find_system(config, name, address, flow_name) as (settings, mirror):
        document = _write(settings, settings.flow(flow_name), mirror, to, request, (name, address))
    summary = _summary(document, to)
    emit(summary, output, lambda: _print(document, summary))
    if not document["total"]["statistics_records"]:
        raise typer.Exit(1)


def _write(
    settings: MirrorSettings,
    flow: FlowSettings,
    mirror: Mirror | None,
    to: Path,
    request: ReportRequest,
    ray: tuple[str, str | None],
) -> dict[str, Any]:
    """Read what is new, write the report, and return its figures."""
    from mirror_ray.model.internal_topics import statistics_topic
    from mirror_ray.report.directory import open_directory
    from mirror_ray.report.html_report import make_html
    from mirror_ray.report.json_document import ReportResult, make_document
    from mirror_ray.report.target_cluster import find_statistics, read_ends, read_skipped_ranges

    name, address = ray
    cluster = settings.clusters[flow.name.target]
    log = find_statistics(cluster, flow)
    with open_directory(to, str(flow.name), statistics_topic(flow.name.source)) as directory:
        say(f"reading {directory.progress.topic} on {flow.name.target} with Spark, this takes a minute or so")
        with ray_for_spark(name, address, mirror):
            from mirror_ray.spark.report import read_new, select
            from mirror_ray.spark.session import spark_session

            with spark_session(f"report {flow.name}", settings.spark, say) as spark:
                read_new(spark, cluster, log.topic_id, log.bounds, directory)
                selection = select(spark, directory, request.since_ms, request.until_ms)
        found = ReportResult(
            progress=directory.progress,
            partitions=selection.partitions,
            steps=selection.steps,
            step_ms=selection.step_ms,
            gaps=read_skipped_ranges(cluster, flow),
            target_ends=read_ends(cluster, selection.partitions),
        )
        document = make_document(request, found)
        directory.write("report.json", json.dumps(document, indent=1, ensure_ascii=False))
        directory.write("report.html", make_html(document))
    return document


def _summary(document: dict[str, Any], to: Path) -> dict[str, Any]:
    kept = ("flow", "from_ms", "to_ms", "total", "cost", "worst_lag", "check")
    files = {"page": str(to / "report.html"), "figures": str(to / "report.json")}
    return {
        **{name: document[name] for name in kept},
        "topics": len(document["topics"]),
        "partitions": len(document["partitions"]),
        "gaps": None if document["gaps"] is None else len(document["gaps"]),
        "unusable": document["sources"]["unusable"],
        **files,
    }


def _print(document: dict[str, Any], summary: dict[str, Any]) -> None:
    from mirror_ray.report.explanations import headline

    for sentence in headline(document):
        out().print(sentence, soft_wrap=True)
    if unusable := sum(summary["unusable"].values()):
        say(f"{unusable} records of the statistics topic could not be used; report.html names them", "yellow")
    out().print(f"\n{summary['page']}\n{summary['figures']}", soft_wrap=True)
