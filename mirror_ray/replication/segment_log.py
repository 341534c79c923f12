"""The segments of what a partition has acknowledged, until they are published."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.model.segment import Segment, SegmentBlock

#: Segments of a block; a full one is published once more and never again.
BLOCK_SEGMENTS = 32
#: Full blocks that wait to be published. Beyond, the oldest is given up: its offsets are found by reading the source.
_WAITING_BLOCKS = 512


@dataclass(slots=True)
class _Growing:
    """A segment that batches are added to, as they are acknowledged."""

    source: int
    target: int
    length: int
    number: int

    def is_followed_by(self, source: int, target: int, number: int) -> bool:
        length = self.length
        return (
            source == self.source + length
            and target == self.target + length
            and number == (self.number + length) % SEQUENCE_MODULUS
        )

    def segment(self) -> Segment:
        return Segment(self.source, self.target, self.length, self.number)


class SegmentLog:
    """The segments of one assignment, as blocks."""

    __slots__ = ("_assignment", "_full", "_open", "_published_to", "_unpublished")

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._full: deque[list[_Growing]] = deque(maxlen=_WAITING_BLOCKS)
        self._open: list[_Growing] = []
        #: Whether there is anything that no block has; and the source position that was published last.
        self._unpublished = False
        self._published_to = -1

    def begin(self, pair: OffsetPair) -> None:
        """Go on from ``pair``, whatever was published before."""
        preserved = self._assignment.preserve_offsets
        source = pair.target_offset if preserved else pair.source_offset
        self._put(source, pair.target_offset, 0, pair.next_sequence)

    def add(self, runs: Iterable[tuple[int, int]], target_offset: int, sequence: int) -> None:
        """Add a batch that was acknowledged at ``target_offset``: runs of (source offset, records), in order.

        Where offsets are preserved, also a gap that was filled, so that all is one segment.
        """
        for source, count in runs:
            self._put(source, target_offset, count, sequence)
            target_offset += count
            sequence = (sequence + count) % SEQUENCE_MODULUS

    def take(self, source_next: int) -> list[SegmentBlock]:
        """Return the blocks to publish at position ``source_next``; none if everything was published."""
        if not self._open or (not self._unpublished and self._published_to == source_next):
            return []
        blocks = [self._block(segments, _end(segments[-1])) for segments in self._full]
        blocks.append(self._block(self._open, max(source_next, _end(self._open[-1]))))
        self._full.clear()
        self._unpublished, self._published_to = False, source_next
        return blocks

    def _put(self, source: int, target: int, length: int, number: int) -> None:
        self._unpublished = True
        if self._assignment.preserve_offsets:
            number = target % SEQUENCE_MODULUS
        if self._open and self._open[-1].is_followed_by(source, target, number):
            self._open[-1].length += length
            return
        if len(self._open) >= BLOCK_SEGMENTS:
            self._full.append(self._open)
            self._open = []
        self._open.append(_Growing(source, target, length, number))

    def _block(self, segments: list[_Growing], source_next: int) -> SegmentBlock:
        assignment = self._assignment
        return SegmentBlock(
            source=assignment.partition.source,
            source_topic_id=assignment.source_topic_id,
            target_topic_id=assignment.target_topic_id,
            epoch=assignment.epoch,
            segments=tuple(segment.segment() for segment in segments),
            source_next=source_next,
            transforms=assignment.transforms,
            transforms_since=assignment.transforms_since,
            preserved=assignment.preserve_offsets,
        )


def _end(segment: _Growing) -> int:
    return segment.source + segment.length
