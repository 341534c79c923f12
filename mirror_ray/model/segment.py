"""Segments of the offset map, and the blocks in which they are published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mirror_ray.model.names import TopicId, TopicPartition


class Segment(NamedTuple):
    """Source records ``source`` to ``source + length - 1`` are target records from ``target`` on, without a gap."""

    source: int
    target: int
    length: int
    #: Records of the flow that lie before it on the target, as the producer's sequences count them: modulo 2^31.
    number: int


class BlockKey(NamedTuple):
    """Identifies a block."""

    source: TopicPartition
    source_topic_id: TopicId
    target_topic_id: TopicId
    #: Of the assignment.
    epoch: int
    #: Source offset of its first segment.
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBlock:
    """Segments of one partition in the order of the copy: what a replicator publishes in one record.

    It is published again, longer, until it is full: the newest one of the same ``key`` replaces the others.
    """

    source: TopicPartition
    source_topic_id: TopicId
    target_topic_id: TopicId
    #: Of the assignment.
    epoch: int
    #: Not empty. The first one of an assignment has no records: it is the offset pair that copying began at.
    segments: tuple[Segment, ...]
    #: The source position that was reached: what lies between the last record and it was no record to copy.
    source_next: int
    #: What the target's records were made by (``Chain.identity``); empty: they are the source's.
    transforms: str = ""
    #: From which source offset on that holds for all that was copied, by this replicator or by others before.
    transforms_since: int = 0
    #: Whether each offset is the same on both sides; then a segment goes over gaps, too.
    preserved: bool = False

    @property
    def key(self) -> BlockKey:
        """The same for all versions of the block."""
        return BlockKey(self.source, self.source_topic_id, self.target_topic_id, self.epoch, self.segments[0].source)
