"""What MM2 is told, against MM2's own rule: a pair says that this very record is that one."""

from __future__ import annotations

from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.replication.offset_syncs import offset_syncs


def _syncs(*segments: Segment, synced_to: int = 0) -> list[tuple[int, int]]:
    block = SegmentBlock(
        source=TopicPartition("t", 0),
        source_topic_id=TopicId("s"),
        target_topic_id=TopicId("t"),
        epoch=1,
        segments=segments,
        source_next=10**6,
    )
    return [(pair.upstream_offset, pair.downstream_offset) for pair in offset_syncs(block, synced_to)]


def test_where_runs_begin_and_the_newest_record() -> None:
    """The pair that copying began at is no record."""
    assert _syncs(Segment(0, 0, 0, 0)) == []
    assert _syncs(Segment(100, 0, 1, 0)) == [(100, 0)]
    assert _syncs(Segment(100, 0, 5, 0), Segment(107, 5, 2, 5)) == [(100, 0), (107, 5), (108, 6)]


def test_nothing_is_told_twice() -> None:
    """A run that grew gives its newest record alone."""
    assert _syncs(Segment(100, 0, 5, 0), synced_to=105) == []
    assert _syncs(Segment(100, 0, 8, 0), synced_to=105) == [(107, 7)]
    assert _syncs(Segment(100, 0, 5, 0), Segment(107, 5, 1, 5), synced_to=105) == [(107, 5)]


def test_a_hole_behind_every_record_does_not_flood_the_topic() -> None:
    """The newest pairs are told: of the others a compacted topic keeps nothing."""
    told = _syncs(*(Segment(2 * i, i, 1, i) for i in range(256)))
    assert len(told) == 100
    assert told[-1] == (510, 255)
