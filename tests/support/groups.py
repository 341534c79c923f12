"""Consumer groups' offsets, by a client that shares no code with what is tested."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from mirror_ray.devcluster import DevCluster


def commit(cluster: DevCluster, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit as kafka-consumer-groups --reset-offsets does."""
    consumer = Consumer({**cluster.confluent_config(), "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(*p, offset) for p, offset in offsets.items()], asynchronous=False)
    finally:
        consumer.close()


def committed(cluster: DevCluster, group: str, topic: str, partitions: int) -> dict[int, int]:
    """By partition; -1001 for none."""
    consumer = Consumer({**cluster.confluent_config(), "group.id": group})
    try:
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        return {each.partition: each.offset for each in _ask(lambda: consumer.committed(asked, timeout=30))}
    finally:
        consumer.close()


def _ask(ask: Callable[[], list[TopicPartition]]) -> list[TopicPartition]:
    """The first one to ask a new cluster about a group has its offsets topic made, and is refused meanwhile."""
    deadline_s = time.monotonic() + 30
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline_s or not error.args[0].retriable():
                raise
            time.sleep(0.1)
