"""Appends to topics that mirror-ray, or MM2, keeps for itself, acknowledged by all in-sync replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import error_info, protocol_error
from mirror_ray.kafka.produce_batch import produce_batch
from mirror_ray.kafka.retries import retry
from mirror_ray.model.errors import KafkaProtocolError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.records.batch import Codec, rewrite
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode

#: Of a batch before compression; below the broker's default ``max.message.bytes`` of 1 MiB.
_BATCH_BYTES: Final = 512 << 10
_PURPOSE: Final = "internal topics"

#: The broker does not know our producer, or not as we do: the next one begins at sequence 0.
_PRODUCER_LOST: Final = frozenset(
    {"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"}
)
_NOT_AUTHORIZED: Final = frozenset({"CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"})
_NO_PRODUCER: Final = (-1, -1)


class KeyedRecord(NamedTuple):
    """A record of an internal topic; a value of None deletes the key."""

    key: bytes
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()

    @property
    def tail(self) -> bytes:
        """Key, value and headers, encoded as in a v2 batch."""
        return record_tail(self.key, self.value, self.headers)


class InternalTopicWriter:
    """Appends to one partition with ``acks=all``, in order. One call at a time."""

    def __init__(
        self,
        cluster: ClusterConnections,
        topic: str,
        partition: int = 0,
        *,
        cleanup_policy: str = "compact",
        codec: Codec = "zstd",
    ) -> None:
        """``cleanup_policy``: of the topic, for the message that it is missing."""
        self._cluster = cluster
        self._partition = TopicPartition(topic, partition)
        self._cleanup_policy = cleanup_policy
        self._codec = codec

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._partition.topic

    async def append(self, records: Sequence[KeyedRecord], timestamp_ms: int | None = None) -> None:
        """Append all records, with ``timestamp_ms`` or else the current time.

        Raises:
            OSError, MirrorError: Some of them may not be there: append all again. The text names the topic, the error,
                and for a missing right or topic the next step.
        """
        time_ms = _now_ms() if timestamp_ms is None else timestamp_ms
        for batch in batches(records, time_ms, self._codec):
            await self._produce(batch)

    async def append_decoded(self, records: Sequence[DecodedRecord]) -> None:
        """Append records with timestamps of their own; their offsets don't count. Raises as ``append`` does."""
        for batch in _batches_of(((record.timestamp, record.tail) for record in records), self._codec):
            await self._produce(batch)

    async def _produce(self, batch: memoryview) -> None:
        answer = await produce_batch(self._cluster, self._partition, batch, purpose=_PURPOSE)
        if answer.error_code:
            raise self._refused(answer.error_code)

    def _refused(self, error_code: int) -> Exception:
        alias, topic = self._cluster.settings.alias, self._partition.topic
        step = {
            "TOPIC_AUTHORIZATION_FAILED": "; grant our principal WRITE and DESCRIBE on it",
            "UNKNOWN_TOPIC_OR_PARTITION": f"; if it was deleted, create it with cleanup.policy={self._cleanup_policy}",
        }.get(error_info(error_code).name, "")
        return protocol_error(error_code, f"write to topic {topic} on cluster {alias}{step}")


class IdempotentTopicWriter(InternalTopicWriter):
    """Appends to a topic in which a record must not be twice, by an idempotent producer of its own.

    Guarantees: what one instance was given by ``append_once`` is not appended twice, whatever becomes of connections
    and brokers; where the cluster grants no producer id, it may be after an answer that was lost.
    """

    _producer: tuple[int, int] | None = None
    _sequence: int = 0

    async def append_once(self, records: Sequence[KeyedRecord]) -> None:
        """Append all records as one batch: no more than fit into the topic's ``max.message.bytes``.

        Raises:
            OSError, MirrorError: They may not be there: give the same ones again before any others.
        """
        if self._producer is None:
            self._producer, self._sequence = await self._new_producer(), 0
        now_ms = _now_ms()
        batch = encode([DecodedRecord(i, now_ms, record.tail) for i, record in enumerate(records)], self._codec)
        rewrite(batch, *self._producer, self._sequence if self._producer != _NO_PRODUCER else -1)
        try:
            await self._produce(batch.view)
        except KafkaProtocolError as error:
            if error.name in _PRODUCER_LOST:
                self._producer = None
            if error.name != "DUPLICATE_SEQUENCE_NUMBER":
                raise
        self._sequence = (self._sequence + len(records)) % SEQUENCE_MODULUS

    async def _new_producer(self) -> tuple[int, int]:
        try:
            return await self._cluster.init_producer_id()
        except KafkaProtocolError as error:
            if error.name in _NOT_AUTHORIZED:
                return _NO_PRODUCER
            raise


class BlockingTopicWriter:
    """An ``InternalTopicWriter`` for a thread, with connections and an event loop of its own. One call at a time."""

    def __init__(
        self,
        settings: ClusterSettings,
        topic: str,
        client_id: str,
        *,
        ensure_topic: Callable[[], None],
        delivery_timeout_s: float,
        cleanup_policy: str = "compact",
        codec: Codec = "zstd",
    ) -> None:
        """Prepare to write to the topic's partition 0; nothing is sent yet.

        ``ensure_topic`` creates the topic where it is missing; called before the first write, and after a failed one.
        A write is tried for ``delivery_timeout_s``.
        """
        self._settings, self._topic, self._client_id = settings, topic, client_id
        self._ensure_topic, self._delivery_timeout_s = ensure_topic, delivery_timeout_s
        self._cleanup_policy: str = cleanup_policy
        self._codec: Codec = codec
        self._opened: tuple[asyncio.Runner, ClusterConnections] | None = None

    def append(self, records: Sequence[KeyedRecord], timestamp_ms: int | None = None) -> None:
        """Append all records; tried again until all in-sync replicas have them, or the delivery timeout is over.

        Raises:
            ClusterUnreachableError: They were not acknowledged in time; some may be there, and may be there twice.
            MirrorError: The topic can't be created, or the broker refuses the write.
        """
        if self._opened is None:
            self._ensure_topic()
            cluster = ClusterConnections(self._settings, self._client_id)
            self._opened = asyncio.Runner(loop_factory=asyncio.new_event_loop), cluster
        runner, cluster = self._opened
        try:
            runner.run(self._append(cluster, records, timestamp_ms))
        except Exception:
            # The topic may have been deleted, and a broker that hangs is left to its connection.
            self.close()
            raise

    def close(self) -> None:
        """Close the connections; the next ``append`` opens new ones."""
        opened, self._opened = self._opened, None
        if opened is not None:
            runner, cluster = opened
            with runner:
                runner.run(cluster.close())

    async def _append(
        self, cluster: ClusterConnections, records: Sequence[KeyedRecord], timestamp_ms: int | None
    ) -> None:
        writer = InternalTopicWriter(cluster, self._topic, cleanup_policy=self._cleanup_policy, codec=self._codec)
        await retry(
            cluster,
            f"write to topic {self._topic}",
            lambda: writer.append(records, timestamp_ms),
            self._delivery_timeout_s,
        )


def batches(records: Sequence[KeyedRecord], timestamp_ms: int, codec: Codec = "zstd") -> Iterator[memoryview]:
    """Yield the batches that records are written as."""
    return _batches_of(((timestamp_ms, record.tail) for record in records), codec)


def _batches_of(records: Iterable[tuple[int, bytes]], codec: Codec) -> Iterator[memoryview]:
    """Yield the batches of records that are given as timestamp and encoded key, value and headers."""
    group: list[DecodedRecord] = []
    size = 0
    for timestamp_ms, tail in records:
        if group and size + len(tail) > _BATCH_BYTES:
            yield encode(group, codec).view
            group, size = [], 0
        group.append(DecodedRecord(len(group), timestamp_ms, tail))
        size += len(tail)
    if group:
        yield encode(group, codec).view


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
