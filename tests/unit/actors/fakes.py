"""Kafka and Ray as the coordinator's ports, in memory: nothing here waits longer than a turn of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from actors.coordinator import Coordinator, Outside
from actors.ports import (
    Cluster,
    ReplicatorGoneError,
    ReplicatorHealth,
    ReplicatorLostError,
    ReplicatorSilentError,
    TargetLimits,
    Timing,
)
from mirror_ray.config.settings import BackfillSettings, ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.coordination.discovery import LogBounds, TopicSide
from mirror_ray.coordination.naming import replicator_name
from mirror_ray.coordination.state import Document
from mirror_ray.model.acls import Acl
from mirror_ray.model.anchor import Anchor
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.change import Change
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError, StateFencedError
from mirror_ray.model.names import FlowName, FlowPartition, TopicId, TopicPartition
from mirror_ray.model.topics import ConfigValue
from mirror_ray.model.trouble import Trouble
from mirror_ray.observe.groups import CheckpointReport, GroupStatus
from mirror_ray.offsets.translate import Translation
from mirror_ray.topics.acl_sync import AclChanges
from mirror_ray.topics.remote import Configs

FLOW = FlowName("A", "B")
#: Shorter than settings allow.
LEASE_MS = 200
QUICK = Timing(
    step_s=0.005,
    poll_s=0.002,
    flush_s=0.005,
    exchange_timeout_s=0.05,
    silent_s=0.03,
    unresponsive_s=0.1,
    start_timeout_s=1.0,
    start_grace_s=1.0,
    respawn_s=0.005,
    drain_s=0.2,
    confirm_s=0.05,
    retry_first_s=0.005,
    retry_most_s=0.01,
    moves_at_once=4,
)


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
    cluster_ids: dict[str, str] = field(default_factory=dict)
    unreachable: set[str] = field(default_factory=set)
    #: Remote partitions without a leader.
    leaderless: set[TopicPartition] = field(default_factory=set)
    #: Remote partitions in each question about where they begin and end.
    asked: list[tuple[TopicPartition, ...]] = field(default_factory=list)
    #: How often topics were selected: once for each look at the clusters that was gone into.
    selected: int = 0
    log: list[str] = field(default_factory=list)
    #: Who opened each flow's state last; the others are fenced.
    owners: dict[FlowName, FakeFlowPort] = field(default_factory=dict)
    ids: int = 0
    producers: int = 0

    def add_topic(self, cluster: str, topic: str, partitions: int = 1) -> None:
        """Create a topic, or again with a new id."""
        self.ids += 1
        side = TopicSide(topic=topic, topic_id=TopicId(f"id-{self.ids}"), partitions=partitions)
        self.sources.setdefault(cluster, {})[topic] = side

    def grow(self, cluster: str, topic: str, partitions: int) -> None:
        """Add partitions."""
        self.sources[cluster][topic] = replace(self.sources[cluster][topic], partitions=partitions)

    def seen(self, cluster: str) -> Cluster:
        """The cluster as metadata shows it."""
        topics = dict(self.sources.get(cluster, {}))
        return Cluster(
            cluster_id=self.cluster_ids.get(cluster, f"cluster-{cluster}"),
            topics=topics,
            leaders={name: dict.fromkeys(range(side.partitions), 1) for name, side in topics.items()},
        )


class FakeFlowPort:
    """A flow's Kafka. Remote topics are named ``<source>.<topic>``, or as ``naming`` says."""

    def __init__(
        self, kafka: FakeKafka, name: FlowName, naming: Callable[[str], str], backfill: BackfillSettings | None = None
    ) -> None:
        self.kafka, self.name, self.naming, self.backfill = kafka, name, naming, backfill

    def _reach(self) -> None:
        for alias in (self.name.source, self.name.target):
            if alias in self.kafka.unreachable:
                raise ClusterUnreachableError(f"cluster {alias} can't be reached")

    async def open(self) -> Mapping[str, Document]:
        self._reach()
        self.kafka.owners[self.name] = self
        return dict(self.kafka.states.setdefault(self.name, {}))

    async def observe(self) -> tuple[Cluster, Cluster]:
        self._reach()
        return self.kafka.seen(self.name.source), self.kafka.seen(self.name.target)

    def select(self, source: Cluster) -> Mapping[str, str]:
        if self.backfill is not None:
            return {self.backfill.topic: self.backfill.into} if self.backfill.topic in source.topics else {}
        self.kafka.selected += 1
        return {topic: self.naming(topic) for topic in source.topics if "." not in topic}

    async def ensure_remote(
        self, wanted: Mapping[str, str], source: Cluster, target: Cluster
    ) -> tuple[Mapping[str, str], Cluster]:
        for topic, remote in wanted.items():
            count = source.topics[topic].partitions
            self.kafka.log.append(f"create {remote} {count}")
            if remote in target.topics:
                self.kafka.grow(self.name.target, remote, count)
            else:
                self.kafka.add_topic(self.name.target, remote, count)
        return {}, self.kafka.seen(self.name.target)

    async def limits(self, remote: Sequence[str]) -> Mapping[str, TargetLimits]:
        return dict.fromkeys(remote, TargetLimits(max_message_bytes=1_000_000, compress_with=None))

    async def target_bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, LogBounds]:
        self.kafka.asked.append(tuple(partitions))
        return {
            each: LogBounds(start=self.kafka.starts.get(each, 0), end=self.kafka.ends.get(each, 0))
            for each in partitions
            if each not in self.kafka.leaderless
        }

    async def source_offsets(
        self, partitions: Sequence[TopicPartition], *, latest: bool
    ) -> Mapping[TopicPartition, int]:
        offsets = self.kafka.source_ends if latest else self.kafka.source_starts
        return {each: offsets.get(each, 0) for each in partitions}

    async def offsets_since(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {each: self.kafka.source_times.get((each, time_ms), 0) for each, time_ms in times_ms.items()}

    async def forget(self, backfill: str) -> None:
        self.kafka.states.pop(self.name._replace(backfill=backfill), None)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        self._reach()
        for each, offset in before.items():
            self.kafka.log.append(f"delete {each} before {offset}")
            self.kafka.starts[each] = offset

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
class FakeReplicator:
    """A replicator that copies nothing and does what the test says."""

    id: str
    log: list[str]
    fingerprint: str
    alive: bool = True
    silent: bool = False
    #: Its node is lost: nobody can see whether it is dead.
    lost: bool = False
    #: Raised by ``exchange``: a mistake of ours inside the replicator.
    bug: Exception | None = None
    answers_after_s: float = 0.0
    held: dict[FlowPartition, PartitionReport] = field(default_factory=dict)
    changed: set[FlowPartition] = field(default_factory=set)
    #: The newest assignment of each partition.
    assigned: dict[FlowPartition, Assignment] = field(default_factory=dict)
    given_up: list[tuple[FlowPartition, int]] = field(default_factory=list)
    events: list[tuple[int, str, str]] = field(default_factory=list)

    async def _answer(self) -> None:
        if self.lost:
            raise ReplicatorLostError("its node is lost")
        if not self.alive:
            raise ReplicatorGoneError("killed by the test")
        if self.silent:
            raise ReplicatorSilentError("told to be silent")

    async def health(self) -> ReplicatorHealth:
        await self._answer()
        return ReplicatorHealth(fingerprint=self.fingerprint, node_id="n", pid=1)

    async def configure(self, settings: MirrorSettings, fingerprint: str) -> None:
        await self._answer()
        self.fingerprint = fingerprint
        self.log.append(f"configure {self.id}")

    async def exchange(self, assignments: Sequence[Assignment], *, full: bool) -> ReplicatorReport:
        await self._answer()
        if self.bug is not None:
            raise self.bug
        for each in assignments:
            self.log.append(f"assign {each.partition} to {self.id} epoch {each.epoch} at {each.anchor.source_offset}")
            self.assigned[each.partition] = each
            self.held[each.partition] = _report(each)
            self.changed.add(each.partition)
        # Calls are taken in the order in which they were made; what is added to the list now is not on the wire.
        await asyncio.sleep(self.answers_after_s)
        told = list(self.held) if full else [each for each in self.changed if each in self.held]
        self.changed.clear()
        given_up, self.given_up = tuple(self.given_up), []
        events, self.events = tuple(self.events), []
        return ReplicatorReport(
            replicator=self.id,
            node="here",
            pid=1,
            cpu_seconds=0.0,
            memory_bytes=1,
            buffered_bytes=0,
            records=0,
            bytes=0,
            partitions=tuple(self.held[each] for each in told),
            assigned=len(self.held),
            given_up=given_up,
            events=events,
        )

    async def release(self, partitions: Sequence[FlowPartition], deadline_s: float) -> Sequence[PartitionReport]:
        await self._answer()
        self.log += [f"release {each} from {self.id}" for each in partitions]
        return [self.held.pop(each) for each in partitions if each in self.held]

    async def stop(self, deadline_s: float) -> None:
        await self._answer()
        self.log.append(f"stop {self.id}")

    async def kill(self) -> None:
        self.log.append(f"kill {self.id}")
        self.alive = False

    async def seen_dead(self) -> bool:
        await self.kill()
        return not self.lost

    def copy(self, partition: FlowPartition, records: int) -> None:
        """Pretend to have copied ``records`` more."""
        before = self.held[partition]
        position = before.position + records
        self.held[partition] = replace(
            before,
            anchor=Anchor(position, before.target_end + records),
            source_end=position,
            high_watermark=position,
            records=before.records + records,
            bytes=before.bytes + 100 * records,
        )
        self.changed.add(partition)

    def give_up(self, partition: FlowPartition) -> None:
        """Pretend to have seen a higher epoch."""
        self.given_up.append((partition, self.held.pop(partition).epoch))

    def stop_partition(self, partition: FlowPartition, reason: str, trouble: Trouble | None = None) -> None:
        """Pretend that a partition stopped itself."""
        self.held[partition] = replace(self.held[partition], state="stopped", reason=reason, trouble=trouble)
        self.events.append((0, "error", f"{partition} stopped: {reason}"))
        self.changed.add(partition)


def _report(assignment: Assignment) -> PartitionReport:
    anchor = assignment.anchor
    return PartitionReport(
        partition=assignment.partition,
        epoch=assignment.epoch,
        state="copying",
        reason=None,
        anchor=anchor,
        source_end=anchor.source_offset,
        high_watermark=anchor.source_offset,
        records=0,
        bytes=0,
        last_timestamp_ms=-1,
    )


@dataclass
class FakeRay:
    """Spawns fake replicators; the same object given to a second coordinator lets it adopt them."""

    log: list[str]
    replicators: dict[int, FakeReplicator] = field(default_factory=dict)
    no_room: bool = False

    async def spawn(self, number: int, settings: MirrorSettings, fingerprint: str) -> FakeReplicator:
        if self.no_room:
            raise ReplicatorGoneError("no room")
        found = self.replicators.get(number)
        if found is None or not found.alive or found.lost:
            self.log.append(f"spawn {number}")
            found = FakeReplicator(replicator_name("mirror", number), self.log, fingerprint)
            self.replicators[number] = found
        return found

    async def living(self) -> Mapping[int, FakeReplicator]:
        return {number: each for number, each in self.replicators.items() if each.alive and not each.lost}


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
    audited: list[Change] = field(default_factory=list)

    async def configs(self, remotes: Mapping[str, str]) -> tuple[Mapping[str, Configs], Mapping[str, Configs]]:
        self.rounds["configs"] += 1
        return (
            {topic: self.source[topic] for topic in remotes if topic in self.source},
            {remote: self.target[remote] for remote in remotes.values() if remote in self.target},
        )

    async def alter_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> Mapping[str, MirrorError | None]:
        self.altered.append(changes)
        outcomes: dict[str, MirrorError | None] = {}
        for topic, values in changes.items():
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
        refused = {each for each in changes.create if each.name in self.refused}
        self.target_acls |= set(changes.create) - refused
        self.target_acls -= set(changes.delete)
        every = (*changes.create, *changes.delete)
        return {each: MirrorError(f"{each} is refused") if each in refused else None for each in every}

    async def audit(self, changes: Sequence[Change]) -> None:
        self.audited += changes


class FakeHeartbeat:
    """Always one second old."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def ages_s(self) -> Mapping[str, float | None]:
        return {str(FLOW): 1.0}

    async def stop(self) -> None:
        self.log.append("stop heartbeat")


class FakeCheckpoint:
    """Carries nothing."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def report(self) -> CheckpointReport:
        return CheckpointReport(events=(), flows={})

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        return ()

    async def settle(self, deadline_s: float) -> bool:
        return True

    async def translate(self, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> Translation:
        return Translation(offset=None, reason="nothing")

    async def stop(self) -> None:
        self.log.append("stop checkpoint")


@dataclass
class FakeMemory:
    """Survives a coordinator."""

    blob: bytes | None = None

    async def load(self) -> bytes | None:
        return self.blob

    async def save(self, blob: bytes | None) -> None:
        self.blob = blob


@dataclass
class World:
    """Everything around a coordinator."""

    kafka: FakeKafka = field(default_factory=FakeKafka)
    memory: FakeMemory = field(default_factory=FakeMemory)
    naming: Callable[[FlowName, str], str] = lambda flow, topic: f"{flow.source}.{topic}"
    timing: Timing = QUICK
    topics: FakeTopicPort = field(default_factory=FakeTopicPort)
    ray: FakeRay = field(init=False)
    coordinators: list[Coordinator] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ray = FakeRay(self.kafka.log)

    def coordinator(self) -> Coordinator:
        """A new coordinator; an older one should have been abandoned."""
        made = Coordinator(
            "mirror",
            Outside(
                spawner=self.ray,
                flow_port=lambda settings, flow: FakeFlowPort(
                    self.kafka, flow.name, lambda topic: self.naming(flow.name, topic), flow.backfill
                ),
                topic_port=lambda settings, flow: self.topics,
                heartbeat=lambda settings: FakeHeartbeat(self.kafka.log),
                checkpoint=lambda settings: FakeCheckpoint(self.kafka.log),
                memory=self.memory,
                node="here",
                timing=self.timing,
            ),
        )
        self.coordinators.append(made)
        return made

    def abandon(self, coordinator: Coordinator) -> None:
        """As SIGKILL would: every task of it ends at once, nothing is said to anybody."""
        del coordinator
        current = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not current:
                task.cancel()


def settings(*flows: FlowSettings, replicators: int = 1) -> MirrorSettings:
    """Settings of clusters A, B and C, with these flows or A->B alone."""
    clusters = {alias: ClusterSettings(alias=alias, bootstrap_servers=(f"{alias}:9092",)) for alias in "ABC"}
    made = MirrorSettings(clusters=clusters, flows=flows or (flow(),), replicators=replicators)
    return made.model_copy(update={"lease_ms": LEASE_MS})


def flow(name: str = "A->B", **options: object) -> FlowSettings:
    """A flow that looks for topics every few milliseconds."""
    values: dict[str, object] = {"topics": {"refresh_interval_s": 0.005}, **options}
    return FlowSettings.model_validate({"name": FlowName.parse(name), "enabled": True, **values})


def partition(topic: str, number: int = 0, name: FlowName = FLOW) -> FlowPartition:
    """A partition of the flow A->B."""
    return FlowPartition(name, topic, number)


async def eventually(check: Callable[[], object | Awaitable[object]], timeout_s: float = 15.0) -> None:
    """Wait until ``check`` is true; a KeyError in it means not yet."""
    async with asyncio.timeout(timeout_s):
        while True:
            # A replicator that is looked for may not have been spawned yet.
            with contextlib.suppress(KeyError):
                result = check()
                if isinstance(result, Awaitable):
                    result = await result
                if result:
                    return
            await asyncio.sleep(0.002)
