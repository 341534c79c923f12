"""Whether a lag grows."""

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.coordinator.observed import LagTrend


def _seen(lags: list[int], window_s: float = 60.0) -> LagTrend:
    trend = LagTrend(window_s)
    for second, lag in enumerate(lags):
        trend.sample(float(second), lag)
    return trend


def test_a_lag_that_grows_all_the_time_is_seen_after_the_window() -> None:
    """And not before."""
    assert not _seen(list(range(1000, 1060))).growing
    assert _seen(list(range(1000, 1062))).growing


@given(st.lists(st.integers(0, 1_000_000), min_size=1, max_size=300))
def test_a_lag_that_comes_to_nothing_now_and_then_does_not_grow(lags: list[int]) -> None:
    """Bursts that are caught up with, however large: at most ten seconds lie between two ends of them."""
    bursts = [0 if second % 10 == 0 else lag for second, lag in enumerate(lags)]
    assert not _seen(bursts).growing


@given(st.integers(0, 10**9))
def test_a_lag_that_stays_does_not_grow(lag: int) -> None:
    """A steady load has a steady lag."""
    assert not _seen([lag] * 200).growing


def test_a_pause_in_the_looks_begins_anew() -> None:
    """What was before says nothing of now."""
    trend = _seen(list(range(1000, 1062)))
    trend.sample(200.0, 5000)
    assert not trend.growing
