"""What MM2's offset-syncs say of offsets below the place where a flow takes over, as blocks of the flow's map. Pure.

MM2 names single pairs and not what lies between them, and it may have doubled records there. So that the map never
counts on it, each of its segments says one record more before it than there are: what lies between two of them is then
answered by the pair before, not exact (``offsets.gap``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.offsets.map import thinned
from mirror_ray.records.mm2_records import OffsetSyncRecord
from mirror_ray.state.partition_record import PartitionRecord

#: Pairs of one partition that are taken over: dense near its end, sparse behind.
_MOST_PAIRS: Final = 512
_BLOCK_SEGMENTS: Final = 32


def chain(syncs: Iterable[OffsetSyncRecord], floor: OffsetPair, end: OffsetPair) -> list[tuple[int, int]]:
    """The pairs of one partition that go up on both sides, from ``floor`` to before ``end``.

    Where MM2 went back and copied records again, the newer pairs count.
    """
    kept: list[tuple[int, int]] = []
    before = (end.source_offset, end.target_offset)
    for sync in reversed(list(syncs)):
        pair = (sync.upstream_offset, sync.downstream_offset)
        if all(here < there for here, there in zip(pair, before, strict=True)):
            kept.append(pair)
            before = pair
    kept.reverse()
    return [pair for pair in kept if pair[0] >= floor.source_offset and pair[1] >= floor.target_offset]


def blocks(
    source: TopicPartition, record: PartitionRecord, pairs: list[tuple[int, int]], epoch: int
) -> Iterator[SegmentBlock]:
    """What to tell of a partition before it is copied on from ``record``'s pair. ``epoch``: of its last assignment."""
    if len(pairs) > _MOST_PAIRS:
        places, _ = thinned([each[0] for each in pairs], _MOST_PAIRS)
        pairs = [pairs[place] for place in places]
    known = [Segment(first, there, 1, there + number) for number, (first, there) in enumerate(pairs, start=1)]
    end = record.pair
    known.append(Segment(end.source_offset, end.target_offset, 0, end.target_offset + len(known) + 1))
    for first in range(0, len(known), _BLOCK_SEGMENTS):
        segments = tuple(known[first : first + _BLOCK_SEGMENTS])
        yield SegmentBlock(
            source=source,
            source_topic_id=record.source_topic_id,
            target_topic_id=record.target_topic_id,
            epoch=epoch,
            segments=segments,
            source_next=segments[-1].source + segments[-1].length,
        )
