"""Maps of offsets as a flow's replicators would have told them."""

from __future__ import annotations

from collections.abc import Iterable

from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.offsets.map import OffsetMapStore


def book_of(
    source: TopicPartition,
    segments: Iterable[Segment],
    *,
    ids: tuple[str, str] = ("s", "t"),
    source_next: int | None = None,
) -> OffsetMapStore:
    """A book of one partition's segments, told in one block; without any there is none.

    ``ids``: of the topic and its remote topic; ``source_next``: where copying is, by default behind the last segment.
    """
    book, told = OffsetMapStore(), tuple(segments)
    if told:
        block = SegmentBlock(
            source=source,
            source_topic_id=TopicId(ids[0]),
            target_topic_id=TopicId(ids[1]),
            epoch=1,
            segments=told,
            source_next=source_next or told[-1].source + told[-1].length,
        )
        book.apply(block)
    return book
