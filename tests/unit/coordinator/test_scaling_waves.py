"""Load in waves, by the model of `make bench-elastic`: within the bounds, no flapping, lag as long as a start takes."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_ray.config.settings import ElasticSettings
from mirror_ray.lab.bench.elastic_model import FleetModel, fixed_fleet, replicator_hours, simulate, turns

HOUR_S = 3600
TERMS = ElasticSettings(min_replicators=1, max_replicators=10)


@settings(max_examples=25, deadline=None)
@given(
    period_s=st.integers(60, 1800),
    low=st.floats(0, 1),
    high=st.floats(1, 6),
    sharp=st.booleans(),
    start_s=st.integers(1, 30),
)
def test_waves(period_s: int, low: float, high: float, sharp: bool, start_s: int) -> None:
    """A wave turns the number twice at most; lag never passes the target and what one more start takes."""
    model = FleetModel(capacity=1000.0, start_s=float(start_s), partitions=20)

    def rate(now_s: float) -> float:
        swing = (1 - math.cos(2 * math.pi * now_s / period_s)) / 2
        return 1000 * (low + (high - low) * (float(swing > 0.5) if sharp else swing))

    seconds = simulate(TERMS, model, rate, HOUR_S)
    wanted = [second.wanted for second in seconds]
    assert all(1 <= number <= 10 for number in wanted)
    assert turns(wanted) <= 2 * math.ceil(HOUR_S / period_s)
    # Out by 43 % a time: four rounds from one to six, each of which takes the wait, a check and a start.
    rounds = 4 * (TERMS.scale_out_after_s + 5 + start_s)
    assert max(second.lag_s for second in seconds) <= TERMS.lag_seconds + rounds
    fixed = fixed_fleet(TERMS, model, max(second.arrived for second in seconds))
    assert replicator_hours(seconds) <= max(fixed + 2, 1)


def test_turns() -> None:
    """Directions are counted, not steps."""
    assert turns([1, 1, 2, 4, 4]) == 0
    assert turns([1, 3, 2, 2, 1, 2]) == 2


def test_a_start_that_takes_long_is_lag() -> None:
    """The model is no free lunch: what takes two minutes to come up lets records wait for as long."""
    slow = FleetModel(capacity=1000.0, start_s=120.0, partitions=20)
    quick = FleetModel(capacity=1000.0, start_s=1.0, partitions=20)
    lags = [max(second.lag_s for second in simulate(TERMS, one, lambda _: 3000.0, 1200)) for one in (slow, quick)]
    assert lags[0] > lags[1] + 60
