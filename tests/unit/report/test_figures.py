"""Sums of a report."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.report.figures import ThroughputFigures, figures_of, total

_COUNT = st.integers(min_value=0, max_value=10**15)
_BUCKETS = st.dictionaries(st.sampled_from([0, 1, 10, 133, 1000]), st.integers(min_value=1, max_value=10**9))
FIGURES = st.builds(
    ThroughputFigures,
    records=_COUNT,
    wire_bytes=_COUNT,
    untold_records=_COUNT,
    latency_ms=_BUCKETS,
    lag_ms_max=st.none() | _COUNT,
    from_ms=st.none() | _COUNT,
    to_ms=st.none() | _COUNT,
)


def row(**changes: Any) -> dict[str, Any]:
    """A row of the aggregates: ten records of 100 bytes, that unpack to 300."""
    counts = {"told": 1, "records": 10, "batches": 2, "wire_bytes": 1000, "uncompressed_bytes": 3000}
    more = {"measured_bytes": 500, "restarts": 1, "untold_records": 4, "told_twice": 0, "mismatches": 0}
    lags = {"lag_ms": {0: 1}, "lag_records": None, "lag_ms_max": 0, "lag_records_max": None}
    return {**counts, **more, **lags, "latency_ms": {10: 10}, "from_ms": 5, "to_ms": 9, **changes}


def test_what_was_not_told_takes_the_mean() -> None:
    """Records are exact; bytes are the partition's mean, and its compression."""
    figures = figures_of(row())
    assert (figures.all_records, figures.all_wire_bytes, figures.untold_bytes) == (14, 1400, 400)
    assert figures.compression == 3.0
    assert figures.all_uncompressed_bytes == 4200
    plain = figures.plain()
    assert plain["latency_ms"] == {"p50": 10, "p95": 10, "p99": 10, "max": 10}
    assert plain["lag_records"] == {"p50": None, "p95": None, "p99": None, "max": None}
    assert plain["uncompressed_measured_share"] == 0.5


def test_nothing_copied_is_no_ratio() -> None:
    """Nor an error."""
    empty = figures_of(row(records=0, wire_bytes=0, uncompressed_bytes=0, latency_ms=None, untold_records=7))
    assert (empty.compression, empty.untold_bytes, empty.all_records) == (None, 0, 7)
    assert total([]).plain()["compression_ratio_estimated"] is None


@given(st.lists(FIGURES, max_size=5), st.lists(FIGURES, max_size=5))
def test_totals_of_totals_are_totals(one: list[ThroughputFigures], two: list[ThroughputFigures]) -> None:
    """A flow is the sum of its topics, a topic that of its partitions."""
    assert total([total(one), total(two)]) == total([*two, *one])
