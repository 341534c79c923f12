"""How many replicators there should be: single decisions, and hours of load in a simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mirror_ray.config.settings import ElasticSettings
from mirror_ray.coordinator.scaling_rules import ElasticScaler, FlowLag, ScalingDecision, SystemLoad

TERMS = ElasticSettings(min_replicators=1, max_replicators=6)
STEP_S = 5.0
EVEN = (100.0,) * 12


def _load(wanted: int, *cpus: float, **more: Any) -> SystemLoad:
    return SystemLoad(wanted=wanted, cpus=cpus, **{"rates": EVEN, **more})


def _behind(seconds: float, records: int) -> tuple[FlowLag, ...]:
    return (FlowLag(flow="A->B", records=records, seconds=seconds),)


def _decided(
    elastic: ElasticScaler, for_s: float, load: SystemLoad | Callable[[float], SystemLoad], start_s: float = 0.0
) -> ScalingDecision:
    """The first outcome that is news, or the last one."""
    steps = int(for_s / STEP_S)
    for step in range(steps + 1):
        now_s = start_s + step * STEP_S
        outcome = elastic.decide(now_s, load if isinstance(load, SystemLoad) else load(now_s))
        if outcome.news:
            return outcome
    return outcome


def test_busy_replicators_get_more_after_a_while() -> None:
    """At 92 % of a core with 70 as the aim, two become three, not before 15 s, and the reason says what was seen."""
    elastic = ElasticScaler(TERMS)
    assert _decided(elastic, 10, _load(2, 0.92, 0.92)).replicators == 2
    outcome = elastic.decide(15.0, _load(2, 0.92, 0.92))
    assert outcome == ScalingDecision(replicators=3, why="replicators at 92% of a core", news=True)


def test_many_saturated_replicators_get_several_at_once() -> None:
    """The step is in proportion: four at their limit ask for six."""
    assert _decided(ElasticScaler(TERMS), 15, _load(4, 1.0, 1.0, 1.0, 1.0)).replicators == 6


def test_one_quiet_sample_begins_the_wait_anew() -> None:
    """A burst that does not last changes nothing."""
    elastic = ElasticScaler(TERMS)
    outcome = _decided(elastic, 600, lambda now_s: _load(2, *((0.9, 0.9) if now_s % 15 else (0.6, 0.6))))
    assert outcome.replicators == 2


def test_a_flow_that_falls_behind_counts_when_replicators_are_half_busy() -> None:
    """Behind and growing at 40 % of a core: one more; the sentence names the flow, the delay and the trend."""
    outcome = _decided(
        ElasticScaler(TERMS), 20, lambda now_s: _load(2, 0.4, 0.4, flows=_behind(95 + now_s, 1000 + int(now_s)))
    )
    assert outcome.replicators == 3
    assert outcome.why == "A->B is 115 s behind and growing, replicators at 40% of a core"


def test_old_records_that_do_not_wait_do_not_count() -> None:
    """A few records of last year under way, now more and now fewer: a thousand a second are copied as they come."""
    outcome = _decided(
        ElasticScaler(TERMS),
        60,
        lambda now_s: _load(
            2, 0.5, 0.5, flows=(FlowLag(flow="A->B", records=int(now_s) % 7, seconds=3e7, copied=1000 * int(now_s)),)
        ),
    )
    assert outcome == ScalingDecision(replicators=2, why="replicators at 50% of a core")


def test_a_flow_that_catches_up_soon_does_not_count() -> None:
    """Records of a year ago are no reason, when the rest of them takes half a minute."""
    outcome = _decided(
        ElasticScaler(TERMS), 20, lambda now_s: _load(2, 0.5, 0.5, flows=_behind(3e7, 100_000 - 2_000 * int(now_s)))
    )
    assert outcome.replicators == 2
    assert not outcome.news


@pytest.mark.parametrize(("buffered", "who"), [(0.9, "the target takes no more"), (0.1, "the source gives no more")])
def test_what_holds_up_idle_replicators_is_reported_once(buffered: float, who: str) -> None:
    """Behind at 5 % of a core: no replicator more and none less, and one line that says where to look."""
    elastic = ElasticScaler(TERMS)

    def load(now_s: float) -> SystemLoad:
        return _load(2, 0.05, 0.05, flows=_behind(500 + now_s, 1000 + int(now_s)), buffered=buffered)

    outcome = _decided(elastic, 20, load)
    assert (outcome.replicators, outcome.news) == (2, True)
    assert who in outcome.why
    assert not _decided(elastic, 3600, load, start_s=25.0).news


def test_one_busy_partition_is_not_divided() -> None:
    """All of the load in one of twelve partitions: more would not help, and that is what is reported."""
    outcome = _decided(ElasticScaler(TERMS), 15, _load(1, 1.0, rates=(9e6, *(0.0,) * 11)))
    assert (outcome.replicators, outcome.news) == (1, True)
    assert "a partition has one replicator" in outcome.why


def test_at_the_upper_bound_it_says_so() -> None:
    """Six allowed, six saturated."""
    outcome = _decided(ElasticScaler(TERMS), 15, _load(6, *(1.0,) * 6))
    assert (outcome.replicators, outcome.news) == (6, True)
    assert "max_replicators is 6" in outcome.why


def test_in_one_at_a_time_and_slowly() -> None:
    """Four that use a tenth of a core: one less after five minutes, the next after five more."""
    elastic = ElasticScaler(TERMS)
    assert not _decided(elastic, 295, _load(4, *(0.025,) * 4)).news
    outcome = elastic.decide(300.0, _load(4, *(0.025,) * 4))
    assert outcome == ScalingDecision(replicators=3, why="fewer do: all of them use 10% of a core", news=True)
    assert not _decided(elastic, 295, _load(3, *(0.03,) * 3), start_s=305.0).news
    assert elastic.decide(605.0, _load(3, *(0.03,) * 3)).replicators == 2


def test_nothing_is_decided_while_one_is_coming_up() -> None:
    """Two wanted, one up: what that one uses says nothing."""
    outcome = _decided(ElasticScaler(TERMS), 3600, _load(2, 1.0))
    assert outcome == ScalingDecision(replicators=2, why="1 of 2 replicators are up")


def test_a_standstill_of_the_coordinator_is_no_load() -> None:
    """What was seen before and after a long silence is not one stretch."""
    elastic = ElasticScaler(TERMS)
    assert not elastic.decide(0.0, _load(1, 1.0)).news
    assert not elastic.decide(3600.0, _load(1, 1.0)).news


def test_bounds() -> None:
    """The number stays within them; without an upper one there is nothing to follow; crossed ones are refused."""
    assert [TERMS.bounded(number) for number in (0, 1, 6, 9)] == [1, 1, 6, 6]
    assert not ElasticSettings(min_replicators=3).on
    assert ElasticSettings(min_replicators=3).bounded(1) == 1
    assert not ElasticSettings(min_replicators=3, max_replicators=3).on
    with pytest.raises(ValidationError, match="max_replicators is 2, below min_replicators 3"):
        ElasticSettings(min_replicators=3, max_replicators=2)


def _simulate(demand: Callable[[float], float], for_s: float, terms: ElasticSettings, partitions: int) -> list[int]:
    """The numbers at each step. ``demand``: cores' worth of records that come in; what is not copied waits."""
    elastic = ElasticScaler(terms)
    now, backlog, numbers = terms.min_replicators, 0.0, []
    for step in range(int(for_s / STEP_S)):
        due = demand(step * STEP_S) + backlog / STEP_S
        done = min(due, float(min(now, partitions)))
        backlog = (due - done) * STEP_S
        flows = (FlowLag(flow="A->B", records=int(backlog * 1e6), seconds=backlog),)
        load = SystemLoad(wanted=now, cpus=(done / now,) * now, rates=(done + 1e-3,) * partitions, flows=flows)
        now = elastic.decide(step * STEP_S, load).replicators
        numbers.append(now)
    return numbers


def _changes(numbers: list[int]) -> int:
    return sum(one != other for one, other in itertools.pairwise(numbers))


@settings(max_examples=40)
@given(demand=st.floats(0, 10), partitions=st.integers(1, 20))
def test_a_constant_load_comes_to_rest(demand: float, partitions: int) -> None:
    """The number grows, a few come in when what waited has been copied, and from then on it stays."""
    numbers = _simulate(lambda _: demand, 2 * 3600, TERMS, partitions)
    most = min(6, partitions)
    peak = numbers.index(max(numbers))
    assert numbers[:peak] == sorted(numbers[:peak])
    assert numbers[peak:] == sorted(numbers[peak:], reverse=True)
    assert max(numbers) <= most
    assert demand / numbers[-1] <= TERMS.target_cpu + 1e-6 or numbers[-1] == most
    assert len(set(numbers[-200:])) == 1


@settings(max_examples=40)
@given(low=st.floats(0, 1), high=st.floats(2, 4))
def test_a_step_up_and_down(low: float, high: float) -> None:
    """Two minutes after the load has come the number is right; after it has gone it comes back, and never swings."""
    part_s = 1200.0
    numbers = _simulate(lambda now_s: high if part_s <= now_s < 2 * part_s else low, 4 * part_s, TERMS, 12)
    at = {when: numbers[int(when / STEP_S) - 1] for when in (part_s, part_s + 120, 2 * part_s, 4 * part_s)}
    assert at[part_s + 120] >= min(6, math.ceil(high / TERMS.target_cpu - 1e-6))
    assert at[4 * part_s] <= max(at[part_s], math.ceil(low / (0.8 * TERMS.target_cpu)))
    ups, downs = numbers[: int(2 * part_s / STEP_S)], numbers[int(2 * part_s / STEP_S) + 1 :]
    assert _changes(downs) == downs[0] - downs[-1]
    assert _changes(ups) <= 6


@settings(max_examples=40)
@given(
    period_s=st.floats(10, 1500),
    low=st.floats(0, 2),
    high=st.floats(2, 5),
    noise=st.lists(st.floats(0, 0.5), min_size=7, max_size=7),
)
def test_a_load_that_swings_does_not_make_the_number_swing(
    period_s: float, low: float, high: float, noise: list[float]
) -> None:
    """Inwards at most once in five minutes, so outwards not more often than that and the way up; within the bounds."""
    for_s = 2 * 3600.0

    def demand(now_s: float) -> float:
        swing = (1 + math.sin(2 * math.pi * now_s / period_s)) / 2
        return low + (high - low) * swing + noise[int(now_s / STEP_S) % 7]

    numbers = _simulate(demand, for_s, TERMS, 12)
    inwards = sum(later < one for one, later in itertools.pairwise(numbers))
    assert inwards <= for_s / TERMS.scale_in_after_s
    assert _changes(numbers) <= 2 * inwards + 6
    assert all(1 <= number <= 6 for number in numbers)
    if period_s < TERMS.scale_in_after_s / 2:
        # Faster than it comes in: it has the number for the peaks, and leaves it alone.
        assert _changes(numbers) <= 8
