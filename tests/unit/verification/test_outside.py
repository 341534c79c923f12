"""Every target offset up to the end is compared, known to the map, or read; the rest is numbers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.names import TopicPartition
from mirror_ray.verification.account import Account, Writers, without
from mirror_ray.verification.between import Bounds
from mirror_ray.verification.job import Job
from mirror_ray.verification.outside import Outside, with_outside
from mirror_ray.verification.ranges import Pair, Range
from tests.unit.verification.test_account import record


def job(begin: Pair, end: Pair, *ranges: Range, **changes: Any) -> Job:
    """One that compares what lies between."""
    ranges = ranges or (Range(begin.source, end.source, begin.target, end.target),)
    return Job(
        source=TopicPartition("t", 0), target=TopicPartition("A.t", 0), begin=begin, end=end, ranges=ranges, **changes
    )


def outside(**changes: Any) -> Outside:
    """Source 30 to 100, target 20 to 90; acknowledged are 95 and 80; copying began at 5 and 10."""
    known: dict[str, Any] = {
        "reached": Pair(95, 80),
        "source": Bounds(30, 100, 100),
        "target": Bounds(20, 90, 90),
        "target_end": 85,
        "record": record(origin_source_offset=5, origin_target_offset=10),
        "writers": Writers(),
        "mapped": (),
    }
    return Outside(**{**known, **changes})


def test_in_front_and_behind() -> None:
    """What the source has removed, and what was not acknowledged; what came since is not looked at."""
    found = with_outside(job(Pair(30, 25), Pair(95, 80)), outside())
    assert found.beside == ((20, 25), (80, 85))
    assert found.account == Account(not_copied=5, removed_on_source=5)
    assert (found.copied, found.origin, found.source_end) == (Pair(95, 80), 10, 100)


def test_the_map_accounts_for_what_was_acknowledged_alone() -> None:
    """Behind it, it says nothing that is not to be looked at."""
    found = with_outside(job(Pair(30, 25), Pair(95, 80)), outside(mapped=[(15, 24), (70, 84)]))
    assert found.beside == ((24, 25), (80, 85))


def test_before_copying_began() -> None:
    """Of both sides, where that is still there."""
    found = with_outside(
        job(Pair(40, 30), Pair(95, 80)), outside(record=record(origin_source_offset=40, origin_target_offset=30))
    )
    assert found.account == Account(not_copied=5, before_copy=10, before_copy_target=10)


def test_what_the_target_removed() -> None:
    """The source has it still."""
    found = with_outside(job(Pair(50, 20), Pair(95, 80)), outside())
    assert (found.beside, found.account) == (((80, 85),), Account(not_copied=5, removed_on_target=20))


def test_nothing_was_copied() -> None:
    """All of the source is to come."""
    found = with_outside(Job(source=TopicPartition("t", 0), target=TopicPartition("A.t", 0)), outside(reached=None))
    assert (found.beside, found.account) == ((), Account(not_copied=70))


def test_what_could_not_be_compared_is_looked_at_behind_the_acknowledged() -> None:
    """And with headers alone, from the beginning."""
    nothing = Job(source=TopicPartition("t", 0), target=TopicPartition("A.t", 0), reason="not known")
    assert with_outside(nothing, outside()).beside == ((80, 85),)
    assert with_outside(nothing, outside(headers_alone=True, mapped=[(0, 60)])).beside == ((60, 85),)
    since = with_outside(job(Pair(60, 50), Pair(95, 80)), outside(since=True))
    assert (since.beside, since.account) == (((80, 85),), Account(not_copied=5))


def test_a_shared_topic() -> None:
    """Between the ranges lie others' records, which the maps of all that is copied there account for, or none."""
    ranges = Range(30, 60, 25, 40), Range(60, 95, 60, 80)
    seen = outside(record=record(shared=True), mapped=[(40, 50), (82, 85)])
    found = with_outside(job(Pair(30, 25), Pair(95, 80), *ranges), seen)
    assert found.beside == ((20, 25), (50, 60), (80, 82))


@given(
    covered=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6),
    span=st.tuples(st.integers(0, 50), st.integers(0, 50)),
)
def test_a_span_less_others(covered: list[tuple[int, int]], span: tuple[int, int]) -> None:
    """Each offset that is left is in none of them, and none is missing."""
    spans = [(first, end) for first, end in covered if first < end]
    left = {at for first, end in without(span, spans) for at in range(first, end)}
    assert left == set(range(*span)) - {at for first, end in spans for at in range(first, end)}
