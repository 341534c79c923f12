"""What a copy's acknowledgements say of offsets, until it is told. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from mirror_ray.model.anchor import SEQUENCE_MODULUS, Anchor
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.segment import Segment, SegmentBlock

#: Segments of a block; a full one is told once more and never again.
BLOCK_SEGMENTS = 32
#: Full blocks that wait to be told. Beyond, the oldest is given up: its offsets are found by reading the source.
_WAITING_BLOCKS = 512


class SegmentLog:
    """The segments of one assignment, as blocks."""

    __slots__ = ("_assignment", "_full", "_open", "_told", "_untold")

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._full: deque[list[Segment]] = deque(maxlen=_WAITING_BLOCKS)
        self._open: list[Segment] = []
        #: Whether there is anything that no block said; and the source position that was told last.
        self._untold = False
        self._told = -1

    def begin(self, pair: Anchor) -> None:
        """Copying goes on from there, whatever was said before."""
        self._put(Segment(pair.source_offset, pair.target_offset, 0, pair.next_sequence))

    def add(self, runs: Iterable[tuple[int, int]], target_offset: int, sequence: int) -> None:
        """A batch was acknowledged at ``target_offset``: runs of (source offset, records), in order."""
        for source, count in runs:
            self._put(Segment(source, target_offset, count, sequence))
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

    def _put(self, segment: Segment) -> None:
        self._untold = True
        last = self._open[-1] if self._open else None
        if last is not None and _follows(last, segment):
            self._open[-1] = last._replace(length=last.length + segment.length)
            return
        if len(self._open) >= BLOCK_SEGMENTS:
            self._full.append(self._open)
            self._open = []
        self._open.append(segment)

    def _block(self, segments: list[Segment], source_next: int) -> SegmentBlock:
        each = self._assignment
        return SegmentBlock(
            source=each.partition.source,
            source_topic_id=each.source_topic_id,
            target_topic_id=each.target_topic_id,
            epoch=each.epoch,
            segments=tuple(segments),
            source_next=source_next,
        )


def _end(segment: Segment) -> int:
    return segment.source + segment.length


def _follows(before: Segment, segment: Segment) -> bool:
    return (
        segment.source == before.source + before.length
        and segment.target == before.target + before.length
        and segment.number == (before.number + before.length) % SEQUENCE_MODULUS
    )
