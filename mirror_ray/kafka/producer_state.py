"""What a partition's leader remembers of idempotent producers: DescribeProducers (KIP-664), on one connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.kafka.connection import Connection
from mirror_ray.model.names import TopicPartition

_KEY, _VERSIONS = 61, (0, 0)


@dataclass(frozen=True, slots=True)
class KnownProducers:
    """The sequence of the last record that each producer wrote, by producer id, as far as the broker remembers them."""

    last_sequences: Mapping[int, int]
    error_code: int = 0


async def known_producers(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, KnownProducers]:
    """What a leader remembers of the producers of these partitions. It needs READ on the topics.

    Raises:
        ConnectionError: The connection was lost.
        KafkaProtocolError: UNSUPPORTED_VERSION: the broker is older than 2.8.
    """
    version = connection.best_version(_KEY, *_VERSIONS)
    module: Any = load_entity_module("describe_producers", version, EntityType.request)
    numbers: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        numbers[partition.topic].append(partition.partition)
    topics = tuple(module.TopicRequest(name=name, partition_indexes=tuple(of)) for name, of in numbers.items())
    response = await connection.request(module.DescribeProducersRequest(topics=topics))
    return {
        TopicPartition(topic.name, found.partition_index): KnownProducers(
            # One that has written nothing but markers has sequence -1.
            {each.producer_id: each.last_sequence for each in found.active_producers if each.last_sequence >= 0},
            int(found.error_code),
        )
        for topic in response.topics
        for found in topic.partitions
    }
