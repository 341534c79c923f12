"""Consumer groups' offsets, by a client that shares no code with what is tested."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.clusters import Reachable

#: KafkaError.retriable() is false for them: librdkafka says so of a transaction's errors alone.
_NOT_YET = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)


def commit(cluster: Reachable, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit as kafka-consumer-groups --reset-offsets does."""
    consumer = Consumer({**cluster.confluent_config(), "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(*p, offset) for p, offset in offsets.items()], asynchronous=False)
    finally:
        consumer.close()


@contextmanager
def member(cluster: Reachable, group: str, *topics: str, protocol: str = "classic") -> Iterator[Consumer]:
    """A member that has partitions of all these topics, and commits nothing by itself; it leaves at the end."""
    config = {**cluster.confluent_config(), "group.id": group, "group.protocol": protocol}
    consumer = Consumer({**config, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(list(topics))
        deadline_s = time.monotonic() + 30
        while {partition.topic for partition in consumer.assignment()} != set(topics):
            assert time.monotonic() < deadline_s, f"{group} has {consumer.assignment()}"
            consumer.poll(0.1)
        yield consumer
    finally:
        consumer.close()


def committed(cluster: Reachable, group: str, topic: str, partitions: int) -> dict[int, int]:
    """By partition; -1001 for none."""
    consumer = Consumer({**cluster.confluent_config(), "group.id": group})
    try:
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        return {
            partition.partition: partition.offset for partition in _ask(lambda: consumer.committed(asked, timeout=30))
        }
    finally:
        consumer.close()


def process(cluster: Reachable, group: str, topic: str, most: int = 10_000, partitions: int = 2) -> list[bytes]:
    """As a member-less consumer: read on from what is committed, to the end or ``most`` records, and commit."""
    config = {**cluster.confluent_config(), "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**config, "auto.offset.reset": "error", "enable.partition.eof": True})
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_STORED) for number in range(partitions)])
        ended: set[Any] = set()
        while len(values) < most and len(ended) < partitions:
            message = consumer.poll(10)
            assert message is not None, "nothing came"
            if (error := message.error()) is not None:
                assert error.name() == "_PARTITION_EOF", error
                ended.add(message.partition())
                continue
            values.append(message.value() or b"")
        if values:
            consumer.commit(offsets=consumer.position(consumer.assignment()), asynchronous=False)
    finally:
        consumer.close()
    return values


def _ask(ask: Callable[[], list[TopicPartition]]) -> list[TopicPartition]:
    """The first one to ask a new cluster about a group has its offsets topic made, and is refused meanwhile."""
    deadline_s = time.monotonic() + 30
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline_s or error.args[0].code() not in _NOT_YET:
                raise
            time.sleep(0.1)
