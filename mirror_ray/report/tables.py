"""The tables of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from mirror_ray.report.number_format import UNKNOWN, lasting, moment, number, per_second, ratio, size

Row = Mapping[str, Any]
#: Heading, what it means, and the cell made from a row.
Column = tuple[str, str, Callable[[Row], str]]

#: More rows make the HTML slow; report.json has all of them.
MOST_ROWS = 500


def _figure(words: Callable[[float | None], str], name: str, which: str | None = None) -> Callable[[Row], str]:
    return lambda row: words(row[name] if which is None else row[name][which])


_FIGURES: tuple[Column, ...] = (
    ("Records", "copied, with the untold", _figure(number, "records")),
    ("Records/s", "mean over the time shown", _figure(number, "records_per_s")),
    ("On the source", "bytes of record batches as the source holds them", _figure(size, "source_bytes")),
    ("On the wire", "bytes of record batches as the target holds them", _figure(size, "wire_bytes")),
    ("Rate", "bytes on the wire per second, mean over the time shown", _figure(per_second, "wire_bytes_per_s")),
    ("Uncompressed", "estimated from samples", lambda row: f"≈ {size(row['uncompressed_bytes_estimated'])}"),
    ("Ratio", "uncompressed bytes for one on the wire, estimated", _figure(ratio, "compression_ratio_estimated")),
    ("Codec", "of the batches seen last", lambda row: ", ".join(row["codecs"]) or UNKNOWN),
    ("Latency p50", "half of the records took at most this", _figure(lasting, "latency_ms", "p50")),
    ("p99", "99 of 100 records took at most this", _figure(lasting, "latency_ms", "p99")),
    ("Slowest", "no record took longer than this", _figure(lasting, "latency_ms", "max")),
    ("Lag p95", "records behind, in 95 of 100 intervals at most", _figure(number, "lag_records", "p95")),
    ("Largest lag", "records behind, at most", _figure(number, "lag_records", "max")),
    ("Restarts", "how often a copy recovered its position", _figure(number, "restarts")),
    (
        "Untold",
        "records of replicators that were killed before they published statistics",
        _figure(number, "untold_records"),
    ),
)
TOPICS: tuple[Column, ...] = (
    ("Topic", "on the source", lambda row: row["topic"]),
    ("Partitions", "with statistics", _figure(number, "partitions")),
    *_FIGURES,
)
PARTITIONS: tuple[Column, ...] = (
    ("Partition", "on the source", lambda row: f"{row['topic']}-{row['partition']}"),
    *_FIGURES,
    (
        "Target offsets",
        "with statistics, from and to",
        lambda row: f"{row['first_target_offset']:,} to {row['last_target_offset']:,}",
    ),
    (
        "Target's end",
        "now; unknown where others write too, or the topic was created again",
        _figure(number, "target_end"),
    ),
)
LOGS: tuple[Column, ...] = (
    ("Topic id", "of the statistics topic", lambda row: row["topic_id"] or UNKNOWN),
    ("Partition", "", _figure(number, "partition")),
    ("First offset", "that was read", _figure(number, "first")),
    ("Read up to", "not included", _figure(number, "next")),
    ("Deleted unread", "by retention, before a report read it", _figure(number, "missed")),
)
UNUSABLE: tuple[Column, ...] = (
    ("Record", "topic id, partition, offset", lambda row: f"{row['topic_id']} {row['partition']}-{row['offset']}"),
    ("Why", "", lambda row: row["kind"].replace("_", " ")),
    ("How it begins", "", lambda row: row["text"]),
)
GAPS: tuple[Column, ...] = (
    ("Partition", "", lambda row: f"{row['topic']}-{row['partition']}"),
    ("When (UTC)", "", lambda row: moment(row["time_ms"])),
    ("Fault", "", lambda row: row["kind"].replace("_", " ")),
    ("Policy", "", lambda row: row["policy"]),
    ("Source offsets", "", lambda row: _offsets(row["source_from"], row["source_to"])),
    ("Message", "", lambda row: row["text"]),
)
_TEXTS = frozenset({"Topic", "Partition", "Record", "Why", "How it begins", "Message", "Fault", "Policy", "Codec"})
_LONG = frozenset({"Message", "How it begins"})


def table(rows: Sequence[Row], columns: Sequence[Column], caption: str) -> str:
    """An HTML table of the first ``MOST_ROWS`` rows, with a note where the others are; every cell is escaped."""
    heads = "".join(
        f'<th scope="col" title="{escape(why)}"{_left(name)}>{escape(name)}</th>' for name, why, _ in columns
    )
    body = "".join(f"<tr>{''.join(_cell(row, column) for column in columns)}</tr>" for row in rows[:MOST_ROWS])
    more = len(rows) - MOST_ROWS
    rest = f'<p class="muted">{number(more)} more are in report.json and in hours/.</p>' if more > 0 else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>{rest}"
    )


def _cell(row: Row, column: Column) -> str:
    name, _, cell = column
    text = escape(cell(row))
    if name in _LONG:
        return f'<td class="left wrap">{text}</td>'
    return f'<td class="name left" title="{text}">{text}</td>' if name in _TEXTS else f"<td>{text}</td>"


def _left(name: str) -> str:
    return ' class="left"' if name in _TEXTS else ""


def _offsets(first: int, end: int) -> str:
    return UNKNOWN if first < 0 else f"{first:,} to {end:,}" if end >= 0 else f"from {first:,}"
