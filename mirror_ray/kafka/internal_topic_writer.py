"""Appends to a topic that mirror-ray, or MM2, keeps for itself: one partition."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mirror_ray.kafka import produce
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION, error_info, protocol_error
from mirror_ray.kafka.fetch import PartitionKey
from mirror_ray.kafka.metadata import topic_id_bytes
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode

#: Of a batch before compression; below the broker's default ``max.message.bytes`` of 1 MiB.
_BATCH_BYTES = 512 << 10
_PURPOSE = "internal topics"


class KeyedRecord(NamedTuple):
    """A record of an internal topic; a value of None deletes the key."""

    key: bytes
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


class InternalTopicWriter:
    """Appends with ``acks=all``, in order. One call at a time."""

    def __init__(self, cluster: ClusterConnections, topic: str, *, cleanup_policy: str = "compact") -> None:
        self._cluster = cluster
        self._partition = TopicPartition(topic, 0)
        self._cleanup_policy = cleanup_policy

    @property
    def topic(self) -> str:
        """Its topic."""
        return self._partition.topic

    async def append(self, records: Sequence[KeyedRecord]) -> None:
        """Append all records.

        Raises:
            OSError, MirrorError: Some of them may not be there: append all again. The text names the topic, the error,
                and for a missing right or topic the next step.
        """
        now_ms = int(time.time() * 1000)
        for batch in batches(records, now_ms):
            await self._produce(batch)

    async def append_as_they_are(self, records: Sequence[DecodedRecord]) -> None:
        """Append records with timestamps of their own, whatever their offsets. Raises as ``append`` does."""
        for batch in batches_of((each.timestamp, each.tail) for each in records):
            await self._produce(batch)

    async def _produce(self, batch: memoryview) -> None:
        topic = self._partition.topic
        if self._cluster.metadata.leader(self._partition) < 0:
            await self._cluster.refresh([topic])
        leader = self._cluster.metadata.leader(self._partition)
        found = self._cluster.metadata.topics.get(topic)
        if found is None or leader < 0:
            raise self._refused((found and found.error_code) or UNKNOWN_TOPIC_OR_PARTITION)
        connection = await self._cluster.connect(leader, _PURPOSE)
        version = connection.best_version(produce.API_KEY, produce.LOWEST_VERSION, produce.HIGHEST_VERSION)
        by_id = version >= produce.FIRST_TOPIC_ID_VERSION
        key = PartitionKey(topic_id_bytes(found.topic_id) if by_id else topic.encode(), 0)
        timeout_ms = self._cluster.settings.request_timeout_ms
        body = produce.encode_produce(version, produce.ALL_REPLICAS, timeout_ms, [(key, batch)])
        flexible = version >= produce.FIRST_FLEXIBLE_VERSION
        answers, _ = produce.decode_produce(version, await connection.send(produce.API_KEY, version, flexible, body))
        error_code = answers[0].error_code if answers else UNKNOWN_TOPIC_OR_PARTITION
        if error_code:
            if error_info(error_code).invalid_metadata:
                await self._cluster.refresh([topic])
            raise self._refused(error_code)

    def _refused(self, error_code: int) -> Exception:
        alias, topic = self._cluster.settings.alias, self._partition.topic
        step = {
            "TOPIC_AUTHORIZATION_FAILED": "; grant our principal WRITE and DESCRIBE on it",
            "UNKNOWN_TOPIC_OR_PARTITION": f"; if it was deleted, create it with cleanup.policy={self._cleanup_policy}",
        }.get(error_info(error_code).name, "")
        return protocol_error(error_code, f"write to topic {topic} on cluster {alias}{step}")


def batches(records: Sequence[KeyedRecord], timestamp_ms: int) -> Iterator[memoryview]:
    """Yield the batches that records are written as."""
    return batches_of((timestamp_ms, record_tail(each.key, each.value, each.headers)) for each in records)


def batches_of(records: Iterable[tuple[int, bytes]]) -> Iterator[memoryview]:
    """Yield the batches that records are written as: timestamps, and what else is in them as encoded."""
    group: list[DecodedRecord] = []
    size = 0
    for timestamp_ms, tail in records:
        if group and size + len(tail) > _BATCH_BYTES:
            yield encode(group, "zstd").view
            group, size = [], 0
        group.append(DecodedRecord(len(group), timestamp_ms, tail))
        size += len(tail)
    if group:
        yield encode(group, "zstd").view
