"""Kafka as the coordinator's ports, in memory: two clusters, what flows write there, configs and ACLs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.coordinator.ports import ClusterTopics, TargetLimits
from mirror_ray.model.acls import Acl
from mirror_ray.model.cluster_change import ConfigChange
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError, StateFencedError
from mirror_ray.model.filters import TopicFilter
from mirror_ray.model.names import FlowName, TopicId, TopicPartition
from mirror_ray.model.topics import ConfigValue
from mirror_ray.state.schema import Document
from mirror_ray.topics.acl_sync import AclChanges
from mirror_ray.topics.discovery_rules import TargetLogBounds, TopicSide
from mirror_ray.topics.remote_topics import Configs
from tests.unit.coordinator.virtual_clock import now_s


class TimedLog(list[str]):
    """Lines, and when each was added: ``times_s``, in seconds of the loop's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.times_s: list[float] = []

    def append(self, line: str) -> None:
        """Add a line."""
        self.extend([line])

    def extend(self, lines: Iterable[str]) -> None:
        """Add lines."""
        super().extend(lines)
        self.times_s += [now_s()] * (len(self) - len(self.times_s))

    def beginning(self, *starts: str, since: int = 0) -> list[str]:
        """The lines from that one on that begin so."""
        return [line for line in self[since:] if line.startswith(starts)]

    def place(self, start: str) -> int:
        """Where the first line that begins so is."""
        return next(index for index, line in enumerate(self) if line.startswith(start))

    def __iadd__(self, lines: Iterable[str]) -> Self:  # type: ignore[misc, override]
        self.extend(lines)
        return self


@dataclass
class FakeKafka:
    """Two clusters A and B, and what every flow has written into its state."""

    sources: dict[str, dict[str, TopicSide]] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    source_ends: dict[TopicPartition, int] = field(default_factory=dict)
    source_times: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    source_starts: dict[TopicPartition, int] = field(default_factory=dict)
    states: dict[FlowName, dict[str, Document]] = field(default_factory=dict)
    #: By alias, or by the bootstrap server that is asked.
    cluster_ids: dict[str, str] = field(default_factory=dict)
    unreachable: set[str] = field(default_factory=set)
    #: Remote partitions without a leader.
    leaderless: set[TopicPartition] = field(default_factory=set)
    #: Remote partitions in each question about where they begin and end.
    asked: list[tuple[TopicPartition, ...]] = field(default_factory=list)
    #: How often topics were selected: once for each look at the clusters that was gone into.
    selected: int = 0
    log: TimedLog = field(default_factory=TimedLog)
    #: Who opened each flow's state last; the others are fenced.
    owners: dict[FlowName, FakeFlowPort] = field(default_factory=dict)
    ids: int = 0
    producers: int = 0
    #: Who wrote the last batch of a remote partition.
    last_producers: dict[TopicPartition, int] = field(default_factory=dict)

    def add_topic(self, cluster: str, topic: str, partitions: int = 1) -> None:
        """Create a topic, or again with a new id."""
        self.ids += 1
        side = TopicSide(topic=topic, topic_id=TopicId(f"id-{self.ids}"), partitions=partitions)
        self.sources.setdefault(cluster, {})[topic] = side

    def grow(self, cluster: str, topic: str, partitions: int) -> None:
        """Add partitions."""
        self.sources[cluster][topic] = replace(self.sources[cluster][topic], partitions=partitions)

    async def cluster_id(self, cluster: ClusterSettings) -> str:
        """Which cluster answers by these settings."""
        server = cluster.bootstrap_servers[0]
        if server in self.unreachable or server.removesuffix(":9092") in self.unreachable:
            raise ClusterUnreachableError(f"cluster {cluster.alias} can't be reached")
        return self.id_of(cluster)

    def id_of(self, cluster: ClusterSettings) -> str:
        """By its address, else by its alias."""
        by_alias = self.cluster_ids.get(cluster.alias, f"cluster-{cluster.alias}")
        return self.cluster_ids.get(cluster.bootstrap_servers[0], by_alias)

    def seen(self, settings: ClusterSettings) -> ClusterTopics:
        """The cluster as metadata shows it."""
        cluster = settings.alias
        topics = dict(self.sources.get(cluster, {}))
        return ClusterTopics(
            cluster_id=self.id_of(settings),
            topics=topics,
            leaders={name: dict.fromkeys(range(side.partitions), 1) for name, side in topics.items()},
        )


class FakeFlowPort:
    """A flow's Kafka. Remote topics are named ``<source>.<topic>``, or as ``naming`` says."""

    def __init__(
        self, kafka: FakeKafka, settings: MirrorSettings, flow: FlowSettings, naming: Callable[[str], str]
    ) -> None:
        self.source, self.target = settings.clusters[flow.name.source], settings.clusters[flow.name.target]
        self.kafka, self.name, self.naming, self.backfill = kafka, flow.name, naming, flow.backfill
        self.configure(flow)

    def configure(self, flow: FlowSettings) -> None:
        self.filter = TopicFilter(flow.topics.include, flow.topics.exclude)

    def _reach(self) -> None:
        for alias in (self.name.source, self.name.target):
            if alias in self.kafka.unreachable:
                raise ClusterUnreachableError(f"cluster {alias} can't be reached")

    async def open(self) -> Mapping[str, Document]:
        self._reach()
        self.kafka.owners[self.name] = self
        return dict(self.kafka.states.setdefault(self.name, {}))

    async def observe(self) -> tuple[ClusterTopics, ClusterTopics]:
        self._reach()
        return self.kafka.seen(self.source), self.kafka.seen(self.target)

    def select(self, source: ClusterTopics) -> Mapping[str, str]:
        if self.backfill is not None:
            return {self.backfill.topic: self.backfill.into} if self.backfill.topic in source.topics else {}
        self.kafka.selected += 1
        return {
            topic: self.naming(topic)
            for topic in source.topics
            if "." not in topic and self.filter.should_replicate_topic(topic)
        }

    async def ensure_remote(
        self, wanted: Mapping[str, str], source: ClusterTopics, target: ClusterTopics
    ) -> tuple[Mapping[str, str], ClusterTopics]:
        for topic, remote in wanted.items():
            count = source.topics[topic].partitions
            self.kafka.log.append(f"create {remote} {count}")
            if remote in target.topics:
                self.kafka.grow(self.name.target, remote, count)
            else:
                self.kafka.add_topic(self.name.target, remote, count)
        return {}, self.kafka.seen(self.target)

    async def limits(self, remote: Sequence[str]) -> Mapping[str, TargetLimits]:
        return dict.fromkeys(remote, TargetLimits(max_message_bytes=1_000_000, compress_with=None))

    async def target_bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, TargetLogBounds]:
        self.kafka.asked.append(tuple(partitions))
        return {
            partition: TargetLogBounds(start=self.kafka.starts.get(partition, 0), end=self.kafka.ends.get(partition, 0))
            for partition in partitions
            if partition not in self.kafka.leaderless
        }

    async def source_offsets(
        self, partitions: Sequence[TopicPartition], *, latest: bool
    ) -> Mapping[TopicPartition, int]:
        offsets = self.kafka.source_ends if latest else self.kafka.source_starts
        return {partition: offsets.get(partition, 0) for partition in partitions}

    async def offsets_since(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {
            partition: self.kafka.source_times.get((partition, time_ms), 0) for partition, time_ms in times_ms.items()
        }

    async def forget(self, backfill: str) -> None:
        self.kafka.states.pop(self.name._replace(backfill=backfill), None)

    async def delete_records(self, before: Mapping[TopicPartition, int], operator: str | None = None) -> None:
        self._reach()
        for partition, offset in before.items():
            self.kafka.log.append(f"delete {partition} before {offset}" + (f" by {operator}" if operator else ""))
            self.kafka.starts[partition] = offset

    async def last_producers(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Those that ``FakeKafka.last_producers`` has."""
        known = self.kafka.last_producers
        return {partition: known[partition] for partition in ends if partition in known}

    async def fill_prefix(self, partition: TopicPartition, log_end: int, end: int, producer: tuple[int, int]) -> None:
        """The log is at its end at once."""
        self.kafka.log.append(f"fill {partition} from {log_end} to {end} as {producer[0]}")
        self.kafka.starts[partition] = self.kafka.ends[partition] = end

    async def end_transactions(self, transactional_ids: Collection[str]) -> None:
        """Remember which were fenced."""
        self.kafka.log.append(f"end transactions of {', '.join(sorted(transactional_ids))}")

    async def new_producer(self) -> tuple[int, int]:
        self.kafka.producers += 1
        return 4241 + self.kafka.producers, 0

    async def write_state(self, documents: Mapping[str, Document | None]) -> int:
        self._reach()
        if self.kafka.owners.get(self.name) is not self:
            raise StateFencedError("taken over by another coordinator")
        state = self.kafka.states.setdefault(self.name, {})
        for key, document in documents.items():
            self.kafka.log.append(f"write {key}")
            if document is None:
                state.pop(key, None)
            else:
                state[key] = document
        return len(self.kafka.log)

    async def close(self) -> None:
        self.kafka.log.append(f"close {self.name}")


@dataclass
class FakeTopicPort:
    """Configs and ACLs of both clusters; what is asked to be changed is done, and counted."""

    source: dict[str, Configs] = field(default_factory=dict)
    target: dict[str, Configs] = field(default_factory=dict)
    #: None: no authorizer.
    source_acls: set[Acl] | None = None
    target_acls: set[Acl] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    rounds: Counter[str] = field(default_factory=Counter)
    altered: list[Mapping[str, Mapping[str, str | None]]] = field(default_factory=list)
    changed: list[AclChanges] = field(default_factory=list)

    async def configs(self, remotes: Mapping[str, str]) -> tuple[Mapping[str, Configs], Mapping[str, Configs]]:
        self.rounds["configs"] += 1
        return (
            {topic: self.source[topic] for topic in remotes if topic in self.source},
            {remote: self.target[remote] for remote in remotes.values() if remote in self.target},
        )

    async def alter_configs(self, changes: Mapping[str, Sequence[ConfigChange]]) -> Mapping[str, MirrorError | None]:
        asked = {topic: {change.key: change.after for change in every} for topic, every in changes.items()}
        self.altered.append(asked)
        outcomes: dict[str, MirrorError | None] = {}
        for topic, values in asked.items():
            outcomes[topic] = MirrorError(f"{topic} is refused") if topic in self.refused else None
            if topic not in self.refused:
                default = ConfigValue(value="default", source="DEFAULT_CONFIG")
                set_ = {key: default if value is None else ConfigValue(value=value) for key, value in values.items()}
                self.target[topic] = {**self.target[topic], **set_}
        return outcomes

    async def acls(self) -> tuple[frozenset[Acl] | None, frozenset[Acl] | None]:
        self.rounds["ACLs"] += 1
        return None if self.source_acls is None else frozenset(self.source_acls), frozenset(self.target_acls)

    async def source_groups(self) -> set[str]:
        return self.groups

    async def change_acls(self, changes: AclChanges) -> Mapping[Acl, MirrorError | None]:
        self.changed.append(changes)
        refused = {acl for acl in changes.create if acl.name in self.refused}
        self.target_acls |= set(changes.create) - refused
        self.target_acls -= set(changes.delete)
        every = (*changes.create, *changes.delete)
        return {acl: MirrorError(f"{acl} is refused") if acl in refused else None for acl in every}
