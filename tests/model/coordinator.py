"""A coordinator without Ray: the real flow state and refusals, and the rules of ``coordinator/assignment.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mirror_ray.coordinator import fault_rules
from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.coordinator.ports import FlowClusters, TargetLimits
from mirror_ray.model.assignment import Assignment, PartitionReport
from mirror_ray.model.errors import StateFencedError
from mirror_ray.model.fault import FaultPolicy, PartitionFault
from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.records import FaultResolution, FlowRecord
from mirror_ray.state.schema import RESOLUTION
from mirror_ray.topics import discovery_rules
from mirror_ray.topics.discovery_rules import TargetLogBounds, TopicSide
from tests.model.broker import TargetPartition
from tests.model.source import SourcePartition
from tests.model.state_topic import StatePort, StateTopic, at_once

FLOW = FlowName("A", "B")
FIRST_PRODUCER = 4711


@dataclass(slots=True)
class Order:
    """An assignment on its way to a replicator."""

    replicator: int
    assignment: Assignment
    state_id: int


@dataclass(slots=True)
class Coordinator:
    """One life of it. ``max_message_bytes``: so small that batches are split, and pairs lie inside source batches."""

    state: StateTopic
    sources: list[SourcePartition]
    targets: list[TargetPartition]
    lease_ms: int
    #: Told of each partition's first pair.
    on_begun: Callable[[int, OffsetPair], None]
    max_message_bytes: int = 90
    #: Whether it waits for the lease of a holder that nobody has seen dead; switched off to show what it is for.
    patient: bool = True
    #: Whether a remote partition that holds records and is not accounted for is refused.
    careful: bool = True
    #: Whether others write to the remote topic, too.
    shared: bool = False
    flow_state: FlowState = field(init=False)
    identity: int = -1
    #: Partition to replicator and epoch.
    owners: dict[int, tuple[int, int]] = field(default_factory=dict)
    waits: dict[int, float] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)

    @property
    def opened(self) -> bool:
        """Whether it has read the state."""
        return self.identity >= 0

    @property
    def fenced(self) -> bool:
        """Whether another one has taken over."""
        return self.flow_state.fenced

    def __post_init__(self) -> None:
        port: FlowClusters = StatePort(self.state)  # type: ignore[assignment]  # the rest is not called
        self.flow_state = FlowState(port, self.lease_ms)

    def open(self) -> None:
        """Read the state, fence an older one, and give partitions without a record their first pair."""
        at_once(self.flow_state.open())
        self.identity = self.state.identity
        if self.flow_state.records.flow is None:
            record = FlowRecord(
                producer_id=FIRST_PRODUCER + self.identity,
                producer_epoch=0,
                source_cluster_id="a",
                target_cluster_id="b",
                selection="",
            )
            at_once(self.flow_state.begin_flow(record, {}))
        for number, (source, target) in enumerate(zip(self.sources, self.targets, strict=True)):
            partition = TopicPartition("t", number)
            if self.flow_state.record(partition) is not None:
                continue
            bounds = TargetLogBounds(start=target.start, end=target.end, high_watermark=target.high_watermark)
            if (
                self.careful
                and not self.shared
                and discovery_rules.occupied_refusal("A.t", {number: bounds}) is not None
            ):
                self.refused.add(number)
                continue
            here = TopicSide(topic="t", topic_id=source.topic_id, partitions=len(self.sources))
            there = TopicSide(topic="A.t", topic_id=target.topic_id, partitions=len(self.targets))
            anchor = OffsetPair(source.start, bounds.committed, 0 if self.shared else None)
            own = self._new_producer() if self.shared else None
            first = replace(discovery_rules.first_record(here, there, anchor, own), shared=self.shared)
            at_once(self.flow_state.begin_partitions({partition: first}))
            self.on_begun(number, anchor)

    def free(self, number: int) -> bool:
        """Whether nobody is known to hold a partition that may be copied."""
        record = self.flow_state.record(TopicPartition("t", number))
        return self.opened and not self.fenced and record is not None and number not in self.owners

    def to_grant(self) -> list[int]:
        """Partitions that may be handed out at once."""
        return [n for n in range(len(self.sources)) if self.free(n) and not self._held(n)]

    def to_fence(self) -> list[int]:
        """Partitions that somebody may hold, nobody knows who."""
        numbers = range(len(self.sources))
        return [n for n in numbers if self.free(n) and self._held(n) and n not in self.waits]

    def _held(self, number: int) -> bool:
        return self.patient and self.flow_state.lease_ms(TopicPartition("t", number)) > 0

    def grant(self, number: int, replicator: int) -> Order | None:
        """Hand a partition out; None when another coordinator turns out to have taken over."""
        limits = {
            FlowPartition(FLOW, "t", number): TargetLimits(max_message_bytes=self.max_message_bytes, compress_with=None)
        }
        try:
            (assignment,) = at_once(self.flow_state.assign(limits, None))
        except StateFencedError:
            return None
        self.owners[number] = (replicator, assignment.epoch)
        return Order(replicator, assignment, self.identity)

    def fence(self, number: int, now_s: float) -> None:
        """Write a higher epoch for whoever holds it to see, and wait out the lease."""
        try:
            lease_ms = at_once(self.flow_state.fence([TopicPartition("t", number)]))
        except StateFencedError:
            return
        self.waits[number] = now_s + LeaseTerms(lease_ms).takeover_s

    def wait_is_over(self, number: int) -> None:
        """The lease has run out."""
        del self.waits[number]
        self.flow_state.release(TopicPartition("t", number))

    def gone(self, replicator: int, *, seen: bool) -> None:
        """A replicator will not be heard of again; ``seen``: its process was seen dead."""
        for number in [number for number, owner in self.owners.items() if owner[0] == replicator]:
            self.disown(number, free=seen)

    def disown(self, number: int, *, free: bool) -> None:
        """It has no owner any more; ``free``: for sure."""
        del self.owners[number]
        if free:
            self.flow_state.release(TopicPartition("t", number))

    def adopt(self, replicator: int, number: int, epoch: int) -> bool:
        """A living replicator holds the partition: whether by the last assignment."""
        partition = TopicPartition("t", number)
        if number in self.owners or number in self.waits or self.flow_state.epoch(partition) != epoch:
            return False
        self.owners[number] = (replicator, epoch)
        return True

    def hear(self, replicator: int, report: PartitionReport) -> None:
        """A report has arrived."""
        number = report.partition.partition
        if self.owners.get(number) == (replicator, report.epoch):
            self.flow_state.note_pair(report.partition.source, report.anchor, settled=report.settled)

    def _new_producer(self) -> tuple[int, int]:
        self.state.producers += 1
        return FIRST_PRODUCER + 1000 + self.state.producers, 0

    # ---- what becomes of partitions in trouble, by the real remedies

    def answers(self, number: int, trouble: PartitionFault) -> tuple[FaultPolicy, ...]:
        """The policies that an operator may choose from."""
        record = self.flow_state.record(TopicPartition("t", number))
        return () if record is None else fault_rules.policies_for(trouble.kind, shared=record.shared)

    def answer(
        self, number: int, report: PartitionReport, policy: FaultPolicy, now_ms: int
    ) -> fault_rules.FaultAction | None:
        """Decide about a partition that nobody has any more, and do it; None where that must not be done."""
        assert report.trouble is not None
        partition, source, target = TopicPartition("t", number), self.sources[number], self.targets[number]
        repair = FaultResolution(trouble=report.trouble, policy=policy, time_ms=now_ms)
        try:
            at_once(self.flow_state.put_resolutions({partition: repair}, {partition: report.anchor}))
            record, latest = self.flow_state.record(partition), self.flow_state.latest_pair(partition)
            assert record is not None
            assert latest is not None
            facts = fault_rules.FaultContext(
                source_topic_id=source.topic_id,
                source_start=source.start,
                target_topic_id=target.topic_id,
                target_start=target.start,
                target_end=target.end,
            )
            stands = fault_rules.still_holds(repair, record.pair, latest)
            found = fault_rules.find_action(repair, record.at(latest), facts) if stands else "void"
            if isinstance(found, str):
                at_once(self.flow_state.delete(RESOLUTION, partition))
                return None
            if found.empty_to is not None:
                target.remove_below(found.empty_to)
            done = found.record
            if found.new_producer:
                producer_id, epoch = self._new_producer()
                done = replace(done, producer_id=producer_id, producer_epoch=epoch)
            at_once(self.flow_state.finish_resolution(partition, done, found.gap))
        except StateFencedError:
            return None
        return replace(found, record=done)

    def flush(self) -> None:
        """Persist the pairs that moved."""
        try:
            at_once(self.flow_state.flush())
        except StateFencedError:
            return
