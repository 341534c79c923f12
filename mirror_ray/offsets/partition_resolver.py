"""Finds the remote partition of a source partition, and the maps and topics that its offsets are translated by."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.offsets.bidirectional import why_not_synced

#: Topics are listed again after so long, so that one that a pattern has renamed may be found so much later.
_REFRESH_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ResolvedPartition:
    """Where a source partition is on the target."""

    remote: TopicPartition
    #: Whether it came from the target, so that the map of the flow back translates it.
    back: bool
    #: The partition that the map is of.
    key: TopicPartition
    #: Both sides write it under one name, so that the map of the flow back is needed, too.
    both: bool = False


class NamedTopic(NamedTuple):
    """A topic of a cluster by its name, whichever topic that is now."""

    cluster: ClusterConnections
    name: str

    def other_than(self, topic_id: TopicId) -> str | None:
        """Why it is not the topic of that id; None: it is, as far as the last metadata say."""
        found = self.cluster.metadata.topics.get(self.name)
        if found is None or found.topic_id == topic_id:
            return None
        name = f"topic {self.name} on cluster {self.cluster.settings.alias}"
        if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return f"{name} is missing"
        return None if found.error_code else f"{name} was created anew, and nothing of that was copied yet"


class PublishedMap(NamedTuple):
    """The map of one partition, and the topics that it should be of: the one that is copied, and its copy."""

    #: Whether it is asked for the source offset of a target offset.
    back: bool
    key: TopicPartition
    source: NamedTopic
    target: NamedTopic

    def other_than(self, ids: tuple[TopicId, TopicId]) -> str | None:
        """Why these are not the topics that it is of; None: they are."""
        return self.source.other_than(ids[0]) or self.target.other_than(ids[1])


class PartitionResolver:
    """Resolves the partitions of one flow."""

    def __init__(self, flow: FlowSettings, source: ClusterConnections, target: ClusterConnections) -> None:
        self.rules = replication_rules(flow)
        self._source, self._target = source, target
        self._flow = flow
        self._refreshed_s = float("-inf")
        #: The topics that are copied into each remote one of several topics.
        self._merged: dict[str, list[str]] = {}

    async def prepare(self) -> None:
        """List the topics that there are, where names alone don't tell what was renamed or merged."""
        if time.monotonic() - self._refreshed_s <= _REFRESH_S:
            return
        if self.rules.names_back.renames:
            await self._target.refresh(None)
        if _may_merge(self.rules):
            await self._source.refresh(None)
            self._merged = _merged(self._source.metadata.topics, self.rules)
        self._refreshed_s = time.monotonic()

    def merged_from(self, remote: TopicPartition) -> list[TopicPartition]:
        """The source's partitions that are copied into a remote partition of several topics, as last listed."""
        found = (TopicPartition(topic, remote.partition) for topic in self._merged.get(remote.topic, ()))
        return [partition for partition in found if self._source.metadata.partition(partition) is not None]

    def find_all(self, partition: TopicPartition) -> tuple[ResolvedPartition, ...]:
        """Where a source partition is on the target; nowhere: the flow does not copy it.

        Several: each of the topics on the target that were merged into the one on the source.
        """
        topic, number = partition.topic, partition.partition
        if self.rules.routed is not None and not self.rules.should_replicate_topic(topic):
            # What came from the target is the flow's own business.
            return ()
        originals = [TopicPartition(name, number) for name in self.rules.originals(topic, self._target.metadata.topics)]
        if originals:
            return tuple(ResolvedPartition(remote=original, back=True, key=original) for original in originals)
        if not self.rules.should_replicate_topic(topic) or self.why_not(partition) is not None:
            return ()
        remote = TopicPartition(self.rules.remote_topic(topic), number)
        both = self._flow.both_sides_write(topic, remote.topic)
        return (ResolvedPartition(remote=remote, back=False, key=partition, both=both),)

    def why_not(self, partition: TopicPartition) -> str | None:
        """Why groups of a topic that the flow copies are not synced; None: they are, or it does not copy it."""
        topic, rules = partition.topic, self.rules
        if not rules.should_replicate_topic(topic) or not self._flow.both_sides_write(topic, rules.remote_topic(topic)):
            return None
        return why_not_synced(self._flow, topic)

    def maps_of(self, partition: TopicPartition, resolved: ResolvedPartition) -> tuple[PublishedMap, ...]:
        """The maps that translate the offsets of a source partition; two where both sides write it."""
        here, there = NamedTopic(self._source, partition.topic), NamedTopic(self._target, resolved.remote.topic)
        if resolved.back:
            return (PublishedMap(True, resolved.key, there, here),)
        own = PublishedMap(False, resolved.key, here, there)
        return (own, PublishedMap(True, resolved.remote, there, here)) if resolved.both else (own,)


def _may_merge(rules: ReplicationRules) -> bool:
    """Whether several topics may be copied into one, by what the configuration says."""
    names = rules.names
    return bool(names) and (rules.shared_remote is not None or any(map(rules.merges, names.mapped.values())))


def _merged(topics: Iterable[str], rules: ReplicationRules) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for topic in sorted(topics):
        if rules.should_replicate_topic(topic) and rules.merges(remote := rules.remote_topic(topic)):
            found[remote].append(topic)
    return dict(found)
