"""A report as one HTML page that needs nothing else: no network, no script. Pure; every name is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from mirror_ray.report.charts import over_time, top_talkers
from mirror_ray.report.explanations import explained, headline
from mirror_ray.report.number_format import lasting, moment, money, number, per_second, plural, ratio, short, size
from mirror_ray.report.style import STYLE
from mirror_ray.report.tables import GAPS, LOGS, PARTITIONS, TOPICS, UNUSABLE, table

Document = Mapping[str, Any]
#: Nothing from elsewhere is loaded, and no script runs, whatever a topic is called.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def make_page(document: Document) -> str:
    """The page of a document of ``mirror_ray.report.json_document``."""
    flow = escape(document["flow"])
    parts = [
        f"<h1>What {flow} copied</h1>",
        (
            f'<p class="when">{moment(document["from_ms"])} to {moment(document["to_ms"])} UTC'
            f" · written {moment(document['created_ms'])} UTC</p>"
        ),
        f'<p class="lead">{escape(" ".join(headline(document)))}</p>',
        _tiles(document),
        "<h2>Over time</h2>",
        over_time(document["steps"], document["step_ms"]),
        "<h2>Top talkers</h2>",
        top_talkers(document["topics"]),
        "<h2>By topic</h2>",
        table(document["topics"], TOPICS, "Figures by topic"),
        "<h2>By partition</h2>",
        table(document["partitions"], PARTITIONS, "Figures by partition"),
        _gaps(document),
        "<h2>How these figures are made</h2>",
        _explained(document),
        _sources(document["sources"]),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{flow}: throughput</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _tiles(document: Document) -> str:
    total, cost, lag = document["total"], document["cost"], document["worst_lag"]
    worst = f"on {lag['topic']}-{lag['partition']}" if lag else ""
    gaps = document["gaps"]
    tiles = [
        ("Records", short(total["records"]), f"{short(total['records_per_s'])} a second on average"),
        ("On the wire", size(total["wire_bytes"]), per_second(total["wire_bytes_per_s"])),
        (
            "Compression",
            ratio(total["compression_ratio_estimated"]),
            f"≈ {size(total['uncompressed_bytes_estimated'])} uncompressed",
        ),
        (
            "Transfer cost",
            money(cost["wire"], cost["currency"]),
            f"≈ {money(cost['uncompressed_estimated'], cost['currency'])} uncompressed",
        ),
        (
            "Latency, 99 %",
            f"≤ {lasting(total['latency_ms']['p99'])}",
            f"half within {lasting(total['latency_ms']['p50'])}",
        ),
        ("Largest lag", f"{number(total['lag_records']['max'])}", f"records {worst}"),
        ("Gaps", "?" if gaps is None else number(len(gaps)), "left out by policy or answer"),
        ("Restarts", number(total["restarts"]), f"{plural(total['untold_records'], 'record')} untold"),
    ]
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b><small>{escape(more)}</small></div>'
            for name, value, more in tiles
        )
        + "</div>"
    )


def _gaps(document: Document) -> str:
    gaps, head = document["gaps"], "<h2>Gaps</h2>"
    if gaps is None:
        return f'{head}<p class="bad">The flow\'s state on the target could not be read, so gaps are not known.</p>'
    if not gaps:
        when = "None" if not any(document["asked"].values()) else "None in the time that was asked for"
        return f"{head}<p>{when}: no partition went on without records that it should have copied.</p>"
    return head + table(gaps, GAPS, "What partitions went on without")


def _explained(document: Document) -> str:
    entries = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in explained(document))
    return f'<div class="card"><dl>{entries}</dl></div>'


def _sources(sources: Mapping[str, Any]) -> str:
    unusable = sum(sources["unusable"].values())
    parts = [
        "<h2>What was read</h2>",
        (
            f"<p>Topic <code>{escape(sources['topic'])}</code> on the target, kept as"
            f" {plural(sources['files'], 'Parquet file')} in <code>intervals/</code>.</p>"
        ),
        table(sources["logs"], LOGS, "Offsets read"),
    ]
    if unusable:
        kinds = ", ".join(f"{number(count)} {kind.replace('_', ' ')}" for kind, count in sources["unusable"].items())
        parts.append(
            f'<h3>Records that could not be used</h3><p class="bad">{plural(unusable, "record")}: {escape(kinds)}.</p>'
            + table(sources["unusable_examples"], UNUSABLE, "Records that could not be used")
        )
    return "".join(parts)
