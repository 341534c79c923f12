"""A report as one JSON document: it is ``report.json``, and the HTML shows nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mirror_ray.report.figures import ThroughputFigures, figures_of, total
from mirror_ray.report.progress import ReadProgress

VERSION = 1
#: Decimal, as networks are billed.
_GB = 1_000_000_000
_TB = 1000 * _GB
_MONTH_S = 30 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """What the report is to show, and the price of a GB."""

    since_ms: int | None
    until_ms: int | None
    price_per_gb: float
    currency: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResult:
    """What was read for a report."""

    progress: ReadProgress
    partitions: Sequence[Mapping[str, Any]]
    steps: Sequence[Mapping[str, Any]]
    step_ms: int
    #: Skipped ranges; None: the flow's state can't be read.
    gaps: Sequence[Mapping[str, Any]] | None
    #: (topic id, end of the log) of remote partitions, as they are now.
    target_ends: Mapping[tuple[str, int], tuple[str, int]]


def make_document(asked: ReportRequest, found: ReportResult) -> dict[str, Any]:
    """The report as JSON."""
    partitions = [(row, figures_of(row)) for row in found.partitions]
    sums = total(figures for _, figures in partitions)
    begin_ms, end_ms = _shown_time(asked, sums)
    length_s = (end_ms - begin_ms) / 1000
    steps = [_step(row, found.step_ms, begin_ms, end_ms) for row in found.steps]
    all_shown = asked.since_ms is None and asked.until_ms is None
    rows = [_partition(row, figures, length_s, found.target_ends if all_shown else {}) for row, figures in partitions]
    return {
        "version": VERSION,
        "flow": found.progress.flow,
        "created_ms": asked.created_ms,
        "asked": {"since_ms": asked.since_ms, "until_ms": asked.until_ms},
        "from_ms": begin_ms,
        "to_ms": end_ms,
        "total": _rated(sums, length_s),
        "cost": _cost(sums, length_s, asked),
        "peak": max(steps, key=lambda step: step["records_per_s"], default=None),
        "worst_lag": _worst_lag(rows),
        "topics": _topics(partitions, length_s),
        "partitions": rows,
        "step_ms": found.step_ms,
        "steps": steps,
        "gaps": None if found.gaps is None else [gap for gap in found.gaps if _is_asked(gap["time_ms"], asked)],
        "check": _check(rows) if all_shown else None,
        "sources": {
            "topic": found.progress.topic,
            "logs": [asdict(log) for log in found.progress.logs],
            "files": len(found.progress.files),
            "deleted_days": list(found.progress.deleted),
            "unusable": dict(found.progress.bad),
            "unusable_examples": [asdict(record) for record in found.progress.bad_examples],
        },
    }


def _shown_time(asked: ReportRequest, sums: ThroughputFigures) -> tuple[int, int]:
    """The time that is shown: the requested one, as far as there are statistics."""
    begin_ms, end_ms = sums.from_ms or 0, sums.to_ms or 0
    if asked.since_ms is not None:
        begin_ms = max(begin_ms, asked.since_ms)
    return begin_ms, max(end_ms, begin_ms + 1)


def _is_asked(time_ms: int, asked: ReportRequest) -> bool:
    """Whether a skipped range is to be shown; also where there are no statistics, for a partition may have stopped."""
    since = asked.since_ms is None or asked.since_ms <= time_ms
    return since and (asked.until_ms is None or time_ms < asked.until_ms)


def _rated(figures: ThroughputFigures, length_s: float) -> dict[str, Any]:
    return {
        **figures.plain(),
        "records_per_s": figures.all_records / length_s,
        "wire_bytes_per_s": figures.all_wire_bytes / length_s,
        "uncompressed_bytes_per_s_estimated": figures.all_uncompressed_bytes / length_s,
    }


def _step(row: Mapping[str, Any], step_ms: int, begin_ms: int, end_ms: int) -> dict[str, Any]:
    """One step. Rates are over its shown part: otherwise the peak of a short time could be below the average."""
    first_ms = row["step"]
    shown_ms = min(first_ms + step_ms, end_ms) - max(first_ms, begin_ms)
    return {"step_ms": first_ms, **_rated(figures_of(row), max(shown_ms, 1) / 1000)}


def _partition(
    row: Mapping[str, Any],
    figures: ThroughputFigures,
    length_s: float,
    target_ends: Mapping[tuple[str, int], tuple[str, int]],
) -> dict[str, Any]:
    names = ("topic", "partition", "target_topic", "target_partition", "shared")
    more = ("codecs", "replicators", "source_topic_ids", "target_topic_ids")
    topic_id, end = target_ends.get((row["target_topic"], row["target_partition"]), ("", None))
    if row["shared"] or row["target_topic_ids"] != [topic_id]:
        end = None
    return {
        **{name: row[name] for name in names},
        **{name: list(row[name]) for name in more},
        "first_target_offset": row["first_target_offset"],
        "last_target_offset": row["last_target_offset"],
        "target_end": end,
        **_rated(figures, length_s),
    }


def _topics(partitions: Sequence[tuple[Mapping[str, Any], ThroughputFigures]], length_s: float) -> list[dict[str, Any]]:
    by_topic: dict[str, list[tuple[Mapping[str, Any], ThroughputFigures]]] = defaultdict(list)
    for row, figures in partitions:
        by_topic[row["topic"]].append((row, figures))
    rows = [
        {
            "topic": topic,
            "target_topics": sorted({row["target_topic"] for row, _ in parts}),
            "partitions": len({row["partition"] for row, _ in parts}),
            "codecs": sorted({codec for row, _ in parts for codec in row["codecs"]}),
            **_rated(total(figures for _, figures in parts), length_s),
        }
        for topic, parts in by_topic.items()
    ]
    return sorted(rows, key=lambda row: (-row["wire_bytes"], row["topic"]))


def _cost(sums: ThroughputFigures, length_s: float, asked: ReportRequest) -> dict[str, Any]:
    price, compression = asked.price_per_gb, sums.compression or 1.0
    wire = sums.all_wire_bytes / _GB * price
    return {
        "price_per_gb": price,
        "currency": asked.currency,
        "wire": wire,
        "uncompressed_estimated": sums.all_uncompressed_bytes / _GB * price,
        #: Of a terabyte of records before compression.
        "terabyte_compressed_estimated": _TB / _GB * price / compression,
        "terabyte_uncompressed": _TB / _GB * price,
        "month_at_this_rate": wire / length_s * _MONTH_S,
    }


def _worst_lag(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    known = [row for row in rows if row["lag_records"]["max"] is not None]
    if not known:
        return None
    worst = max(known, key=lambda row: row["lag_records"]["max"])
    return {
        "place": f"{worst['topic']}-{worst['partition']}",
        "topic": worst["topic"],
        "partition": worst["partition"],
        "records": worst["lag_records"]["max"],
        "ms": worst["lag_ms"]["max"],
    }


def _check(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The target's logs against the statistics.

    In topics that are not shared, the offsets before the first statistics, the told and untold records, and the records
    without statistics yet add up to the log end offset.
    """
    known = [row for row in rows if row["target_end"] is not None]
    return {
        "partitions": len(known),
        "target_ends": sum(row["target_end"] for row in known),
        "before_first": sum(row["first_target_offset"] for row in known),
        "told": sum(row["told_records"] for row in known),
        "untold": sum(row["untold_records"] for row in known),
        "not_told_yet": sum(row["target_end"] - row["last_target_offset"] for row in known),
    }
