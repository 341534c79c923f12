"""Sums, histograms and steps of a report."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.records.statistics import LATENCY_BOUNDS_MS, latency_bucket
from mirror_ray.report.figures import STEPS_MS, ThroughputFigures, figures_of, merged, percentile, step_of, total
from mirror_ray.report.json_document import make_document
from tests.support.report import BEGIN_MS, aggregates, asked, found, partition

_COUNT = st.integers(min_value=0, max_value=10**15)
_BUCKETS = st.dictionaries(st.sampled_from([0, 1, 10, 133, 1000]), st.integers(min_value=1, max_value=10**9))
FIGURES = st.builds(
    ThroughputFigures,
    records=_COUNT,
    wire_bytes=_COUNT,
    source_bytes=_COUNT,
    untold_records=_COUNT,
    latency_ms=_BUCKETS,
    lag_ms_max=st.none() | _COUNT,
    from_ms=st.none() | _COUNT,
    to_ms=st.none() | _COUNT,
)


def row(**changes: Any) -> dict[str, Any]:
    """A row of the aggregates: ten records of 100 bytes, that unpack to 300."""
    counts = {"told": 1, "records": 10, "batches": 2, "wire_bytes": 1000, "source_bytes": 2500}
    more = {
        "uncompressed_bytes": 3000,
        "measured_bytes": 500,
        "restarts": 1,
        "untold_records": 4,
        "told_twice": 0,
        "mismatches": 0,
    }
    lags = {"lag_ms": {0: 1}, "lag_records": None, "lag_ms_max": 0, "lag_records_max": None}
    return {**counts, **more, **lags, "latency_ms": {10: 10}, "from_ms": 5, "to_ms": 9, **changes}


def test_what_was_not_told_takes_the_mean() -> None:
    """Records are exact; bytes are the partition's mean, and its compression."""
    figures = figures_of(row())
    assert (figures.all_records, figures.all_wire_bytes, figures.untold_bytes) == (14, 1400, 400)
    assert figures.compression == 3.0
    assert figures.all_uncompressed_bytes == 4200
    assert figures.plain()["source_bytes"] == 3500
    plain = figures.plain()
    assert plain["latency_ms"] == {"p50": 10, "p95": 10, "p99": 10, "max": 10}
    assert plain["lag_records"] == {"p50": None, "p95": None, "p99": None, "max": None}
    assert plain["uncompressed_measured_share"] == 0.5


def test_nothing_copied_is_no_ratio() -> None:
    """Nor an error."""
    empty = figures_of(row(records=0, wire_bytes=0, uncompressed_bytes=0, latency_ms=None, untold_records=7))
    assert empty.all_source_bytes == 0
    assert (empty.compression, empty.untold_bytes, empty.all_records) == (None, 0, 7)
    assert total([]).plain()["compression_ratio_estimated"] is None


@given(st.lists(FIGURES, max_size=5), st.lists(FIGURES, max_size=5))
def test_totals_of_totals_are_totals(one: list[ThroughputFigures], two: list[ThroughputFigures]) -> None:
    """A flow is the sum of its topics, a topic that of its partitions."""
    assert total([total(one), total(two)]) == total([*two, *one])


_S, _MIN, _H = 1000, 60_000, 3_600_000


def test_each_step_divides_the_next() -> None:
    """So that an interval within one is within one of every longer length."""
    assert all(longer % shorter == 0 for shorter, longer in pairwise(STEPS_MS))


@pytest.mark.parametrize(
    ("length_ms", "interval_step_ms", "step_ms"),
    [
        (20 * _MIN, 10 * _S, 10 * _S),
        (20 * _MIN, 60 * _S, 60 * _S),
        (1, _H, _H),
        (180 * _MIN, 60 * _S, 60 * _S),
        (181 * _MIN, 60 * _S, 300 * _S),
        (24 * _H, _H, _H),
        (10_000 * 24 * _H, 60 * _S, 7 * 24 * _H),
    ],
)
def test_a_step_holds_whole_intervals(length_ms: int, interval_step_ms: int, step_ms: int) -> None:
    """A minute told at once is not shown as ten seconds in which six times as much was copied."""
    assert step_of(length_ms, interval_step_ms) == step_ms


def test_what_is_shown_of_a_step_makes_its_rate() -> None:
    """An hour in one step of three hours: its peak is its average."""
    one = {"step": BEGIN_MS - BEGIN_MS % 10_800_000, **aggregates(60)}
    made = make_document(asked(), found(partition(scale=60), steps=[one], step_ms=10_800_000))
    assert made["peak"]["records_per_s"] == made["total"]["records_per_s"]


VALUES = st.lists(st.integers(min_value=0, max_value=LATENCY_BOUNDS_MS[-1]), min_size=1, max_size=200)


def histogram(values: list[int]) -> dict[int, int]:
    """As a replicator counts them."""
    return dict(Counter(map(latency_bucket, values)))


@given(VALUES, st.integers(min_value=0, max_value=100))
def test_a_percentile_is_the_bucket_of_the_exact_one(values: list[int], percent: int) -> None:
    """So the exact one is at most what is said, and above the bound before."""
    rank = max(1, math.ceil(len(values) * percent / 100))
    exact = sorted(values)[rank - 1]
    said = percentile(histogram(values), percent)
    assert said == latency_bucket(exact)
    assert exact <= said


@given(VALUES, VALUES, VALUES)
def test_merging_is_counting_all_at_once(one: list[int], two: list[int], three: list[int]) -> None:
    """In any order."""
    parts = [histogram(values) for values in (one, two, three)]
    assert merged(parts) == merged(reversed(parts)) == dict(sorted(histogram(one + two + three).items()))


def test_of_nothing_there_is_none() -> None:
    """Unknown is not 0."""
    assert percentile({}, 50) is None
    assert percentile({10: 0}, 50) is None
    assert merged([]) == {}
