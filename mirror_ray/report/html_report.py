"""A report as one HTML document that needs nothing else: no network, no script. Every name is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from mirror_ray.report.charts import over_time, top_talkers
from mirror_ray.report.explanations import explained, headline
from mirror_ray.report.number_format import lasting, moment, money, number, per_second, plural, ratio, short, size
from mirror_ray.report.tables import GAPS, LOGS, PARTITIONS, TOPICS, UNUSABLE, table

Document = Mapping[str, Any]
#: Nothing from elsewhere is loaded, and no script runs, whatever a topic is called.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

#: Light or dark as the reader's system is, narrow or wide, and for paper.
_STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1b2330; --muted: #5b6675; --edge: #dde2e9; --grid: #e6eaf0;
  --series-1: #1f6feb; --series-2: #b45309; --series-3: #0f766e; --bad: #b42318;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #10141a; --card: #181e27; --text: #e6ebf2; --muted: #9aa7b8; --edge: #2a3341; --grid: #27303d;
    --series-1: #6ea8fe; --series-2: #f0a35e; --series-3: #4fd1c5; --bad: #ff8a80;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, "Segoe UI", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 36px 0 10px; } h3 { font-size: 15px; margin: 0 0 6px; }
p { margin: 0 0 10px; max-width: 80ch; } .muted, .when { color: var(--muted); } .bad { color: var(--bad); }
.lead { font-size: 17px; margin-top: 14px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); gap: 12px; margin: 20px 0; }
.tile, .card { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 14px 16px; }
.tile b { display: block; font-size: 24px; font-weight: 600; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span, .tile small { display: block; color: var(--muted); font-size: 13px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 12px; }
svg { width: 100%; height: auto; display: block; } svg text { font-size: 12px; fill: var(--text); }
svg .muted { fill: var(--muted); } .grid { stroke: var(--grid); stroke-width: 1; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .area { opacity: 0.14; stroke: none; }
.bar { fill: var(--series-1); } .hover { fill: transparent; } .hover:hover { fill: var(--text); fill-opacity: 0.08; }
.line.s1 { stroke: var(--series-1); } .line.s2 { stroke: var(--series-2); } .line.s3 { stroke: var(--series-3); }
.line.s2 { stroke-dasharray: 6 3; } .line.s3 { stroke-dasharray: 2 3; }
.area.s1, .dot.s1 { fill: var(--series-1); } .area.s2, .dot.s2 { fill: var(--series-2); }
.area.s3, .dot.s3 { fill: var(--series-3); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 4px 0 6px; padding: 0; }
.card .muted, .legend { font-size: 13px; } .card p { margin: 0; }
.legend i { display: inline-block; width: 18px; border-top: 3px solid; margin-right: 6px; vertical-align: middle; }
.legend .s1 { border-color: var(--series-1); } .legend .s2 { border-color: var(--series-2); border-top-style: dashed; }
.legend .s3 { border-color: var(--series-3); border-top-style: dotted; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--edge); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; white-space: nowrap; border-top: 1px solid var(--edge); }
thead th { border-top: 0; color: var(--muted); font-weight: 600; }
th:first-child, td:first-child, .left { text-align: left; }
td.name { max-width: 280px; overflow: hidden; text-overflow: ellipsis; }
td.wrap { white-space: normal; min-width: 260px; }
dl { display: grid; grid-template-columns: minmax(140px, 220px) 1fr; gap: 8px 18px; margin: 0; }
dt { font-weight: 600; } dd { margin: 0; max-width: 80ch; overflow-wrap: anywhere; }
details { margin-top: 12px; } summary { cursor: pointer; } code { font-size: 0.93em; overflow-wrap: anywhere; }
@media (max-width: 600px) {
  main { padding: 16px 12px 40px; } h1 { font-size: 22px; } dl { grid-template-columns: 1fr; gap: 2px; }
  dd { margin-bottom: 10px; } .tiles { grid-template-columns: 1fr 1fr; } .tile b { font-size: 20px; }
  svg text { font-size: 15px; }
}
@media print { body { background: #fff; } .tile, .card, .scroll { break-inside: avoid; } }
"""


def make_html(document: Document) -> str:
    """The HTML of a document of ``mirror_ray.report.json_document``."""
    flow, begin, end = escape(document["flow"]), moment(document["from_ms"]), moment(document["to_ms"])
    entries = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in explained(document).items())
    parts = [
        f"<h1>What {flow} copied</h1>",
        f'<p class="when">{begin} to {end} UTC · written {moment(document["created_ms"])} UTC</p>',
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
        f'<div class="card"><dl>{entries}</dl></div>',
        _sources(document["sources"]),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{flow}: throughput</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _tiles(document: Document) -> str:
    total, cost, lag = document["total"], document["cost"], document["worst_lag"]
    worst = f"on {lag['topic']}-{lag['partition']}" if lag else ""
    gaps, latency = document["gaps"], total["latency_ms"]
    uncompressed = size(total["uncompressed_bytes_estimated"])
    uncompressed_cost = money(cost["uncompressed_estimated"], cost["currency"])
    tiles = [
        ("Records", short(total["records"]), f"{short(total['records_per_s'])} a second on average"),
        ("On the wire", size(total["wire_bytes"]), per_second(total["wire_bytes_per_s"])),
        ("Compression", ratio(total["compression_ratio_estimated"]), f"≈ {uncompressed} uncompressed"),
        ("Transfer cost", money(cost["wire"], cost["currency"]), f"≈ {uncompressed_cost} uncompressed"),
        ("Latency, 99 %", f"≤ {lasting(latency['p99'])}", f"half within {lasting(latency['p50'])}"),
        ("Largest lag", f"{number(total['lag_records']['max'])}", f"records {worst}"),
        ("Skipped ranges", "?" if gaps is None else number(len(gaps)), "given up by a fault policy or an operator"),
        ("Restarts", number(total["restarts"]), f"{plural(total['untold_records'], 'record')} untold"),
    ]
    shown = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b><small>{escape(more)}</small></div>'
        for name, value, more in tiles
    )
    return f'<div class="tiles">{shown}</div>'


def _gaps(document: Document) -> str:
    gaps, head = document["gaps"], "<h2>Skipped ranges</h2>"
    if gaps is None:
        why = "the flow's state on the target could not be read"
        return f'{head}<p class="bad">Skipped ranges are not known: {why}.</p>'
    if not gaps:
        when = "None" if not any(document["asked"].values()) else "None in the selected time"
        return f"{head}<p>{when}: no partition has given up records that it should have copied.</p>"
    return head + table(gaps, GAPS, "Skipped ranges")


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
