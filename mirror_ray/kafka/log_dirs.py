"""How many bytes replicas take on a broker's disks: DescribeLogDirs (KIP-113), on one connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import CLUSTER_AUTHORIZATION_FAILED, REPLICA_NOT_AVAILABLE
from mirror_ray.model.names import TopicPartition

_KEY, _VERSIONS = 35, (1, 4)


@dataclass(frozen=True, slots=True)
class SizeAnswer:
    """What a broker said of a replica of its own; ``size_bytes`` is -1 with an error."""

    size_bytes: int
    error_code: int


async def replica_sizes(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, SizeAnswer]:
    """Bytes of the broker's own replicas of these partitions, each with an answer. It needs DESCRIBE on the cluster.

    Raises:
        ConnectionError: The connection was lost.
    """
    version = connection.best_version(_KEY, *_VERSIONS)
    module: Any = load_entity_module("describe_log_dirs", version, EntityType.request)
    numbers: dict[str, list[int]] = defaultdict(list)
    for each in partitions:
        numbers[each.topic].append(each.partition)
    topics = tuple(module.DescribableLogDirTopic(topic=name, partitions=tuple(of)) for name, of in numbers.items())
    response = await connection.request(module.DescribeLogDirsRequest(topics=topics))
    # Without the right, a broker before 3.2 answers with nothing at all instead of an error.
    refused = 0 if response.results else CLUSTER_AUTHORIZATION_FAILED
    error_code = int(getattr(response, "error_code", 0)) or refused or REPLICA_NOT_AVAILABLE
    answers = dict.fromkeys(partitions, SizeAnswer(-1, error_code))
    for directory in response.results:
        for topic in directory.topics:
            for found in topic.partitions:
                # A future replica is a second one, on its way to another directory.
                if not found.is_future_key:
                    answers[TopicPartition(topic.name, found.partition_index)] = SizeAnswer(found.partition_size, 0)
    return answers
