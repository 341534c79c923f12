"""Percentiles from histograms against exact ones."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.records.statistics import LATENCY_BOUNDS_MS, latency_bucket
from mirror_ray.report.figures import merged, percentile

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


def test_by_hand() -> None:
    """Nearest rank: of a hundred values the 99th."""
    hundred = {1: 50, 10: 45, 100: 4, 1000: 1}
    assert [percentile(hundred, percent) for percent in (50, 51, 95, 96, 99, 100)] == [1, 10, 10, 100, 100, 1000]
