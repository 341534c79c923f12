"""What is told of a copy's offsets, against what was copied."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.replication.segment_log import BLOCK_SEGMENTS, SegmentLog
from tests.support.factories import assignment


def _log() -> SegmentLog:
    return SegmentLog(assignment("orders", 3, epoch=7))


@given(
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.booleans()), max_size=60),
    scale=st.sampled_from([1, 40]),
    first=st.sampled_from([0, SEQUENCE_MODULUS - 20]),
)
def test_all_that_was_acknowledged_is_told(steps: list[tuple[int, int, bool]], scale: int, first: int) -> None:
    """Every record once, at its place; what does not change is not told again."""
    log, told, truth = _log(), dict[object, SegmentBlock](), dict[int, int]()
    log.begin(OffsetPair(0, first))
    source, target = 0, first
    for hole, count, take in [step for step in steps for _ in range(scale)]:
        source += hole
        log.add([(source, count)], target, target % SEQUENCE_MODULUS)
        truth |= {source + i: target + i for i in range(count)}
        source, target = source + count, target + count
        if take:
            told |= {block.key: block for block in log.take(source)}
    told |= {block.key: block for block in log.take(source)}
    assert log.take(source) == []
    blocks = list(told.values())
    segments = [segment for block in blocks for segment in block.segments]
    assert {s.source + i: s.target + i for s in segments for i in range(s.length)} == truth
    assert all(segment.number == segment.target % SEQUENCE_MODULUS for segment in segments)
    assert all(len(block.segments) <= BLOCK_SEGMENTS for block in blocks)


def test_a_contiguous_source_is_one_segment_that_grows() -> None:
    """Under one key, so that the topic holds one record of it."""
    log = _log()
    log.begin(OffsetPair(10, 0))
    keys = set()
    for number in range(3):
        log.add([(10 + 5 * number, 5)], 5 * number, 5 * number)
        (block,) = log.take(15 + 5 * number)
        keys.add(block.key)
    assert block.segments == (Segment(10, 0, 15, 0),)
    assert len(keys) == 1


def test_a_hole_at_the_end_is_told() -> None:
    """A group that stands behind a transaction's marker has read everything."""
    log = _log()
    log.begin(OffsetPair(0, 0))
    log.add([(0, 5)], 0, 0)
    assert [block.source_next for block in log.take(5)] == [5]
    assert [block.source_next for block in log.take(6)] == [6]
    assert log.take(6) == []


def test_what_nobody_takes_is_given_up_at_last() -> None:
    """Memory is bounded where the segments topic can't be written for hours."""
    log = _log()
    log.begin(OffsetPair(0, 0))
    for number in range(800 * BLOCK_SEGMENTS):
        log.add([(2 * number, 1)], number, number)
    blocks = log.take(1600 * BLOCK_SEGMENTS)
    assert len(blocks) < 600
    assert blocks[-1].segments[-1].target == 800 * BLOCK_SEGMENTS - 1


def _told(log: SegmentLog, source_next: int) -> list[Segment]:
    return [segment for block in log.take(source_next) for segment in block.segments]


def test_where_copying_begins_is_told_before_anything_is_copied() -> None:
    """Behind a pair that is known there may be records of an earlier life."""
    log = _log()
    log.begin(OffsetPair(10, 4, 3))
    (block,) = log.take(10)
    assert block.segments == (Segment(10, 4, 0, 3),)
    assert (block.source, block.epoch) == (TopicPartition("orders", 3), 7)
    assert (block.source_topic_id, block.target_topic_id) == ("s", "r")


def test_a_segment_ends_where_others_wrote() -> None:
    """Though neither the source nor the sequences have a hole there."""
    log = _log()
    log.add([(0, 2)], 0, 0)
    log.add([(2, 2)], 5, 2)
    assert _told(log, 4) == [Segment(0, 0, 2, 0), Segment(2, 5, 2, 2)]


def test_a_segment_ends_where_sequences_do_not_follow() -> None:
    """The flow has another producer since, or some of its records were not told."""
    log = _log()
    log.add([(0, 2)], 0, 0)
    log.add([(2, 2)], 2, 9)
    assert _told(log, 4) == [Segment(0, 0, 2, 0), Segment(2, 2, 2, 9)]


def test_the_runs_of_a_batch_follow_each_other_on_the_target() -> None:
    """It has no holes, and sequences begin again at 0."""
    log = _log()
    log.add([(0, 2), (5, 1), (9, 3)], 7, SEQUENCE_MODULUS - 2)
    assert _told(log, 12) == [Segment(0, 7, 2, SEQUENCE_MODULUS - 2), Segment(5, 9, 1, 0), Segment(9, 10, 3, 1)]
