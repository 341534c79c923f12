"""Every target offset up to the end is compared, known to the map, or read; the rest is numbers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.names import TopicPartition
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.range_bounds import LogBounds
from mirror_ray.verification.ranges import ComparedRange, PositionPair, subtract_spans
from mirror_ray.verification.report import UncomparedAccount
from mirror_ray.verification.uncompared import with_uncompared
from tests.support.factories import compare_job, partition_record


def with_logs(job: CompareJob, **changes: Any) -> CompareJob:
    """Source 30 to 100, target 20 to 90; acknowledged are 95 and 80; copying began at 5 and 10."""
    known: dict[str, Any] = {
        "reached": PositionPair(95, 80),
        "source": LogBounds(30, 100, 100),
        "target": LogBounds(20, 90, 90),
        "target_end": 85,
        "record": partition_record(origin_source_offset=5, origin_target_offset=10),
        "mapped": (),
    }
    return with_uncompared(job, **{**known, **changes})


def test_in_front_and_behind() -> None:
    """What the source has removed, and what was not acknowledged; what came since is not looked at."""
    found = with_logs(compare_job(PositionPair(30, 25), PositionPair(95, 80)))
    assert found.uncompared == ((20, 25), (80, 85))
    assert found.account == UncomparedAccount(not_copied=5, removed_on_source=5)
    assert (found.acknowledged, found.copy_start, found.source_end) == (PositionPair(95, 80), 10, 100)


def test_the_map_accounts_for_what_was_acknowledged_alone() -> None:
    """Behind it, it says nothing that is not to be looked at."""
    found = with_logs(compare_job(PositionPair(30, 25), PositionPair(95, 80)), mapped=[(15, 24), (70, 84)])
    assert found.uncompared == ((24, 25), (80, 85))


def test_before_copying_began() -> None:
    """Of both sides, where that is still there."""
    found = with_logs(
        compare_job(PositionPair(40, 30), PositionPair(95, 80)),
        record=partition_record(origin_source_offset=40, origin_target_offset=30),
    )
    assert found.account == UncomparedAccount(not_copied=5, before_copy=10, before_copy_target=10)


def test_what_the_target_removed() -> None:
    """The source has it still."""
    found = with_logs(compare_job(PositionPair(50, 20), PositionPair(95, 80)))
    assert (found.uncompared, found.account) == (((80, 85),), UncomparedAccount(not_copied=5, removed_on_target=20))


def test_nothing_was_copied() -> None:
    """All of the source is to come."""
    found = with_logs(CompareJob(source=TopicPartition("t", 0), target=TopicPartition("A.t", 0)), reached=None)
    assert (found.uncompared, found.account) == ((), UncomparedAccount(not_copied=70))


def test_what_could_not_be_compared_is_looked_at_behind_the_acknowledged() -> None:
    """And with headers alone, from the beginning."""
    nothing = CompareJob(source=TopicPartition("t", 0), target=TopicPartition("A.t", 0), reason="not known")
    assert with_logs(nothing).uncompared == ((80, 85),)
    assert with_logs(nothing, headers_only=True, mapped=[(0, 60)]).uncompared == ((60, 85),)
    since = with_logs(compare_job(PositionPair(60, 50), PositionPair(95, 80)), since=True)
    assert (since.uncompared, since.account) == (((80, 85),), UncomparedAccount(not_copied=5))


def test_a_shared_topic() -> None:
    """Between the ranges lie others' records, which the maps of all that is copied there account for, or none."""
    ranges = ComparedRange(30, 60, 25, 40), ComparedRange(60, 95, 60, 80)
    shared = {"record": partition_record(shared=True), "mapped": [(40, 50), (82, 85)]}
    found = with_logs(compare_job(PositionPair(30, 25), PositionPair(95, 80), *ranges), **shared)
    assert found.uncompared == ((20, 25), (50, 60), (80, 82))


@given(
    covered=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6),
    span=st.tuples(st.integers(0, 50), st.integers(0, 50)),
)
def test_a_span_less_others(covered: list[tuple[int, int]], span: tuple[int, int]) -> None:
    """Each offset that is left is in none of them, and none is missing."""
    spans = [(first, end) for first, end in covered if first < end]
    left = {at for first, end in subtract_spans(span, spans) for at in range(first, end)}
    assert left == set(range(*span)) - {at for first, end in spans for at in range(first, end)}
