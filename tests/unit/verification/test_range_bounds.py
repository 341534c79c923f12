"""What is not compared never passes for equal: it is missing, or the report says why it was left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.fault import FaultKind
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.segment import Segment
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import SkippedRange
from mirror_ray.transforms.chain import TransformChain
from mirror_ray.transforms.loading import TransformChains
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.range_bounds import (
    LogBounds,
    RangeEnd,
    RangeStart,
    UnknownStart,
    last_pair,
    range_end,
    transformed_starts,
    why_not_comparable,
    with_bounds,
)
from mirror_ray.verification.ranges import ComparedRange, PositionPair, cut
from mirror_ray.verification.report import VerifyReport
from tests.support.factories import partition_record
from tests.support.transforms import suffix, transforms

JOB = CompareJob(source=TopicPartition("orders", 0), target=TopicPartition("A.orders", 0))
WHOLE = LogBounds(0, 1000, 1000)
REACHED = PositionPair(1000, 1000)
MAP = [Segment(0, 0, 400, 0), Segment(400, 600, 400, 400)]


def _until(
    reached: PositionPair, source: LogBounds, target: LogBounds, segments: list[Segment] | None = None
) -> RangeEnd:
    found = range_end(reached, source, target, segments or [])
    assert isinstance(found, RangeEnd)
    return found


def _job(begin: tuple[int, int], source: LogBounds = WHOLE, target: LogBounds = WHOLE, first: int = 0) -> CompareJob:
    return with_bounds(JOB, RangeStart(PositionPair(*begin)), _until(REACHED, source, target), first)


def test_it_goes_as_far_as_the_copy_has_come() -> None:
    """What both logs hold behind that does not matter, nor does what an open transaction holds back there."""
    assert _until(PositionPair(900, 800), WHOLE, LogBounds(0, 1000, 850)) == RangeEnd(
        PositionPair(900, 800), PositionPair(900, 800)
    )


def test_a_target_that_lost_everything_is_compared() -> None:
    """With an empty side, so that all is missing."""
    assert _until(REACHED, WHOLE, LogBounds(0, 0, 0)).lost
    job = _job((0, 0), target=LogBounds(0, 0, 0))
    assert job.reason is None
    assert "the target ends at 0" in job.notes[0]
    assert cut([], job.begin, job.end, 10_000) == [ComparedRange(0, 1000, 0, 0)]


def test_a_target_that_lost_its_end_and_its_beginning_is_compared() -> None:
    """What the source still holds is missing."""
    job = _job((700, 700), LogBounds(700, 1000, 1000), LogBounds(0, 500, 500), 700)
    assert cut([], job.begin, job.end, 10_000) == [ComparedRange(700, 1000, 500, 500)]


@pytest.mark.parametrize(("begin", "end"), [(0, 0), (950, 900)])
def test_a_source_that_lost_everything_is_not_checked(begin: int, end: int) -> None:
    """There is nothing to compare the target with."""
    job = _job((begin, begin), LogBounds(0, end, end))
    assert job.verdict().outcome == "not_checked"
    assert f"the source ends at {end}" in job.verdict().text


def test_an_open_transaction_of_another_writer_holds_back_what_was_copied() -> None:
    """It is cut back to the last pair before it, with a note; where nothing is left it is not checked."""
    reached, source = PositionPair(800, 1000), LogBounds(0, 800, 800)
    until = _until(reached, source, LogBounds(0, 1000, 700), MAP)
    assert until[:2] == (PositionPair(500, 700), PositionPair(500, 700))
    assert not until.lost
    job = with_bounds(JOB, RangeStart(PositionPair(0, 0)), until, 0)
    assert "source offsets 500 to 800 were not compared: another writer's open transaction" in job.notes[0]
    nothing = with_bounds(JOB, RangeStart(PositionPair(0, 0)), _until(reached, source, LogBounds(0, 1000, 0), MAP), 0)
    assert nothing.verdict().outcome == "not_checked"
    assert "verify again" in str(range_end(reached, source, LogBounds(0, 1000, 700), []))


@given(st.integers(0, 1200))
def test_the_last_pair_is_exact(target: int) -> None:
    """Inside a segment, or at its end: behind that it is not known whose the records are."""
    found = last_pair(MAP, target)
    assert found is not None
    assert found.target <= target
    # At 600 the second segment begins, and so the place of what others wrote before it ends.
    first, second = MAP
    exact = [PositionPair(first.source + n, first.target + n) for n in range(401)]
    exact += [PositionPair(second.source + n, second.target + n) for n in range(1, 401)]
    assert found == max(pair for pair in exact if pair.target <= target)


def test_what_retention_took_of_the_target_is_noted() -> None:
    """Nothing of it is on both sides."""
    job = _job((9999, 9999), target=LogBounds(1000, 1000, 1000))
    assert (job.begin, job.end, job.reason) == (REACHED, REACHED, None)
    assert "source offsets 0 to 1000 were not compared: they are not on the target any more" in job.notes
    source = _job((9999, 9999), LogBounds(1000, 1000, 1000), first=1000)
    assert (source.notes, source.verdict().outcome) == ((), "equal")


def test_target_records_without_a_place_on_the_source_are_not_equal() -> None:
    """Pairs that contradict each other."""
    assert "target offsets 900 to 1000 have no place on the source" in _job((1000, 900), first=1000).verdict().text


def test_where_it_begins_may_not_be_known() -> None:
    """What is to be said of its end is kept."""
    job = with_bounds(JOB, UnknownStart("why"), _until(REACHED, WHOLE, LogBounds(0, 10, 10)), 0)
    assert job.reason == "why"
    assert len(job.notes) == 1


@pytest.mark.parametrize("kind", ["target_missing", "target_recreated"])
def test_what_a_new_remote_topic_began_without_is_explained(kind: FaultKind) -> None:
    """By the gap of the answer that left it out; without one it was just not copied."""
    gap = SkippedRange(kind=kind, policy="skip", text="it was deleted", time_ms=5)
    begin = RangeStart(PositionPair(600, 0), None, (0, 600))
    until = _until(PositionPair(1000, 400), WHOLE, LogBounds(0, 400, 400))
    verdict = with_bounds(replace(JOB, skipped_ranges=(gap,)), begin, until, 0).verdict()
    assert verdict.outcome == "explained"
    assert verdict.text == (
        f"orders-0: source offsets 0 to 600 are not on the target (known: {kind}, answered by skip: it was deleted)"
    )
    assert verdict.plain()["left_out"]
    for gaps in ((), (SkippedRange(kind=kind, policy="resync", text="it was deleted", time_ms=5),)):
        job = with_bounds(replace(JOB, skipped_ranges=gaps), begin, until, 0)
        assert job.verdict().outcome == "equal"
        assert job.notes == ("source offsets 0 to 600 were not copied: copying began there",)


def test_a_new_remote_topic_in_which_is_nothing_yet_is_explained() -> None:
    """There is no range to compare."""
    gap = SkippedRange(kind="target_missing", policy="skip", text="it was deleted", time_ms=5)
    until = _until(PositionPair(1000, 0), WHOLE, LogBounds(0, 0, 0))
    begin = RangeStart(PositionPair(9999, 9999), None, (0, 1000))
    job = with_bounds(replace(JOB, skipped_ranges=(gap,)), begin, until, 0)
    assert (job.begin, job.verdict().outcome) == (job.end, "explained")


def test_a_report_of_nothing_is_not_equal() -> None:
    """Nothing was compared."""
    assert not VerifyReport(flow="A->B", sample=1, partitions=()).equal


RECORD = partition_record(source_offset=90, target_offset=40)


def _chain(kind: str = "Suffix") -> TransformChain:
    chain = TransformChains(transforms(suffix(kind=kind)).steps).chain("t")
    assert chain is not None
    return chain


def _why(chain: TransformChain | None, record: PartitionRecord | None, *, compacted: bool = False) -> str:
    return why_not_comparable(chain, record, compacted=compacted) or ""


def test_without_transforms_nothing_stands_against_it() -> None:
    """Whatever the topic is like."""
    assert _why(None, None) == _why(None, RECORD, compacted=True) == ""


def test_by_the_transforms_that_it_was_copied_by() -> None:
    """And only if these tell the same again, of all that was copied."""
    chain, impure = _chain(), _chain("Impure")
    record = replace(RECORD, transforms=chain.identity)
    assert _why(chain, record) == ""
    assert "compacted" in _why(chain, record, compacted=True)
    assert "not pure" in _why(impure, replace(RECORD, transforms=impure.identity))
    assert "has nothing about it" in _why(chain, None)
    assert "compare it with the configuration" in _why(chain, RECORD)
    assert chain.identity in _why(None, record)


def test_what_other_transforms_have_made_is_left_out() -> None:
    """From the pair on since which they hold; a log that begins later begins there."""
    changed = replace(RECORD, transforms_source_offset=50, transforms_target_offset=20)
    assert transformed_starts(RECORD, (3, 4)) == transformed_starts(None, (3, 4)) == ((3, 4), None)
    starts, note = transformed_starts(changed, (3, 30))
    assert starts == (50, 30)
    assert "source offsets 3 to 50 were not compared" in (note or "")
    assert transformed_starts(changed, (60, 30)) == ((60, 30), None)
