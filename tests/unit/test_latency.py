"""Latencies in buckets."""

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.latency import LATENCY_BOUNDS_MS, LatencyCounter, LatencyHistogram

_NOW_MS = 1_000_000_000_000
_BATCHES = st.lists(st.tuples(st.integers(-10_000, 200_000_000), st.integers(1, 500)))


@given(_BATCHES)
def test_every_record_is_in_the_bucket_that_its_latency_fits(batches: list[tuple[int, int]]) -> None:
    """As Prometheus counts them: bounds are inclusive."""
    counter = LatencyCounter(lambda: _NOW_MS)
    for latency_ms, records in batches:
        counter.acknowledged(_NOW_MS - latency_ms, records)
    found = counter.so_far()
    assert found.records == sum(records for _, records in batches)
    assert found.sum_ms == sum(max(0, latency_ms) * records for latency_ms, records in batches)
    for index, bound_ms in enumerate(LATENCY_BOUNDS_MS):
        assert sum(found.counts[: index + 1]) == sum(
            records for latency_ms, records in batches if latency_ms <= bound_ms
        )


@given(_BATCHES, _BATCHES)
def test_growth_is_what_came_after(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    """What a counter says later, less what it said before, is what was counted in between."""
    counter, alone = LatencyCounter(lambda: _NOW_MS), LatencyCounter(lambda: _NOW_MS)
    for latency_ms, records in first:
        counter.acknowledged(_NOW_MS - latency_ms, records)
    before = counter.so_far()
    for latency_ms, records in second:
        for counting in (counter, alone):
            counting.acknowledged(_NOW_MS - latency_ms, records)
    assert counter.so_far() - before == alone.so_far()
    assert before + alone.so_far() == counter.so_far()
    assert LatencyHistogram() + before == before
