"""What brokers say of a partition's new leader when they refuse a Fetch or Produce request: KIP-951.

A client that takes it asks nobody for metadata, which another broker may have an older view of.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from mirror_ray.kafka.metadata import BrokerAddress, ClusterMetadata
from mirror_ray.kafka.metadata_answers import read_broker
from mirror_ray.kafka.primitives import read_uvarint
from mirror_ray.model.names import TopicPartition

_LEADER = struct.Struct(">ii")
#: The tag of the brokers' addresses, in both responses.
NODES_TAG: Final = 0

Tags = Mapping[int, bytes | memoryview]


class LeaderHint(NamedTuple):
    """A partition's leader, as the broker knows it that was asked."""

    leader: int
    leader_epoch: int


def read_leader_hint(tags: Tags, tag: int) -> LeaderHint | None:
    """A partition's CurrentLeader; None: the response has none, or the broker knows no leader.

    Raises:
        struct.error: The field ends too early.
    """
    if tag not in tags:
        return None
    hint = LeaderHint(*_LEADER.unpack_from(tags[tag]))
    return hint if hint.leader >= 0 else None


def read_nodes(tags: Tags) -> list[BrokerAddress]:
    """A response's NodeEndpoints: the addresses of the leaders that it names.

    Raises:
        struct.error, IndexError: The field ends too early.
    """
    if NODES_TAG not in tags:
        return []
    field = tags[NODES_TAG]
    count, at = read_uvarint(field, 0)
    nodes: list[BrokerAddress] = []
    for _ in range(count - 1):
        node, at = read_broker(field, at)
        nodes.append(node)
    return nodes


def with_leaders(
    known: ClusterMetadata, hints: Mapping[TopicPartition, LeaderHint], nodes: list[BrokerAddress]
) -> ClusterMetadata:
    """The metadata with those leaders that are newer than the known ones, by their epochs, and can be connected to."""
    brokers = known.brokers | {node.id: node for node in nodes if node.host}
    topics = dict(known.topics)
    for (name, number), (leader, leader_epoch) in hints.items():
        partition = topics[name].partitions.get(number) if name in topics else None
        if partition is not None and leader_epoch > partition.leader_epoch and leader in brokers:
            newer = replace(partition, leader=leader, leader_epoch=leader_epoch, error_code=0)
            topics[name] = replace(topics[name], partitions=topics[name].partitions | {number: newer})
    return replace(known, brokers=brokers, topics=topics)


def follows(known: ClusterMetadata, partition: TopicPartition, hint: LeaderHint | None) -> bool:
    """Whether the metadata has the leader that the broker named."""
    found = known.partition(partition)
    return hint is not None and found is not None and (found.leader, found.leader_epoch) == hint
