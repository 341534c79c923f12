"""Kafka's own client library as the run uses it: to write, to read, to create topics. Shares no code with the copy."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mirror_ray.lab.chaos.records import ChaosRecord, Placed
from mirror_ray.lab.chaos.topology import TARGETS, TOPICS
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError

_TIMEOUT_S: Final = 60.0
_SILENT: Final = {"log_level": 0}
#: A broker comes back after seconds: not to be waited for by librdkafka's ten.
_SOON: Final = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}


def client_config(cluster: DevCluster, settings: Mapping[str, object]) -> dict[str, Any]:
    """Configuration of a client with these further settings."""
    return {**cluster.confluent_config(), **_SOON, **_SILENT, **settings}


def create_topics(clusters: Mapping[str, DevCluster]) -> None:
    """Create the run's topics, and the remote topics that must be there before their flow makes them."""
    for alias, cluster in clusters.items():
        new = [
            NewTopic(each.name, each.partitions, 1, config=dict(each.configs))
            for each in TOPICS
            if each.cluster == alias
        ]
        new += [
            NewTopic(each.remote_name, each.partitions, 1, config=dict(each.remote_configs))
            for each in TOPICS
            if each.remote_configs is not None and TARGETS[each.cluster] == alias
        ]
        admin = AdminClient(client_config(cluster, {}))
        for future in admin.create_topics(new).values():
            future.result(_TIMEOUT_S)


def consumer(cluster: DevCluster) -> Consumer:
    """A consumer of committed records that commits nothing and tells the end of a partition."""
    return Consumer(
        client_config(
            cluster,
            {
                "group.id": "chaos",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "check.crcs": True,
                "fetch.wait.max.ms": 50,
            },
        )
    )


def end_offsets(cluster: DevCluster, topic: str, partitions: int) -> dict[int, int]:
    """The high watermark of each partition."""
    reader = consumer(cluster)
    try:
        return {
            number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=_TIMEOUT_S)[1]
            for number in range(partitions)
        }
    finally:
        reader.close()


def read_partition(cluster: DevCluster, topic: str, partition: int) -> Iterator[ChaosRecord]:
    """Every committed record of a partition, in order, to its end. Raises as ``read_placed`` does."""
    return (placed.record for placed in read_placed(cluster, topic, partition))


def read_placed(cluster: DevCluster, topic: str, partition: int) -> Iterator[Placed]:
    """As ``read_partition``, each record with its offset.

    Raises:
        MirrorError: The broker refuses it, or says nothing for a minute.
    """
    reader = consumer(cluster)
    try:
        reader.assign([TopicPartition(topic, partition, 0)])
        heard_s = time.monotonic()
        while True:
            for message in reader.consume(5_000, timeout=0.1):
                heard_s = time.monotonic()
                error = message.error()
                if error is None:
                    yield Placed(message.offset() or 0, record_of(message))
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - public, in librdkafka's manner
                    return
                elif not error.retriable():
                    raise MirrorError(f"{topic}-{partition} can't be read: {error}") from KafkaException(error)
            if time.monotonic() - heard_s > _TIMEOUT_S:
                raise MirrorError(f"{topic}-{partition} can't be read: nothing came for {_TIMEOUT_S:g} s")
    finally:
        reader.close()


def record_of(message: Any) -> ChaosRecord:
    """What a consumer got, without its offset."""
    return ChaosRecord(message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])
