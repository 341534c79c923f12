"""Which way a source partition's offsets are translated, by which topics, and what is read where a map has a gap."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.flow_transforms import flow_chains
from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST
from mirror_ray.kafka.partition_reader import read_between
from mirror_ray.model.errors import KafkaProtocolError, MirrorError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.offsets.bidirectional import why_not_carried
from mirror_ray.offsets.gap_scan import Copied, GapReader, others_wrote
from mirror_ray.offsets.segments import BetweenSegments, SegmentMap
from mirror_ray.offsets.transform_version import TransformVersions
from mirror_ray.offsets.translate import ReadableBounds
from mirror_ray.transforms.loading import TransformChains

#: A topic that a pattern has renamed may be found so much later.
_SEEN_AGAIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ResolvedPartition:
    """Where a source partition is on the target."""

    remote: TopicPartition
    #: Whether it came from the target, so that the map of the flow back tells of it.
    back: bool
    #: By which partition the map tells of it.
    key: TopicPartition
    #: Both sides write it under one name, so that the map of the flow back tells of it, too.
    both: bool = False


class NamedTopic(NamedTuple):
    """What there is under a name."""

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


class PublishedMaps(NamedTuple):
    """A partition's map, and the topics that it should tell of: the one that is copied from, and the other."""

    back: bool
    key: TopicPartition
    source: NamedTopic
    target: NamedTopic

    def other_than(self, ids: tuple[TopicId, TopicId]) -> str | None:
        """Why these are not the topics that it tells of."""
        return self.source.other_than(ids[0]) or self.target.other_than(ids[1])


class PartitionResolver:
    """The ways of one flow."""

    def __init__(self, flow: FlowSettings, source: ClusterConnections, target: ClusterConnections) -> None:
        self.rules = replication_rules(flow)
        self._source, self._target = source, target
        self._flow = flow
        self._seen_s = float("-inf")
        #: The topics that are copied into each remote one of several topics.
        self._merged: dict[str, list[str]] = {}

    async def prepare(self) -> None:
        """See what there is on the target, where topics from there can be told by that alone, and what is merged.

        Raises:
            ClusterUnreachableError: No broker answers.
        """
        if time.monotonic() - self._seen_s <= _SEEN_AGAIN_S:
            return
        if self.rules.names_back.renames:
            await self._target.refresh(None)
        if _may_merge(self.rules):
            await self._source.refresh(None)
            self._merged = _merged(self._source.metadata.topics, self.rules)
        self._seen_s = time.monotonic()

    def merged_from(self, remote: TopicPartition) -> list[TopicPartition]:
        """The source's partitions that are copied into a remote partition of several topics, as they were last seen."""
        found = (TopicPartition(topic, remote.partition) for topic in self._merged.get(remote.topic, ()))
        return [each for each in found if self._source.metadata.partition(each) is not None]

    def find(self, partition: TopicPartition) -> ResolvedPartition | None:
        """The way of a source partition; None: the flow does not copy it, or it came from several topics."""
        found = self.find_all(partition)
        return found[0] if len(found) == 1 else None

    def find_all(self, partition: TopicPartition) -> tuple[ResolvedPartition, ...]:
        """As ``find``; to each of the topics on the target that were merged into the one on the source."""
        topic, number = partition.topic, partition.partition
        if self.rules.routed is not None and not self.rules.should_replicate_topic(topic):
            # What came from the target is the flow's own business.
            return ()
        originals = [TopicPartition(name, number) for name in self.rules.originals(topic, self._target.metadata.topics)]
        if originals:
            return tuple(ResolvedPartition(remote=each, back=True, key=each) for each in originals)
        if not self.rules.should_replicate_topic(topic):
            return ()
        remote = TopicPartition(self.rules.remote_topic(topic), number)
        if self.why_not(partition) is not None:
            return ()
        return (
            ResolvedPartition(
                remote=remote, back=False, key=partition, both=self._flow.both_sides_write(topic, remote.topic)
            ),
        )

    def why_not(self, partition: TopicPartition) -> str | None:
        """Why groups of a topic that the flow copies are not carried over; None: they are, or it does not copy it."""
        topic, rules = partition.topic, self.rules
        if not rules.should_replicate_topic(topic) or not self._flow.both_sides_write(topic, rules.remote_topic(topic)):
            return None
        return why_not_carried(self._flow, topic)

    def told(self, partition: TopicPartition, way: ResolvedPartition) -> tuple[PublishedMaps, ...]:
        """The maps that tell of a way."""
        here, there = NamedTopic(self._source, partition.topic), NamedTopic(self._target, way.remote.topic)
        own = (
            PublishedMaps(way.back, way.key, there, here) if way.back else PublishedMaps(way.back, way.key, here, there)
        )
        return (own, PublishedMaps(True, way.remote, there, here)) if way.both else (own,)


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


def made_by(
    flow: FlowSettings | None, source: ClusterConnections, target: ClusterConnections, on_problem: Callable[[str], None]
) -> TransformVersions:
    """What tells of which source records a flow's copies were made; ``flow`` None: nobody knows what it does."""

    def ids() -> tuple[str, str]:
        return source.metadata.cluster_id, target.metadata.cluster_id

    return TransformVersions(lambda: TransformChains(()) if flow is None else flow_chains(flow, ids), on_problem)


async def read_gap(
    cluster: ClusterConnections,
    partition: TopicPartition,
    topic_id: TopicId,
    gap: BetweenSegments,
    *,
    read_committed: bool,
    copied: Copied | None = None,
) -> SegmentMap | str:
    """What lies in a gap of a partition's map, by its records on ``cluster``; or why it can't be told.

    ``copied``: what is copied of some records, where that is not all of them.

    Raises:
        OSError, MirrorError: It can't be read now; or its log ends before that, and would be waited for.
    """
    if (why := others_wrote(gap)) is not None:
        return why
    reader = GapReader(gap, read_committed=read_committed, copied=copied)
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


async def log_bounds(
    cluster: ClusterConnections, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ReadableBounds]:
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
        each: ReadableBounds(starts[each].offset, ends[each].offset)
        for each in partitions
        if not (starts[each].error_code or ends[each].error_code)
    }
