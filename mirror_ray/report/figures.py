"""What a report says of a partition, a topic, a flow, or a stretch of time: sums that may be added up further."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mirror_ray.report.histogram import merged, percentile

PERCENTS = (50, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputFigures:
    """Sums over some statistics. Exact unless a field says otherwise."""

    #: Statistics records that this was made of.
    told: int = 0
    records: int = 0
    batches: int = 0
    #: Of record batches as the target's log holds them.
    wire_bytes: int = 0
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
    #: Copied by replicators that were killed before they told of it: exact, seen as holes in the target's offsets.
    untold_records: int = 0
    #: Estimated by the partition's mean.
    untold_bytes: int = 0
    #: Statistics records that stand in the topic more than once; counted once.
    told_twice: int = 0
    #: Intervals of topics that are not shared in which the target's offsets and the records do not tally.
    mismatches: int = 0
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def all_records(self) -> int:
        """Told and untold."""
        return self.records + self.untold_records

    @property
    def all_wire_bytes(self) -> int:
        """Told, and estimated for the untold."""
        return self.wire_bytes + self.untold_bytes

    @property
    def compression(self) -> float | None:
        """Uncompressed bytes for one on the wire; estimated."""
        return self.uncompressed_bytes / self.wire_bytes if self.wire_bytes else None

    @property
    def all_uncompressed_bytes(self) -> int:
        """With the untold: estimated."""
        return round(self.all_wire_bytes * (self.compression or 1.0))

    def latency_percentile(self, percent: int) -> int | None:
        """At most so many ms."""
        return percentile(self.latency_ms, percent)

    def plain(self) -> dict[str, Any]:
        """For programs: sums, and what follows from them."""
        return {
            "records": self.all_records,
            "told_records": self.records,
            "untold_records": self.untold_records,
            "batches": self.batches,
            "wire_bytes": self.all_wire_bytes,
            "told_wire_bytes": self.wire_bytes,
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
    all_of = list(parts)
    sums: dict[str, Any] = {name: sum(getattr(each, name) for each in all_of) for name in _SUMS}
    histograms: dict[str, Any] = {name: merged(getattr(each, name) for each in all_of) for name in _HISTOGRAMS}
    return ThroughputFigures(
        **sums,
        **histograms,
        lag_ms_max=_known(max, (each.lag_ms_max for each in all_of)),
        lag_records_max=_known(max, (each.lag_records_max for each in all_of)),
        from_ms=_known(min, (each.from_ms for each in all_of)),
        to_ms=_known(max, (each.to_ms for each in all_of)),
    )


def figures_of(row: Mapping[str, Any]) -> ThroughputFigures:
    """From a row of the aggregates, which has the bytes of the untold not yet.

    They are estimated here, by the row's mean.
    """
    mean_bytes = row["wire_bytes"] / row["records"] if row["records"] else 0.0
    told: dict[str, Any] = {name: int(row[name]) for name in _SUMS if name != "untold_bytes"}
    told |= {name: dict(row[name] or {}) for name in _HISTOGRAMS}
    told |= {name: row[name] for name in ("lag_ms_max", "lag_records_max", "from_ms", "to_ms")}
    return ThroughputFigures(**told, untold_bytes=round(row["untold_records"] * mean_bytes))


_HISTOGRAMS = ("latency_ms", "lag_ms", "lag_records")
_SUMS = (
    "told",
    "records",
    "batches",
    "wire_bytes",
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
    chosen: int | None = choose((each for each in values if each is not None), default=None)
    return chosen
