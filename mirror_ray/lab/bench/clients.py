"""Kafka's own client library as the race uses it: to make data, to watch, to compare. Shares no code with the copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError

_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.02


def client_config(cluster: DevCluster, **settings: object) -> dict[str, Any]:
    """Configuration of a client with these further settings, ``_`` for ``.`` in their names."""
    more = {key.replace("_", "."): value for key, value in settings.items()}
    return {**cluster.confluent_config(), "log_level": 0, **more}


def create_topic(cluster: DevCluster, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Create a topic with a replica on every broker, up to three, and wait until its partitions are led.

    Raises:
        MirrorError: The cluster refuses it.
    """
    admin = AdminClient(client_config(cluster))
    new = NewTopic(topic, partitions, min(3, len(cluster.brokers)), config=dict(configs))
    try:
        admin.create_topics([new])[topic].result(_TIMEOUT_S)
    except KafkaException as error:
        raise MirrorError(f"topic {topic} can't be created on {cluster.name}: {error}") from error
    # The leaders themselves are asked: the metadata may name one that does not know of it yet.
    some = TopicEnds(cluster, topic, range(0, partitions, max(1, partitions // 50)))
    wait_until(lambda: some.total() == 0, _TIMEOUT_S, f"{topic} is led", every_s=0.1)


def delete_topics(cluster: DevCluster, matches: Callable[[str], bool]) -> None:
    """Delete the topics that match."""
    admin = AdminClient(client_config(cluster))
    found = [name for name in admin.list_topics(timeout=_TIMEOUT_S).topics if matches(name)]
    if found:
        for future in admin.delete_topics(found).values():
            future.result(_TIMEOUT_S)


class TopicEnds:
    """The ends of some partitions of one topic, as far as consumers of committed records see."""

    def __init__(self, cluster: DevCluster, topic: str, partitions: Collection[int]) -> None:
        self._admin = AdminClient(client_config(cluster))
        end = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        self._wanted = {TopicPartition(topic, number): end for number in partitions}

    def each(self) -> dict[int, int]:
        """By partition; empty while the topic is not there or not led."""
        asked = self._admin.list_offsets(
            self._wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_TIMEOUT_S
        )
        try:
            return {partition.partition: future.result().offset for partition, future in asked.items()}
        except KafkaException:
            return {}

    def total(self) -> int:
        """Their sum; -1 while the topic is not there or not led."""
        found = self.each()
        return sum(found.values()) if found else -1


def consumer(cluster: DevCluster, topic: str, partitions: Sequence[int], *, at_end: bool = False) -> Consumer:
    """A consumer of committed records from the first one on, or from the end, that tells where a partition ends."""
    made = Consumer(
        client_config(
            cluster,
            group_id="mirror-ray-bench",
            enable_auto_commit=False,
            enable_partition_eof=not at_end,
            isolation_level="read_committed",
            check_crcs=True,
            fetch_wait_max_ms=100,
            queued_max_messages_kbytes=65536,
        )
    )
    ends = TopicEnds(cluster, topic, partitions).each() if at_end else dict.fromkeys(partitions, 0)
    made.assign([TopicPartition(topic, number, ends[number]) for number in partitions])
    return made


def wait_until(done: Callable[[], bool], timeout_s: float, what: str, every_s: float = _POLL_S) -> None:
    """Look until it is so.

    Raises:
        MirrorError: It is not within ``timeout_s``; the text says what was waited for.
    """
    deadline_s = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline_s:
            raise MirrorError(f"waited {timeout_s:.0f} s in vain until {what}")
        time.sleep(every_s)
