"""Writes Connect's topic of source offsets, as a Connect worker does. Blocking.

Source: ``KafkaOffsetBackingStore`` of Kafka 4.3: 25 partitions by default, compacted only, records placed by the Java
producer's hash of the key, so that compaction finds a key's older records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.librdkafka import client_config, mirror_error
from mirror_ray.kafka.topic_editor import ClusterEditor

#: Connect's ``offset.storage.partitions``.
_PARTITIONS: Final = 25
_DELIVERY_TIMEOUT_MS: Final = 30_000


def write_connect_offsets(
    cluster: ClusterSettings, topic: str, records: Sequence[tuple[bytes, bytes | None]], trail: AuditLog
) -> None:
    """Append keys and values, and wait until all are acknowledged; the topic is made where it is missing.

    Raises:
        ClusterUnreachableError: Not acknowledged in time; some may be there. Give all of them again.
        AdminError: The topic can't be created or written.
    """
    admin = ClusterEditor(cluster, "mirror-ray-handback", trail)
    try:
        admin.ensure_compacted_topic(topic, _PARTITIONS, None)
    finally:
        admin.close()
    told = {
        "acks": "all",
        "enable.idempotence": True,
        "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
        "partitioner": "murmur2_random",
    }
    producer = Producer(client_config(cluster, "mirror-ray-handback") | told)
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    try:
        for key, value in records:
            producer.produce(topic, value=value, key=key, on_delivery=delivered)
            producer.poll(0)
        producer.flush()
    finally:
        producer.close()
    if failures:
        raise mirror_error(cluster, f"write to topic {topic}", KafkaException(failures[0]))
