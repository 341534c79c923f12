"""Cluster metadata: brokers, topics, partitions and their leaders, out of Metadata responses."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """One broker, at the address that it advertises to us."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """One partition. ``leader`` is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic. ``topic_id`` is NO_TOPIC_ID before Kafka 2.8; ``error_code`` says why it has no partitions."""

    name: str
    topic_id: TopicId
    is_internal: bool
    error_code: int
    partitions: dict[int, PartitionMetadata]
    #: Broker id of each partition's leader.
    leaders: dict[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        leaders = {number: partition.leader for number, partition in self.partitions.items()}
        object.__setattr__(self, "leaders", leaders)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """All that is known of a cluster so far; immutable."""

    cluster_id: str
    brokers: dict[int, BrokerAddress]
    controller_id: int
    topics: dict[str, TopicMetadata]

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        """The partition's metadata, None if it is unknown."""
        topic = self.topics.get(partition.topic)
        return topic.partitions.get(partition.partition) if topic else None

    def leader(self, partition: TopicPartition) -> int:
        """Broker id of a partition's leader, -1 if none is known."""
        found = self.partition(partition)
        return found.leader if found is not None else -1


EMPTY_METADATA = ClusterMetadata(cluster_id="", brokers={}, controller_id=-1, topics={})


def topic_id_text(topic_id: uuid.UUID | bytes | None) -> TopicId:
    """A topic id as Kafka prints it; NO_TOPIC_ID for none, and for Kafka's zero id."""
    raw = topic_id.bytes if isinstance(topic_id, uuid.UUID) else topic_id
    if not raw or not any(raw):
        return NO_TOPIC_ID
    return TopicId(base64.urlsafe_b64encode(raw).decode().rstrip("="))


def topic_id_bytes(topic_id: TopicId) -> bytes:
    """The 16 bytes of a topic id as requests carry it; zeros for NO_TOPIC_ID.

    Raises:
        ValueError: The text is no topic id.
    """
    if topic_id == NO_TOPIC_ID:
        return bytes(16)
    raw = base64.urlsafe_b64decode(topic_id + "==")
    if len(raw) != 16:
        raise ValueError(f"{topic_id!r} is not a topic id: 22 characters of URL-safe base64")
    return raw


def described(response: Any) -> ClusterMetadata:
    """What one of kio's MetadataResponse entities (v9 to v12) says."""
    return ClusterMetadata(
        cluster_id=response.cluster_id or "",
        brokers={
            b.node_id: BrokerAddress(id=b.node_id, host=b.host, port=b.port, rack=b.rack) for b in response.brokers
        },
        controller_id=response.controller_id,
        topics={topic.name: _topic(topic) for topic in response.topics},
    )


def merged_metadata(known: ClusterMetadata, answer: ClusterMetadata, *, complete: bool) -> ClusterMetadata:
    """Merge what a broker said into the metadata that is known.

    A broker may answer with an older view than another did: a partition's lower leader epoch does not replace a higher
    one, as in Kafka's own client. ``complete``: topics that are not in the answer are removed.
    """
    newest = {name: _newest(known.topics.get(name), fresh) for name, fresh in answer.topics.items()}
    return replace(answer, topics=newest if complete else known.topics | newest)


def _topic(topic: Any) -> TopicMetadata:
    return TopicMetadata(
        name=topic.name,
        topic_id=topic_id_text(getattr(topic, "topic_id", None)),
        is_internal=topic.is_internal,
        error_code=int(topic.error_code),
        partitions={
            p.partition_index: PartitionMetadata(
                partition=p.partition_index,
                leader=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=p.replica_nodes,
                isr=p.isr_nodes,
                error_code=int(p.error_code),
            )
            for p in topic.partitions
        },
    )


def _newest(known: TopicMetadata | None, fresh: TopicMetadata) -> TopicMetadata:
    if known is fresh or known is None or fresh.topic_id == NO_TOPIC_ID or known.topic_id != fresh.topic_id:
        return fresh
    newer = _with_higher_epoch(known.partitions, fresh.partitions)
    return replace(fresh, partitions=fresh.partitions | newer) if newer else fresh


def _with_higher_epoch(
    known: Mapping[int, PartitionMetadata], fresh: Mapping[int, PartitionMetadata]
) -> dict[int, PartitionMetadata]:
    return {
        number: known[number]
        for number, partition in fresh.items()
        if number in known and known[number].leader_epoch > partition.leader_epoch
    }
