"""What a copy's acknowledgements say of offsets, until it is told. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.model.segment import Segment, SegmentBlock

#: Segments of a block; a full one is told once more and never again.
BLOCK_SEGMENTS = 32
#: Full blocks that wait to be told. Beyond, the oldest is given up: its offsets are found by reading the source.
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

    __slots__ = ("_assignment", "_full", "_open", "_told", "_untold")

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._full: deque[list[_Growing]] = deque(maxlen=_WAITING_BLOCKS)
        self._open: list[_Growing] = []
        #: Whether there is anything that no block said; and the source position that was told last.
        self._untold = False
        self._told = -1

    def begin(self, pair: OffsetPair) -> None:
        """Copying goes on from there, whatever was said before."""
        self._put(pair.source_offset, pair.target_offset, 0, pair.next_sequence)

    def add(self, runs: Iterable[tuple[int, int]], target_offset: int, sequence: int) -> None:
        """A batch was acknowledged at ``target_offset``: runs of (source offset, records), in order."""
        for source, count in runs:
            self._put(source, target_offset, count, sequence)
            target_offset += count
            sequence = (sequence + count) % SEQUENCE_MODULUS

    def take(self, source_next: int) -> list[SegmentBlock]:
        """What is to be told now that ``source_next`` has been reached: nothing, where that is known."""
        if not self._open or (not self._untold and self._told == source_next):
            return []
        blocks = [self._block(segments, _end(segments[-1])) for segments in self._full]
        blocks.append(self._block(self._open, max(source_next, _end(self._open[-1]))))
        self._full.clear()
        self._untold, self._told = False, source_next
        return blocks

    def _put(self, source: int, target: int, length: int, number: int) -> None:
        self._untold = True
        if self._open and self._open[-1].is_followed_by(source, target, number):
            self._open[-1].length += length
            return
        if len(self._open) >= BLOCK_SEGMENTS:
            self._full.append(self._open)
            self._open = []
        self._open.append(_Growing(source, target, length, number))

    def _block(self, segments: list[_Growing], source_next: int) -> SegmentBlock:
        each = self._assignment
        return SegmentBlock(
            source=each.partition.source,
            source_topic_id=each.source_topic_id,
            target_topic_id=each.target_topic_id,
            epoch=each.epoch,
            segments=tuple(each.segment() for each in segments),
            source_next=source_next,
            transforms=each.transforms,
            transforms_since=each.transforms_since,
        )


def _end(segment: _Growing) -> int:
    return segment.source + segment.length
