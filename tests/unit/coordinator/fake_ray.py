"""Ray as the coordinator's ports, in memory: replicators that copy nothing, and the other actors."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import Nodes, ReplicatorGoneError, ReplicatorLostError, ReplicatorSilentError
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.names import FlowName, FlowPartition
from mirror_ray.model.notice import Notice
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.quota import QuotaShare
from mirror_ray.model.replicator_health import ReplicatorHealth
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.observe.groups import CheckpointReport, GroupStatus
from mirror_ray.observe.schemas import FlowSchemas, SchemaReport, SchemaStatus
from mirror_ray.offsets.translation import Translation
from mirror_ray.replication.unreported_events import UnreportedEvents
from mirror_ray.state.actor_names import replicator_name
from tests.support.factories import replicator_report
from tests.unit.coordinator.virtual_clock import now_s


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
    #: So many answers get lost on their way, all that goes with them included.
    answers_lost: int = 0
    node_id: str = "n"
    #: Share of a core that it pretends to use.
    cpu: float = 0.0
    held: dict[FlowPartition, PartitionReport] = field(default_factory=dict)
    changed: set[FlowPartition] = field(default_factory=set)
    allowances: dict[FlowName, QuotaShare] = field(default_factory=dict)
    #: The newest assignment of each partition.
    assigned: dict[FlowPartition, Assignment] = field(default_factory=dict)
    given_up: list[tuple[FlowPartition, int]] = field(default_factory=list)
    events: list[tuple[int, str, str]] = field(default_factory=list)
    unheard: UnreportedEvents = field(default_factory=UnreportedEvents)

    async def _answer(self) -> None:
        if self.lost:
            raise ReplicatorLostError("its node is lost")
        if not self.alive:
            raise ReplicatorGoneError("killed by the test")
        if self.silent:
            raise ReplicatorSilentError("told to be silent")

    async def health(self) -> ReplicatorHealth:
        await self._answer()
        return ReplicatorHealth(fingerprint=self.fingerprint, node_id=self.node_id, pid=1)

    async def configure(self, settings: MirrorSettings, fingerprint: str) -> None:
        await self._answer()
        self.fingerprint = fingerprint
        self.log.append(f"configure {self.id}")

    async def exchange(
        self, assignments: Sequence[Assignment], *, full: bool, allowances: Sequence[QuotaShare], events_taken: int
    ) -> ReplicatorReport:
        await self._answer()
        if self.bug is not None:
            raise self.bug
        self.allowances = {share.flow: share for share in allowances}
        for assignment in assignments:
            partition, at = assignment.partition, assignment.anchor.source_offset
            self.log.append(f"assign {partition} to {self.id} epoch {assignment.epoch} at {at}")
            self.assigned[partition], self.held[partition] = assignment, report_of(assignment)
            self.changed.add(partition)
        # Calls are taken in the order in which they were made; what is added to the list now is not on the wire.
        await asyncio.sleep(self.answers_after_s)
        reported = list(self.held) if full else [partition for partition in self.changed if partition in self.held]
        self.changed.clear()
        given_up, self.given_up = tuple(self.given_up), []
        events, self.events = tuple(self.events), []
        report = replicator_report(
            replicator=self.id,
            cpu_seconds=self.cpu * now_s(),
            partitions=tuple(self.held[partition] for partition in reported),
            assigned=len(self.held),
            given_up=given_up,
            events=events,
        )
        report = self.unheard.into(report, events_taken)
        if self.answers_lost:
            self.answers_lost -= 1
            raise ReplicatorSilentError("its answer is lost")
        return report

    async def release(self, partitions: Sequence[FlowPartition], deadline_s: float) -> Sequence[PartitionReport]:
        await self._answer()
        self.log += [f"release {partition} from {self.id}" for partition in partitions]
        return [self.held.pop(partition) for partition in partitions if partition in self.held]

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
            anchor=OffsetPair(position, before.target_end + records),
            source_end=position,
            high_watermark=position,
            records=before.records + records,
            bytes=before.bytes + 100 * records,
        )
        self.changed.add(partition)

    def give_up(self, partition: FlowPartition) -> None:
        """Pretend to have seen a higher epoch."""
        self.given_up.append((partition, self.held.pop(partition).epoch))

    def stop_partition(self, partition: FlowPartition, reason: str, trouble: PartitionFault | None = None) -> None:
        """Pretend that a partition stopped itself."""
        self.held[partition] = replace(self.held[partition], state="stopped", reason=reason, trouble=trouble)
        self.events.append((0, "error", f"{partition} stopped: {reason}"))
        self.changed.add(partition)


def report_of(assignment: Assignment) -> PartitionReport:
    """What is reported of a partition that was just assigned."""
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
    #: Where the next ones come up, and what they use of a core.
    node_id: str = "n"
    cpu: float = 0.0

    async def spawn(self, number: int, settings: MirrorSettings, fingerprint: str) -> FakeReplicator:
        if self.no_room:
            raise ReplicatorGoneError("no room")
        found = self.replicators.get(number)
        if found is None or not found.alive or found.lost:
            self.log.append(f"spawn {number}")
            found = FakeReplicator(replicator_name("mirror", number), self.log, fingerprint)
            found.node_id, found.cpu = self.node_id, self.cpu
            self.replicators[number] = found
        return found

    async def living(self) -> Mapping[int, FakeReplicator]:
        return {
            number: replicator
            for number, replicator in self.replicators.items()
            if replicator.alive and not replicator.lost
        }


@dataclass
class FakeNodes:
    """Nodes as the test wants them, and what was asked for."""

    room: int = sys.maxsize
    leaving: frozenset[str] = frozenset()
    asked: list[int] = field(default_factory=list)

    async def probe(self, cpus: float, labels: Mapping[str, str]) -> Nodes:
        return Nodes(room=self.room, leaving=self.leaving)

    async def request_room(self, replicators: int, cpus: float, labels: Mapping[str, str]) -> None:
        self.asked.append(replicators)


@dataclass
class FakeHelpers:
    """The heartbeat, the gateway and the checkpoint actor in one: they do nothing, and are up."""

    log: list[str] = field(default_factory=list)
    notes: list[Notice] = field(default_factory=list)

    async def ages_s(self) -> Mapping[str, float | None]:
        return {"A->B": 1.0}

    async def address(self) -> str:
        return "http://127.0.0.1:8484"

    def notices(self) -> Sequence[Notice]:
        notes = list(self.notes)
        self.notes.clear()
        return notes

    async def report(self) -> CheckpointReport:
        return CheckpointReport(events=(), flows={})

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        return ()

    async def settle(self, deadline_s: float) -> bool:
        return True

    async def translate(self, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> Translation:
        return Translation(offset=None, reason="nothing")

    async def stop(self) -> None:
        self.log.append("stop helper")


@dataclass
class FakeSchemas:
    """The schema sync: it reports what it is told to, and keeps what it was asked for."""

    log: list[str] = field(default_factory=list)
    flows: dict[str, FlowSchemas] = field(default_factory=dict)
    needs: list[Collection[SchemaNeed]] = field(default_factory=list)
    running: list[Collection[FlowName]] = field(default_factory=list)
    error: MirrorError | None = None

    async def report(self, needs: Collection[SchemaNeed], running: Collection[FlowName]) -> SchemaReport:
        self.needs.append(needs)
        self.running.append(running)
        if self.error is not None:
            raise self.error
        return SchemaReport(events=(), flows=self.flows, audit={})

    async def schemas(self, flow: str | None) -> Sequence[SchemaStatus]:
        return ()

    async def stop(self) -> None:
        self.log.append("stop schemas")


@dataclass
class FakeMemory:
    """Survives a coordinator."""

    blob: bytes | None = None

    async def load(self) -> bytes | None:
        # A coordinator reads back only what settings allow, and these tests have shorter leases.
        return self.blob and self.blob.replace(b'"lease_ms":200', b'"lease_ms":1000')

    async def save(self, blob: bytes | None) -> None:
        self.blob = blob
