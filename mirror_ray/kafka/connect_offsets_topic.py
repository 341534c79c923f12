"""Writes Connect's topic of source offsets, as a Connect worker does.

Source: ``KafkaOffsetBackingStore`` of Kafka 4.3: 25 partitions by default, compacted only, records placed by the Java
producer's hash of the key, so that compaction finds a key's older records.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Final

from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_writer import IdempotentTopicWriter, KeyedRecord
from mirror_ray.kafka.retries import retry
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.records.partitioner import partition_of_key

#: Connect's ``offset.storage.partitions``.
_PARTITIONS: Final = 25
_DELIVERY_TIMEOUT_S: Final = 30.0
#: A source offset has some hundred bytes, its topic's name at most.
_RECORDS_PER_BATCH: Final = 1000


async def write_connect_offsets(
    cluster: ClusterConnections, topic: str, records: Sequence[tuple[bytes, bytes | None]], audit_log: AuditLog
) -> None:
    """Append keys and values, each once, and wait until all are acknowledged; create the topic where it is missing.

    Raises:
        ClusterUnreachableError: Not acknowledged in time; some may be there. Give all of them again.
        MirrorError: The topic can't be created or written.
    """
    await asyncio.to_thread(_ensure_topic, cluster, topic, audit_log)
    known = (await cluster.refresh([topic])).topics[topic]
    by_partition: dict[int, list[KeyedRecord]] = defaultdict(list)
    for key, value in records:
        by_partition[partition_of_key(key, len(known.partitions) or _PARTITIONS)].append(KeyedRecord(key, value))
    for partition, found in by_partition.items():
        writer = IdempotentTopicWriter(cluster, topic, partition, codec="none")
        for start in range(0, len(found), _RECORDS_PER_BATCH):
            append = partial(writer.append_once, found[start : start + _RECORDS_PER_BATCH])
            await retry(cluster, f"write to topic {topic}", append, _DELIVERY_TIMEOUT_S)


def _ensure_topic(cluster: ClusterConnections, topic: str, audit_log: AuditLog) -> None:
    with closing(ClusterEditor(cluster.settings, "mirror-ray-handback", audit_log)) as admin:
        admin.ensure_compacted_topic(topic, _PARTITIONS, None)
