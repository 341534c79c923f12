"""Which way a source partition's offsets are translated, by which topics, and what is read where a map has a gap."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.errors import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION
from mirror_ray.kafka.offsets import EARLIEST, LATEST
from mirror_ray.kafka.reading import read_between
from mirror_ray.model.errors import KafkaProtocolError, MirrorError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.offsets.gap import GapReader
from mirror_ray.offsets.segments import Between, SegmentMap
from mirror_ray.offsets.translate import LogBounds
from mirror_ray.topics.selection import replication_rules


@dataclass(frozen=True, slots=True)
class Way:
    """Where a source partition is on the target."""

    remote: TopicPartition
    #: Whether it came from the target, so that the map of the flow back tells of it.
    back: bool
    #: By which partition the map tells of it.
    key: TopicPartition


class NamedTopic(NamedTuple):
    """What there is under a name."""

    cluster: Cluster
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


class Ways:
    """The ways of one flow."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster) -> None:
        self._rules = replication_rules(flow)
        self._target_alias = flow.name.target
        self._source, self._target = source, target

    def find(self, partition: TopicPartition) -> Way | None:
        """The way of a source partition; None: the flow does not copy it."""
        topic, number = partition.topic, partition.partition
        back = self._rules.policy.topic_source(topic) == self._target_alias
        upstream = self._rules.policy.upstream_topic(topic) if back else None
        if upstream is not None and upstream != topic:
            original = TopicPartition(upstream, number)
            return Way(remote=original, back=True, key=original)
        if not self._rules.should_replicate_topic(topic):
            return None
        return Way(remote=TopicPartition(self._rules.remote_topic(topic), number), back=False, key=partition)

    def topics(self, partition: TopicPartition, way: Way) -> tuple[NamedTopic, NamedTopic]:
        """The topics that the map should tell of: the one that its records are copied from, and the other."""
        here, there = NamedTopic(self._source, partition.topic), NamedTopic(self._target, way.remote.topic)
        return (there, here) if way.back else (here, there)


async def read_gap(
    cluster: Cluster, partition: TopicPartition, topic_id: TopicId, gap: Between, *, read_committed: bool
) -> SegmentMap | str:
    """What lies in a gap of a partition's map, by its records on ``cluster``; or why it can't be told.

    Raises:
        OSError, MirrorError: It can't be read now; or its log ends before that, and would be waited for.
    """
    reader = GapReader(gap, read_committed=read_committed)
    if cluster.metadata.leader(partition) < 0:
        await cluster.refresh([partition.topic])
    found = (await cluster.list_offsets({partition: LATEST}, "read_uncommitted"))[partition]
    if not found.error_code and found.offset < gap.before.source:
        raise MirrorError(f"{partition} ends at {found.offset}, and was copied up to {gap.before.source}")
    try:
        async for batches, aborted in read_between(
            cluster,
            partition,
            topic_id,
            gap.after.source,
            gap.before.source,
            read_committed=read_committed,
            purpose="gaps",
        ):
            reader.take(batches, aborted)
    except KafkaProtocolError as error:
        if error.code != OFFSET_OUT_OF_RANGE:
            raise
        return f"source offset {gap.after.source}, from which to count, was deleted"
    return reader.finish()


async def log_bounds(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogBounds]:
    """Where logs begin and end; those that can't be asked now are left out.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    if not partitions:
        return {}
    starts, ends = await asyncio.gather(
        cluster.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted"),
        cluster.list_offsets(dict.fromkeys(partitions, LATEST), "read_uncommitted"),
    )
    return {
        each: LogBounds(starts[each].offset, ends[each].offset)
        for each in partitions
        if not (starts[each].error_code or ends[each].error_code)
    }
