"""What a partition's leader remembers of idempotent producers: DescribeProducers (KIP-664), on one connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.kafka.connection import Connection
from mirror_ray.model.names import TopicPartition

_KEY, _VERSIONS = 61, (0, 0)


@dataclass(frozen=True, slots=True)
class LastSequence:
    """The sequence of the last record that a producer wrote; None: the broker has forgotten it, or never knew it."""

    sequence: int | None
    error_code: int = 0


async def last_sequences(
    connection: Connection, producers: Mapping[TopicPartition, int]
) -> dict[TopicPartition, LastSequence]:
    """What a leader remembers of one producer in each of these partitions. It needs READ on the topics.

    Raises:
        ConnectionError: The connection was lost.
        KafkaProtocolError: UNSUPPORTED_VERSION: the broker is older than 2.8.
    """
    version = connection.best_version(_KEY, *_VERSIONS)
    module: Any = load_entity_module("describe_producers", version, EntityType.request)
    numbers: dict[str, list[int]] = defaultdict(list)
    for partition in producers:
        numbers[partition.topic].append(partition.partition)
    topics = tuple(module.TopicRequest(name=name, partition_indexes=tuple(of)) for name, of in numbers.items())
    response = await connection.request(module.DescribeProducersRequest(topics=topics))
    answers: dict[TopicPartition, LastSequence] = {}
    for topic in response.topics:
        for found in topic.partitions:
            partition = TopicPartition(topic.name, found.partition_index)
            sequences = [p.last_sequence for p in found.active_producers if p.producer_id == producers[partition]]
            # A producer whose only batches are markers has sequence -1.
            known = next((each for each in sequences if each >= 0), None)
            answers[partition] = LastSequence(known, int(found.error_code))
    return answers
