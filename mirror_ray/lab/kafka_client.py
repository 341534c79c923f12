"""Kafka's own client library, as the laboratory uses it to write, to read and to compare.

It shares no code with what is measured and tested.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from mirror_ray.lab.background import BackgroundThread, wait_until
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.load_record import LoadRecord, PlacedRecord
from mirror_ray.model.errors import MirrorError

_TIMEOUT_S: Final = 180.0
_READ_AT_ONCE: Final = 20_000
#: A broker that was killed comes back after seconds; librdkafka would wait up to ten.
_QUICK_RECONNECT: Final = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}
_COMMITTED: Final = {
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "check.crcs": True,
    "fetch.wait.max.ms": 50,
}


def client_config(cluster: DevCluster, settings: Mapping[str, object] | None = None) -> dict[str, Any]:
    """The configuration of a client of the cluster, with further settings by librdkafka's names."""
    return {**cluster.confluent_config(), **_QUICK_RECONNECT, "log_level": 0, **(settings or {})}


def create_topics(cluster: DevCluster, topics: Sequence[NewTopic]) -> None:
    """Create topics, a few hundred in a request. Raises MirrorError if the cluster refuses one."""
    admin = AdminClient(client_config(cluster))
    for start in range(0, len(topics), 200):
        created = admin.create_topics(list(topics[start : start + 200]), operation_timeout=_TIMEOUT_S)
        for name, future in created.items():
            try:
                future.result(2 * _TIMEOUT_S)
            except KafkaException as error:
                raise MirrorError(f"topic {name} can't be created on {cluster.name}: {error}") from error


def create_topic(
    cluster: DevCluster, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic with up to three replicas, and wait for its leaders. Raises as ``create_topics`` does."""
    create_topics(cluster, [NewTopic(topic, partitions, min(3, len(cluster.brokers)), config=dict(configs or {}))])
    # The leaders themselves are asked: metadata may name one that has not heard of its partition yet.
    sample = TopicEnds(cluster, topic, range(0, partitions, max(1, partitions // 50)))
    wait_until(lambda: sample.total() == 0, _TIMEOUT_S, f"{topic} has leaders", every_s=0.1)


def delete_topics(cluster: DevCluster, matches: Callable[[str], bool]) -> None:
    """Delete the topics whose names match."""
    admin = AdminClient(client_config(cluster))
    found = [name for name in admin.list_topics(timeout=_TIMEOUT_S).topics if matches(name)]
    for future in (admin.delete_topics(found) if found else {}).values():
        future.result(_TIMEOUT_S)


class TopicEnds:
    """The ends of some partitions of one topic: last stable offsets, or high watermarks where not ``committed``."""

    def __init__(self, cluster: DevCluster, topic: str, partitions: Collection[int], *, committed: bool = True) -> None:
        self._admin = AdminClient(client_config(cluster))
        self._level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        self._wanted = {TopicPartition(topic, number): latest for number in partitions}

    def by_partition(self) -> dict[int, int]:
        """The ends by partition; empty while the topic does not exist or lacks a leader."""
        asked = self._admin.list_offsets(self._wanted, isolation_level=self._level, request_timeout=_TIMEOUT_S)
        try:
            return {partition.partition: future.result().offset for partition, future in asked.items()}
        except KafkaException:
            return {}

    def total(self) -> int:
        """The sum of the ends; -1 while the topic does not exist or lacks a leader."""
        found = self.by_partition()
        return sum(found.values()) if found else -1


def high_watermarks(cluster: DevCluster, topic: str, partitions: int) -> dict[int, int]:
    """The high watermark of each partition. Raises MirrorError if the leaders don't answer within a minute."""
    ends = TopicEnds(cluster, topic, range(partitions), committed=False)
    found: dict[int, int] = {}

    def answered() -> bool:
        found.update(ends.by_partition())
        return bool(found)

    wait_until(answered, _TIMEOUT_S, f"{topic} has leaders", every_s=0.1)
    return found


def read_messages(cluster: DevCluster, topic: str, partitions: Collection[int]) -> Iterator[Message]:
    """Every committed record of partitions, each in order to its end. Raises MirrorError if they can't be read."""
    consumer = Consumer(client_config(cluster, {**_COMMITTED, "group.id": "lab", "enable.partition.eof": True}))
    unfinished = set(partitions)
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        last_s = time.monotonic()
        while unfinished:
            for message in consumer.consume(_READ_AT_ONCE, timeout=0.1):
                last_s = time.monotonic()
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - public, as librdkafka names it
                    unfinished.discard(message.partition())
                elif not error.retriable():
                    raise MirrorError(f"{topic} can't be read: {error}")
            if time.monotonic() - last_s > _TIMEOUT_S:
                raise MirrorError(f"{topic} can't be read: nothing came for {_TIMEOUT_S:g} s")
    finally:
        consumer.close()


def read_partition(cluster: DevCluster, topic: str, partition: int) -> Iterator[LoadRecord]:
    """Every committed record of a partition, in order. Raises as ``read_messages`` does."""
    return map(record_of, read_messages(cluster, topic, [partition]))


def read_placed(cluster: DevCluster, topic: str, partition: int) -> Iterator[PlacedRecord]:
    """Every committed record of a partition with its offset, in order. Raises as ``read_messages`` does."""
    messages = read_messages(cluster, topic, [partition])
    return (PlacedRecord(message.offset() or 0, record_of(message)) for message in messages)


def record_of(message: Any) -> LoadRecord:
    """The record of a consumer's message, without its offset."""
    return LoadRecord(message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])


class TopicTail(BackgroundThread):
    """Reads committed records of some partitions as they arrive, until it is stopped."""

    def __init__(
        self,
        config: Mapping[str, Any],
        partitions: Sequence[TopicPartition],
        on_record: Callable[[Message, float], None],
        *,
        poll_s: float = 0.05,
    ) -> None:
        """``config`` is as ``client_config`` gives it; each partition has the offset to begin at.

        ``on_record`` is called in the reading thread, with the time (``time.monotonic``) of the record's arrival.
        """
        super().__init__("tail")
        self._config = {**config, **_COMMITTED, "group.id": "lab-tail"}
        self._partitions = list(partitions)
        self._on_record = on_record
        self._poll_s = poll_s

    def _run(self) -> None:
        consumer = Consumer(self._config)
        try:
            consumer.assign(self._partitions)
            while not self._stopping.is_set():
                for message in consumer.consume(1_000, timeout=self._poll_s):
                    if message.error() is None:
                        self._on_record(message, time.monotonic())
        finally:
            consumer.close()
