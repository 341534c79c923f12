"""The maps of all partitions of a flow, as the segments topic tells of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import BlockKey, Segment, SegmentBlock
from mirror_ray.offsets.segments import DEFAULT_LIMIT, SegmentMap, thinned

#: Blocks kept of a partition in the topic, together twice as many segments as the map keeps in memory.
_BLOCKS = 1024


class TransformedGap(NamedTuple):
    """What the target's records are made by, from source offset ``since`` on; empty: they are the source's."""

    transforms: str = ""
    since: int = 0


NOTHING_MADE: Final = TransformedGap()


@dataclass(slots=True)
class PartitionOffsetMap:
    """One partition: the topics that are copied from and to, and where their records lie."""

    source_topic_id: TopicId
    target_topic_id: TopicId
    epoch: int
    places: SegmentMap
    #: Blocks in the topic, oldest first; the last one may grow.
    blocks: dict[BlockKey, None] = field(default_factory=dict)
    #: Another one after every change, so that what was derived from it can be kept until then.
    version: int = 0
    made: TransformedGap = NOTHING_MADE


class OffsetMapStore:
    """Takes blocks in the order of the topic.

    Guarantees: what a replicator tells late, after the partition was given to another one, changes nothing.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT, blocks: int = _BLOCKS) -> None:
        """Of each partition, ``limit`` segments are kept here, and ``blocks`` in the topic."""
        self._limit, self._blocks = limit, blocks
        self._pages: dict[TopicPartition, PartitionOffsetMap] = {}
        self._superfluous: list[BlockKey] = []
        self._changes = 0

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._pages)

    def find(self, source: TopicPartition) -> PartitionOffsetMap | None:
        """What is known of a source partition."""
        return self._pages.get(source)

    def clear(self) -> None:
        """Forget all: the topic is another one."""
        self._pages.clear()
        self._superfluous.clear()

    def apply(self, block: SegmentBlock) -> None:
        """Take the next block."""
        page = self._pages.get(block.source)
        if page is not None and block.epoch < page.epoch:
            self._superfluous.append(block.key)
            return
        if page is None or (page.source_topic_id, page.target_topic_id) != (
            block.source_topic_id,
            block.target_topic_id,
        ):
            if page is not None:
                self._superfluous += page.blocks
            page = PartitionOffsetMap(
                block.source_topic_id, block.target_topic_id, block.epoch, SegmentMap(self._limit)
            )
            self._pages[block.source] = page
        # Of a block that has grown only what is new, and the segment that may have, is to be looked at.
        known = page.places.last_source if block.key in page.blocks else None
        if known is None:
            self._drop_cut(page, block.segments[0])
        page.made = TransformedGap(block.transforms, block.transforms_since)
        page.epoch = block.epoch
        self._changes += 1
        page.version = self._changes
        page.blocks[block.key] = None
        for segment in block.segments:
            if known is None or segment.source >= known:
                page.places.add(segment, segment.source)
        page.places.reached(block.source_next)

    def _drop_cut(self, page: PartitionOffsetMap, begin: Segment) -> None:
        """What is copied anew, or was lost by the target, must not outlive the block that says so."""
        kept = page.places.survives(begin)
        if kept is None:
            return
        keys = [key for key in page.blocks if key.first < kept]
        # The last of these tells of records on both sides of the cut, or of nothing that could not be read again.
        self._superfluous += [key for key in page.blocks if key not in keys[:-1]]
        page.blocks = dict.fromkeys(keys[:-1])

    def superfluous(self) -> list[BlockKey]:
        """Blocks to be deleted from the topic; each is named once. The newest are all kept, ever fewer of the old."""
        for page in self._pages.values():
            if len(page.blocks) > self._blocks:
                keys = list(page.blocks)
                kept, _ = thinned([key.first for key in keys], self._blocks)
                page.blocks = dict.fromkeys(keys[at] for at in kept)
                self._superfluous += [key for key in keys if key not in page.blocks]
        gone, self._superfluous = self._superfluous, []
        return gone
