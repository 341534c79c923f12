"""Questions that only a partition's leader answers: ListOffsets and OffsetForLeaderEpoch, on one connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import UNKNOWN_LEADER_EPOCH
from mirror_ray.kafka.metadata import PartitionMetadata
from mirror_ray.model.names import TopicPartition

IsolationLevel = Literal["read_uncommitted", "read_committed"]

LATEST = -1
EARLIEST = -2

_LIST_OFFSETS_KEY, _LIST_OFFSETS_VERSIONS = 2, (5, 9)
_LEADER_EPOCH_KEY, _LEADER_EPOCH_VERSIONS = 23, (3, 4)
_CONSUMER = -1

Partitions = Mapping[TopicPartition, PartitionMetadata]


@dataclass(frozen=True, slots=True)
class OffsetAnswer:
    """What ListOffsets said of a partition; ``offset`` is -1 with an error, or when no record is that late."""

    offset: int
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Where a partition's log ends on its leader.

    ``end_offset`` is the leader's own log end, of which only what lies below ``high_watermark`` is sure to last. The
    two were asked in this order, so a log that is being written to may show a higher ``high_watermark``.
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
    """Ask a leader for the offsets at these timestamps.

    Raises:
        ConnectionError: The connection was lost.
    """
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
    """Ask a leader where leader epochs ended in its logs, or the last ones that are not above them (KIP-101).

    Raises:
        ConnectionError: The connection was lost.
    """
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
        # An epoch that the leader has no end for is no answer, though it comes without an error.
        TopicPartition(topic.topic, end.partition): OffsetAnswer(
            end.end_offset, int(end.error_code) or (UNKNOWN_LEADER_EPOCH if end.end_offset < 0 else 0)
        )
        for topic in response.topics
        for end in topic.partitions
    }


async def log_ends(connection: Connection, partitions: Partitions) -> dict[TopicPartition, LogEnd]:
    """Ask a leader where its logs end, then for the high watermarks.

    Raises:
        ConnectionError: The connection was lost.
    """
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


def _by_topic(partitions: Partitions) -> Iterator[tuple[str, list[PartitionMetadata]]]:
    topics: dict[str, list[PartitionMetadata]] = defaultdict(list)
    for key, partition in partitions.items():
        topics[key.topic].append(partition)
    return iter(topics.items())
