"""Figures of a partition, a topic, a flow, or a range of time, which can be added up; histograms; steps of charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

#: Counts by the upper bound of their bucket.
Histogram = Mapping[int, int]

PERCENTS = (50, 95, 99)
#: Lengths of a chart's steps. Each divides the next: an interval within one step is within one of every longer length.
STEPS_MS: Final = tuple(
    seconds * 1000 for seconds in (10, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400)
)
_MOST_STEPS: Final = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputFigures:
    """Sums over some statistics. Exact unless a field says otherwise."""

    #: Statistics records that were summed up.
    told: int = 0
    records: int = 0
    batches: int = 0
    #: Of record batches as the target's log holds them.
    wire_bytes: int = 0
    #: Of the same records as the source's log holds them.
    source_bytes: int = 0
    #: Estimated from samples.
    uncompressed_bytes: int = 0
    #: Of ``wire_bytes``, those whose uncompressed size was measured, not estimated.
    measured_bytes: int = 0
    latency_ms: Mapping[int, int] = field(default_factory=dict)
    #: One sample at the end of each interval, by the same bounds.
    lag_ms: Mapping[int, int] = field(default_factory=dict)
    lag_records: Mapping[int, int] = field(default_factory=dict)
    #: None where it was never known.
    lag_ms_max: int | None = None
    lag_records_max: int | None = None
    restarts: int = 0
    #: Copied by replicators that were killed before they published statistics: exact, from gaps in target offsets.
    untold_records: int = 0
    #: Estimated by the partition's mean.
    untold_bytes: int = 0
    #: Statistics records that are in the topic more than once; counted once.
    told_twice: int = 0
    #: Intervals of topics that are not shared in which the target's offsets and the records do not tally.
    mismatches: int = 0
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def all_records(self) -> int:
        """With the untold."""
        return self.records + self.untold_records

    @property
    def all_wire_bytes(self) -> int:
        """With an estimate for the untold."""
        return self.wire_bytes + self.untold_bytes

    @property
    def compression(self) -> float | None:
        """Uncompressed bytes for one on the wire; estimated."""
        return self.uncompressed_bytes / self.wire_bytes if self.wire_bytes else None

    @property
    def all_source_bytes(self) -> int:
        """With an estimate for the untold."""
        return round(self.all_wire_bytes * self.source_bytes / self.wire_bytes) if self.wire_bytes else 0

    @property
    def all_uncompressed_bytes(self) -> int:
        """With the untold: estimated."""
        return round(self.all_wire_bytes * (self.compression or 1.0))

    def plain(self) -> dict[str, Any]:
        """As JSON: sums, and what is computed from them."""
        return {
            "records": self.all_records,
            "told_records": self.records,
            "untold_records": self.untold_records,
            "batches": self.batches,
            "wire_bytes": self.all_wire_bytes,
            "told_wire_bytes": self.wire_bytes,
            "source_bytes": self.all_source_bytes,
            "untold_bytes_estimated": self.untold_bytes,
            "uncompressed_bytes_estimated": self.all_uncompressed_bytes,
            "uncompressed_measured_share": self.measured_bytes / self.wire_bytes if self.wire_bytes else None,
            "compression_ratio_estimated": self.compression,
            "latency_ms": _spread(self.latency_ms, max(self.latency_ms, default=None)),
            "lag_ms": _spread(self.lag_ms, self.lag_ms_max),
            "lag_records": _spread(self.lag_records, self.lag_records_max),
            "restarts": self.restarts,
            "statistics_records": self.told,
            "statistics_told_twice": self.told_twice,
            "offset_mismatches": self.mismatches,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
        }


def total(parts: Iterable[ThroughputFigures]) -> ThroughputFigures:
    """The figures of several parts together."""
    every = list(parts)
    sums: dict[str, Any] = {name: sum(getattr(part, name) for part in every) for name in _SUMS}
    histograms: dict[str, Any] = {name: merged(getattr(part, name) for part in every) for name in _HISTOGRAMS}
    return ThroughputFigures(
        **sums,
        **histograms,
        lag_ms_max=_known(max, (part.lag_ms_max for part in every)),
        lag_records_max=_known(max, (part.lag_records_max for part in every)),
        from_ms=_known(min, (part.from_ms for part in every)),
        to_ms=_known(max, (part.to_ms for part in every)),
    )


def figures_of(row: Mapping[str, Any]) -> ThroughputFigures:
    """The figures of a row of ``spark.report_figures.aggregated``; bytes of the untold are estimated by its mean."""
    mean_bytes = row["wire_bytes"] / row["records"] if row["records"] else 0.0
    values: dict[str, Any] = {name: int(row[name]) for name in _SUMS if name != "untold_bytes"}
    values |= {name: dict(row[name] or {}) for name in _HISTOGRAMS}
    values |= {name: row[name] for name in ("lag_ms_max", "lag_records_max", "from_ms", "to_ms")}
    return ThroughputFigures(**values, untold_bytes=round(row["untold_records"] * mean_bytes))


def merged(histograms: Iterable[Histogram]) -> dict[int, int]:
    """One histogram of all of them together."""
    summed: Counter[int] = Counter()
    for histogram in histograms:
        summed.update(histogram)
    return dict(sorted(summed.items()))


def percentile(histogram: Histogram, percent: int) -> int | None:
    """The upper bound of so many percent of the values; None without values.

    It is the bucket of the exact percentile (nearest rank), so the exact one is at most this, and above the bound
    before it.
    """
    number = sum(histogram.values())
    if not number:
        return None
    rank = max(1, -(-number * percent // 100))
    count = 0
    for bound in sorted(histogram):
        count += histogram[bound]
        if count >= rank:
            return bound
    raise AssertionError("the ranks end with the last bucket")


def step_of(length_ms: int, interval_step_ms: int) -> int:
    """The length of a chart's steps: the shortest of ``STEPS_MS`` that needs no more than ``_MOST_STEPS`` points.

    ``interval_step_ms`` is the shortest that contains every interval. An interval counts where it begins: some shorter
    steps would have the figures of several, and others none.
    """
    fitting = (step_ms for step_ms in STEPS_MS if step_ms >= interval_step_ms and length_ms <= step_ms * _MOST_STEPS)
    return next(fitting, STEPS_MS[-1])


_HISTOGRAMS = ("latency_ms", "lag_ms", "lag_records")
_SUMS = (
    "told",
    "records",
    "batches",
    "wire_bytes",
    "source_bytes",
    "uncompressed_bytes",
    "measured_bytes",
    "restarts",
    "untold_records",
    "untold_bytes",
    "told_twice",
    "mismatches",
)


def _spread(histogram: Mapping[int, int], largest: int | None) -> dict[str, int | None]:
    return {f"p{percent}": percentile(histogram, percent) for percent in PERCENTS} | {"max": largest}


def _known(choose: Any, values: Iterable[int | None]) -> int | None:
    chosen: int | None = choose((value for value in values if value is not None), default=None)
    return chosen
