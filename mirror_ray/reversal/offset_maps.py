"""Carries a flow's offset map over to the flow back, so that each of the two translates all that both have in common.

Numbers of records go on from one to the other: the sequence that the flow back begins with is the one at the cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.offsets.map import PartitionOffsetMap
from mirror_ray.replication.segment_log import BLOCK_SEGMENTS
from mirror_ray.state.partition_record import PartitionRecord


def blocks_back(
    partition: TopicPartition,
    record: PartitionRecord,
    epoch: int,
    known: PartitionOffsetMap,
    back: PartitionOffsetMap | None,
) -> Iterator[SegmentBlock]:
    """Yield the blocks that the map of the flow back lacks.

    Args:
        partition: On the source of the flow back.
        record: Of the flow back, as it begins.
        epoch: Of its last assignment.
        known: The map of the flow.
        back: The map of the flow back.
    """
    ids = (record.source_topic_id, record.target_topic_id)
    if (known.target_topic_id, known.source_topic_id) != ids:
        return
    begin = 0
    if back is not None and (back.source_topic_id, back.target_topic_id) == ids and back.segments.tail is not None:
        begin = back.segments.tail.source
    for some in _batched(_inverse(known.segments, begin)):
        last = some[-1]
        yield SegmentBlock(
            source=partition,
            source_topic_id=ids[0],
            target_topic_id=ids[1],
            epoch=epoch,
            segments=some,
            source_next=last.source + last.length,
            preserved=known.offsets_preserved,
        )


def _inverse(segments: Iterable[Segment], begin: int) -> Iterator[Segment]:
    """The segments the other way, from ``begin`` on the target."""
    for segment in segments:
        passed = max(0, begin - segment.target)
        if passed < segment.length or not passed:
            source, target = segment.target + passed, segment.source + passed
            number = (segment.number + passed) % SEQUENCE_MODULUS
            yield Segment(source, target, segment.length - passed, number)


def _batched(segments: Iterator[Segment]) -> Iterator[tuple[Segment, ...]]:
    while some := tuple(segment for _, segment in zip(range(BLOCK_SEGMENTS), segments, strict=False)):
        yield some
