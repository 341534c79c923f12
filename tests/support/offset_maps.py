"""Offset maps as a flow's replicators would have published them."""

from __future__ import annotations

from collections.abc import Iterable

from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.offsets.map import OffsetMapStore


def offset_map_store(
    source: TopicPartition,
    segments: Iterable[Segment],
    *,
    ids: tuple[str, str] = ("s", "t"),
    source_next: int | None = None,
) -> OffsetMapStore:
    """The map of one partition's segments, published in one block; without any it is empty.

    ``ids``: of the topic and its remote topic; ``source_next``: where copying is, by default behind the last segment.
    """
    store, published = OffsetMapStore(), tuple(segments)
    if published:
        block = SegmentBlock(
            source=source,
            source_topic_id=TopicId(ids[0]),
            target_topic_id=TopicId(ids[1]),
            epoch=1,
            segments=published,
            source_next=source_next or published[-1].source + published[-1].length,
        )
        store.apply(block)
    return store
