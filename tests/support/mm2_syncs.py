"""Which pairs of offsets MM2 would emit of a copy, at its best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import OffsetSyncRecord

Pair = tuple[int, int]


def emitted(partition: TopicPartition, copied: Iterable[Pair], lag_max: int = 100) -> Iterator[OffsetSyncRecord]:
    """As ``OffsetSyncWriter`` of Kafka 4.3: after so many records, behind every hole, and the newest pair at last.

    Better than MM2, which loses some when they come fast, and emits the newest one once a minute.
    """
    last_synced, before, told = -1, (-1, -1), None
    for pair in copied:
        upstream, downstream = pair
        behind_hole = upstream - before[0] != 1 or downstream < before[1]
        if last_synced < 0 or behind_hole or downstream - (last_synced + 1) >= lag_max:
            last_synced, told = downstream, pair
            yield _sync(partition, pair)
        before = pair
    if before not in (told, (-1, -1)):
        yield _sync(partition, before)


def _sync(partition: TopicPartition, pair: Pair) -> OffsetSyncRecord:
    return OffsetSyncRecord(partition=partition, upstream_offset=pair[0], downstream_offset=pair[1])
