"""MM2's client: what a cluster's internal topics say of the clusters upstream of it and of their consumer groups.

::

    with MirrorClient({"bootstrap.servers": "backup:9092"}) as client:
        client.replication_hops("primary")
        client.remote_consumer_offsets("orders-app", "primary")

Sources: ``org.apache.kafka.connect.mirror.{MirrorClient,RemoteClusterUtils}`` of Kafka 4.3.0. Blocking.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self, TypeVar, overload

from mirror_ray.config.one_cluster import client_settings
from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.internal_topic_reader import latest_records
from mirror_ray.model import topology
from mirror_ray.model.errors import CorruptRecordError, TopicMissingError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.policy import DefaultReplicationPolicy, ReplicationPolicy
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.records.mm2_records import CheckpointRecord, HeartbeatRecord, checkpoint_group

__all__ = ["LastHeartbeat", "MirrorClient", "OffsetAndMetadata"]

_LOG = logging.getLogger(__name__)

_DEFAULT_TIMEOUT_S: Final = 30.0

_T = TypeVar("_T")


class OffsetAndMetadata(NamedTuple):
    """A position that is ready to be committed, with the metadata of the commit that it was translated from."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastHeartbeat:
    """The newest heartbeat of a flow that has come to a cluster."""

    #: When it was emitted, by the emitter's clock.
    timestamp_ms: int
    #: Its age by the clock here; below 0 where the clocks differ.
    age_ms: int
    #: The topic that it came by; ``heartbeats`` where the flow itself leads to this cluster.
    topic: str


class MirrorClient:
    """Asks one cluster, mostly the target of a flow. Thread-safe.

    Every method that asks raises ClusterUnreachableError where no broker answers in time, with what to look at, and
    AdminError where a right is missing.
    """

    def __init__(self, config: Mapping[str, object] | ClusterSettings, policy: ReplicationPolicy | None = None) -> None:
        """Make a client; nothing is asked of the cluster yet.

        Args:
            config: The cluster's settings, or properties as MM2's client takes them: ``bootstrap.servers``,
                ``security.protocol``, ``ssl.*``, ``sasl.*``, ``replication.policy.*``, with ``source.cluster.alias``
                for the identity policy.
            policy: How remote topics are named; by default as the properties say, else MM2's default.

        Raises:
            ConfigError: The properties can't be used; names the keys.
        """
        own: ReplicationPolicy
        if isinstance(config, ClusterSettings):
            self.cluster, own = config, DefaultReplicationPolicy()
        else:
            self.cluster, own = client_settings(config, os.environ)
        self._policy = policy or own
        self._admin: ClusterAdmin | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections; a client that is asked again makes new ones."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def replication_policy(self) -> ReplicationPolicy:
        """The policy by which remote topics are recognised."""
        return self._policy

    def replication_hops(self, upstream: str) -> int:
        """The fewest hops from the cluster ``upstream`` to this one, by heartbeats: 2 for A in A->B->C; -1: none."""
        return topology.replication_hops(self._policy, self._topics(), upstream)

    def heartbeat_topics(self) -> set[str]:
        """All heartbeats topics, those copied from other clusters included."""
        return topology.heartbeat_topics(self._policy, self._topics())

    def checkpoint_topics(self) -> set[str]:
        """All checkpoints topics."""
        return topology.checkpoint_topics(self._policy, self._topics())

    def upstream_clusters(self) -> set[str]:
        """Aliases of all clusters that heartbeats come from, over any number of hops."""
        return topology.upstream_clusters(self._policy, self._topics())

    def remote_topics(self, source: str | None = None) -> set[str]:
        """All remote topics, without internal ones; with ``source``, those copied directly from that cluster."""
        return topology.remote_topics(self._policy, self._topics(), source)

    @overload
    def remote_consumer_offsets(
        self, group: str, remote_alias: str, timeout_s: float = ...
    ) -> dict[TopicPartition, OffsetAndMetadata]: ...
    @overload
    def remote_consumer_offsets(
        self, group: re.Pattern[str], remote_alias: str, timeout_s: float = ...
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]: ...
    def remote_consumer_offsets(
        self, group: str | re.Pattern[str], remote_alias: str, timeout_s: float = _DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, OffsetAndMetadata] | dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Where a consumer group of the cluster ``remote_alias`` goes on here, as the newest checkpoints say.

        Args:
            group: A group's name; or a compiled pattern, for all groups whose whole name matches it.
            remote_alias: The upstream cluster's alias.
            timeout_s: Within which all checkpoints must have been read.

        Returns:
            For one group: local (remote) partition to position, empty where there are no checkpoints of the group. For
            a pattern: such a mapping for each group that has any.

        Raises:
            TopicMissingError: No checkpoints from that cluster are kept here.
            NoAnswerError: The time was too short for all of them. MM2's client returns what it has then.
        """
        deadline = time.monotonic() + timeout_s
        topic = self._policy.checkpoints_topic(remote_alias)
        topics = self._topics(timeout_s)
        if topic not in topics:
            there = ", ".join(sorted(topology.checkpoint_topics(self._policy, topics))) or "none"
            raise TopicMissingError(
                f"cluster {self.cluster.alias} has no checkpoints topic {topic} (there are: {there}): check the alias "
                f"{remote_alias} and replication.policy.separator, and that a flow from it with checkpoints runs"
            )
        records = self._read(topic, deadline)
        if isinstance(group, str):
            return _positions(topic, records, lambda name: name == group).get(group, {})
        return _positions(topic, records, lambda name: group.fullmatch(name) is not None)

    def heartbeats(self, timeout_s: float = _DEFAULT_TIMEOUT_S) -> dict[FlowName, LastHeartbeat]:
        """The last heartbeat of every (source, target) pair that was seen on this cluster, by any way.

        Raises:
            NoAnswerError: The time was too short to read all heartbeats.
        """
        deadline = time.monotonic() + timeout_s
        found: dict[FlowName, LastHeartbeat] = {}
        for topic in sorted(topology.heartbeat_topics(self._policy, self._topics(timeout_s))):
            beats = _decoded(topic, self._read(topic, deadline), HeartbeatRecord.decode)
            now_ms = int(time.time() * 1000)
            for beat in beats:
                flow = FlowName(beat.source_alias, beat.target_alias)
                if flow not in found or beat.timestamp_ms > found[flow].timestamp_ms:
                    age_ms = now_ms - beat.timestamp_ms
                    found[flow] = LastHeartbeat(timestamp_ms=beat.timestamp_ms, age_ms=age_ms, topic=topic)
        return found

    def _topics(self, timeout_s: float | None = None) -> Collection[str]:
        admin = self._admin = self._admin or ClusterAdmin(self.cluster, "mirror-ray-client")
        return admin.list_topics(timeout_s)

    def _read(self, topic: str, deadline: float) -> Collection[DecodedRecord]:
        """The newest record of every key."""
        left_s = deadline - time.monotonic()
        return latest_records(self.cluster, topic, patience_s=max(0.1, left_s), time_limit_s=left_s).values()


def _positions(
    topic: str, records: Iterable[DecodedRecord], wanted: Callable[[str], bool]
) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    """Every wanted group's positions."""

    def decode(key: bytes | None, value: bytes | None) -> CheckpointRecord | None:
        return CheckpointRecord.decode(key, value) if wanted(checkpoint_group(key)) else None

    found: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    for checkpoint in _decoded(topic, records, decode):
        if checkpoint is not None:
            position = OffsetAndMetadata(checkpoint.downstream_offset, checkpoint.metadata)
            found.setdefault(checkpoint.group, {})[checkpoint.partition] = position
    return found


def _decoded(
    topic: str, records: Iterable[DecodedRecord], decode: Callable[[bytes | None, bytes | None], _T]
) -> list[_T]:
    """What the records say. Others that somebody wrote there are left out, and logged, as MM2's client does it."""
    found: list[_T] = []
    foreign, first = 0, ""
    for record in records:
        try:
            found.append(decode(record.key, record.value))
        except CorruptRecordError as error:
            foreign, first = foreign + 1, first or f"offset {record.offset}: {error}"
    if foreign:
        _LOG.warning("topic %s: %d records are skipped, first %s", topic, foreign, first)
    return found
