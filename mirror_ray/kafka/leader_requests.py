"""Requests that only a partition's leader answers, each on one connection.

ListOffsets, OffsetForLeaderEpoch (KIP-101), DescribeLogDirs (KIP-113), DescribeProducers (KIP-664). All of
them raise ConnectionError where the connection is lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import CLUSTER_AUTHORIZATION_FAILED, REPLICA_NOT_AVAILABLE, UNKNOWN_LEADER_EPOCH
from mirror_ray.kafka.metadata import PartitionMetadata
from mirror_ray.model.names import TopicPartition

IsolationLevel = Literal["read_uncommitted", "read_committed"]

LATEST = -1
EARLIEST = -2

_LIST_OFFSETS_KEY, _LIST_OFFSETS_VERSIONS = 2, (5, 9)
_LEADER_EPOCH_KEY, _LEADER_EPOCH_VERSIONS = 23, (3, 4)
_LOG_DIRS_KEY, _LOG_DIRS_VERSIONS = 35, (1, 4)
_PRODUCERS_KEY, _PRODUCERS_VERSIONS = 61, (0, 0)
_CONSUMER = -1

Partitions = Mapping[TopicPartition, PartitionMetadata]


@dataclass(frozen=True, slots=True)
class OffsetAnswer:
    """An offset of a partition; ``offset`` is -1 with an error, or when no record is that late."""

    offset: int
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Where a partition's log ends on its leader.

    ``end_offset`` is the leader's own log end; only records below ``high_watermark`` are sure to last. They were read
    in this order, so a log that is being written to may show a higher ``high_watermark``.
    """

    end_offset: int
    high_watermark: int
    leader_epoch: int
    error_code: int


async def list_offsets(
    connection: Connection,
    partitions: Partitions,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel,
) -> dict[TopicPartition, OffsetAnswer]:
    """Ask a leader for the offsets at these timestamps."""
    version = connection.best_version(_LIST_OFFSETS_KEY, *_LIST_OFFSETS_VERSIONS)
    module: Any = load_entity_module("list_offsets", version, EntityType.request)
    topics = tuple(
        module.ListOffsetsTopic(
            name=topic,
            partitions=tuple(
                module.ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=partition.leader_epoch,
                    timestamp=timestamps[TopicPartition(topic, partition.partition)],
                )
                for partition in of_topic
            ),
        )
        for topic, of_topic in _by_topic(partitions)
    )
    isolation = int(isolation_level == "read_committed")
    request = module.ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=isolation, topics=topics)
    response = await connection.request(request)
    return {
        TopicPartition(topic.name, p.partition_index): OffsetAnswer(p.offset, int(p.error_code))
        for topic in response.topics
        for p in topic.partitions
    }


async def epoch_ends(
    connection: Connection, partitions: Partitions, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAnswer]:
    """Ask a leader where leader epochs ended in its logs; for one that it has not, where the one before it ended."""
    version = connection.best_version(_LEADER_EPOCH_KEY, *_LEADER_EPOCH_VERSIONS)
    module: Any = load_entity_module("offset_for_leader_epoch", version, EntityType.request)
    topics = tuple(
        module.OffsetForLeaderTopic(
            topic=topic,
            partitions=tuple(
                module.OffsetForLeaderPartition(
                    partition=partition.partition,
                    current_leader_epoch=partition.leader_epoch,
                    leader_epoch=epochs[TopicPartition(topic, partition.partition)],
                )
                for partition in of_topic
            ),
        )
        for topic, of_topic in _by_topic(partitions)
    )
    response = await connection.request(module.OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics))
    return {
        # Where the leader knows no end of the epoch, it answers -1 and no error.
        TopicPartition(topic.topic, end.partition): OffsetAnswer(
            end.end_offset, int(end.error_code) or (UNKNOWN_LEADER_EPOCH if end.end_offset < 0 else 0)
        )
        for topic in response.topics
        for end in topic.partitions
    }


async def log_ends(connection: Connection, partitions: Partitions) -> dict[TopicPartition, LogEnd]:
    """Ask a leader where its logs end, then for the high watermarks."""
    current = {key: partition.leader_epoch for key, partition in partitions.items()}
    ends = await epoch_ends(connection, partitions, current)
    marks = await list_offsets(connection, partitions, dict.fromkeys(partitions, LATEST), "read_uncommitted")
    return {
        key: LogEnd(
            end_offset=end.offset,
            high_watermark=marks[key].offset,
            leader_epoch=current[key],
            error_code=end.error_code or marks[key].error_code,
        )
        for key, end in ends.items()
    }


def _numbers(partitions: Collection[TopicPartition]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each topic with its partitions' numbers."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        numbers[partition.topic].append(partition.partition)
    for topic, of_topic in numbers.items():
        yield topic, tuple(of_topic)


def _by_topic(partitions: Partitions) -> Iterator[tuple[str, list[PartitionMetadata]]]:
    topics: dict[str, list[PartitionMetadata]] = defaultdict(list)
    for key, partition in partitions.items():
        topics[key.topic].append(partition)
    return iter(topics.items())


@dataclass(frozen=True, slots=True)
class SizeAnswer:
    """The size of a broker's own replica; ``size_bytes`` is -1 with an error."""

    size_bytes: int
    error_code: int


async def replica_sizes(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, SizeAnswer]:
    """Bytes of the broker's own replicas of these partitions, each with an answer; needs DESCRIBE on the cluster."""
    version = connection.best_version(_LOG_DIRS_KEY, *_LOG_DIRS_VERSIONS)
    module: Any = load_entity_module("describe_log_dirs", version, EntityType.request)
    topics = tuple(
        module.DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in _numbers(partitions)
    )
    response = await connection.request(module.DescribeLogDirsRequest(topics=topics))
    # Without the right, a broker before 3.2 answers with an empty list instead of an error.
    refused = 0 if response.results else CLUSTER_AUTHORIZATION_FAILED
    error_code = int(getattr(response, "error_code", 0)) or refused or REPLICA_NOT_AVAILABLE
    answers = dict.fromkeys(partitions, SizeAnswer(-1, error_code))
    for directory in response.results:
        for topic in directory.topics:
            for found in topic.partitions:
                # A future replica is a second one, that is being moved to another directory.
                if not found.is_future_key:
                    answers[TopicPartition(topic.name, found.partition_index)] = SizeAnswer(found.partition_size, 0)
    return answers


@dataclass(frozen=True, slots=True)
class KnownProducers:
    """The sequence of the last record that each producer wrote, by producer id, as far as the broker remembers them."""

    last_sequences: Mapping[int, int]
    error_code: int = 0


async def known_producers(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, KnownProducers]:
    """Ask a leader what it remembers of the producers of these partitions; needs READ on the topics.

    Raises:
        KafkaProtocolError: UNSUPPORTED_VERSION: the broker is older than 2.8.
    """
    version = connection.best_version(_PRODUCERS_KEY, *_PRODUCERS_VERSIONS)
    module: Any = load_entity_module("describe_producers", version, EntityType.request)
    topics = tuple(module.TopicRequest(name=name, partition_indexes=numbers) for name, numbers in _numbers(partitions))
    response = await connection.request(module.DescribeProducersRequest(topics=topics))
    return {
        TopicPartition(topic.name, found.partition_index): KnownProducers(
            # A producer that has written nothing but markers has sequence -1.
            {known.producer_id: known.last_sequence for known in found.active_producers if known.last_sequence >= 0},
            int(found.error_code),
        )
        for topic in response.topics
        for found in topic.partitions
    }
