"""MM2's offset syncs as blocks of the flow's offset map, for offsets before the position of the takeover.

MM2 publishes single offset pairs and not what lies between them, and it may have doubled records there. So that the map
never counts on it, each of its segments counts one record more before it than there are: an offset between two of them
is then translated to the pair before, not exact (``offsets.gap_scan.others_wrote``).
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

#: Offset pairs of one partition that are taken over: all of the newest, fewer of the old ones.
_MOST_PAIRS: Final = 512
_BLOCK_SEGMENTS: Final = 32


def ascending_pairs(syncs: Iterable[OffsetSyncRecord], floor: OffsetPair, end: OffsetPair) -> list[tuple[int, int]]:
    """The offset pairs of one partition that ascend on both sides, from ``floor`` to before ``end``.

    Where MM2 went back and copied records again, the newer pairs count.
    """
    kept: list[tuple[int, int]] = []
    before = (end.source_offset, end.target_offset)
    for sync in reversed(list(syncs)):
        pair = (sync.upstream_offset, sync.downstream_offset)
        if all(offset < limit for offset, limit in zip(pair, before, strict=True)):
            kept.append(pair)
            before = pair
    kept.reverse()
    return [pair for pair in kept if pair[0] >= floor.source_offset and pair[1] >= floor.target_offset]


def blocks(
    source: TopicPartition, record: PartitionRecord, pairs: list[tuple[int, int]], epoch: int
) -> Iterator[SegmentBlock]:
    """Yield the blocks of what lies before ``record``'s offset pair. ``epoch``: of the last assignment."""
    if len(pairs) > _MOST_PAIRS:
        kept, _ = thinned([source_offset for source_offset, _ in pairs], _MOST_PAIRS)
        pairs = [pairs[at] for at in kept]
    known = [Segment(first, target, 1, target + number) for number, (first, target) in enumerate(pairs, start=1)]
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
