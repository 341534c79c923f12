"""The charts of a report, each in a card with its title and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

from mirror_ray.report.number_format import lasting, per_second, ratio, share, short, size
from mirror_ray.report.svg import Bar, Series, bar_chart, line_chart

_TALKERS = 10


def over_time(steps: Sequence[Mapping[str, Any]], step_ms: int) -> str:
    """Rates, bytes, compression, latency and lag of a document's steps."""
    if not steps:
        return '<p class="muted">There are no statistics of this time.</p>'
    by_time = {step["step_ms"]: step for step in steps}
    times = list(range(steps[0]["step_ms"], steps[-1]["step_ms"] + step_ms, step_ms))

    def rate(name: str) -> list[float | None]:
        # Idle partitions publish no statistics, so nothing was copied in a step without any.
        return [by_time[at][name] if at in by_time else 0.0 for at in times]

    def value(name: str) -> list[float | None]:
        return [by_time[at][name] if at in by_time else None for at in times]

    def spread(name: str, *which: str) -> list[Series]:
        found = [by_time[at][name] if at in by_time else {} for at in times]
        return [Series(name=one, values=[values.get(one) for values in found]) for one in which]

    lines = partial(_lines, times, step_ms)
    points = f"each point is {lasting(step_ms)}"
    wire = Series(name="on the wire", values=rate("wire_bytes_per_s"), filled=True)
    unpacked = Series(name="uncompressed, estimated", values=rate("uncompressed_bytes_per_s_estimated"))
    return _cards(
        lines(
            "Records per second",
            f"Mean rate; {points}.",
            [Series(name="records/s", values=rate("records_per_s"), filled=True)],
            words=short,
        ),
        lines(
            "Bytes per second", f"On the wire, and what that unpacks to; {points}.", [wire, unpacked], words=per_second
        ),
        lines(
            "Latency",
            f"From a batch's newest timestamp to the target's acknowledgement; logarithmic; {points}.",
            spread("latency_ms", "p50", "p95", "p99"),
            words=lasting,
            logarithmic=True,
        ),
        lines(
            "Compression",
            f"Uncompressed bytes for one on the wire, estimated; {points}.",
            [Series(name="ratio", values=value("compression_ratio_estimated"))],
            words=ratio,
        ),
        lines(
            "Largest lag",
            f"Records that the furthest partition was behind; {points}.",
            spread("lag_records", "max"),
            words=short,
        ),
        lines(
            "Lag in time",
            f"Of the partitions that had something to copy; logarithmic; {points}.",
            spread("lag_ms", "p50", "p95", "max"),
            words=lasting,
            logarithmic=True,
        ),
    )


def top_talkers(topics: Sequence[Mapping[str, Any]]) -> str:
    """The topics with most bytes and with most records. ``topics``: of a document, those with most bytes first."""
    total = sum(row["wire_bytes"] for row in topics) or 1
    by_bytes = [
        Bar(label=row["topic"], value=(wire := row["wire_bytes"]), text=f"{size(wire)} ({share(wire / total)})")
        for row in topics[:_TALKERS]
    ]
    by_records = [
        Bar(label=row["topic"], value=row["records"], text=f"{short(row['records'])} records")
        for row in sorted(topics, key=lambda row: (-row["records"], row["topic"]))[:_TALKERS]
    ]
    return _cards(
        _card(
            "By bytes on the wire", bar_chart("Top talkers by bytes", "Topics that take most of the link.", by_bytes)
        ),
        _card("By records", bar_chart("Top talkers by records", "Topics with most records.", by_records)),
    )


def _lines(
    times_ms: Sequence[int], step_ms: int, title: str, description: str, series: Sequence[Series], **how: Any
) -> str:
    drawn = line_chart(title, description, times_ms, step_ms, series=series, **how)
    return _card(title, f'{drawn}<p class="muted">{escape(description)}</p>')


def _card(title: str, content: str) -> str:
    return f'<section class="card"><h3>{escape(title)}</h3>{content}</section>'


def _cards(*cards: str) -> str:
    return f'<div class="charts">{"".join(cards)}</div>'
