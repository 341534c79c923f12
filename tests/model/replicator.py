"""A replicator without sockets: the real partitions, leases and senders, and what the rest of the shell does with them.

Follows ``flow``, ``lifecycle``, ``fetcher`` and ``engine`` of ``mirror_ray.replication`` step for step; what takes time
there is two steps here, with anything in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from mirror_ray.model.assignment import Assignment, PartitionReport
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import TopicPartition
from mirror_ray.records import kernel
from mirror_ray.replication.faults import ReplicationFault, recreated
from mirror_ray.replication.leases import LeaseTable, Tenure
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import CopyState, Instruction
from mirror_ray.replication.partition_transforms import PartitionTransforms, WaitingDeadLetters
from mirror_ray.replication.pipeline import BufferBudget
from mirror_ray.replication.target_log import TargetContents, TargetLog, TargetScan, scan_start, wants_producer_state
from mirror_ray.transforms import InsertHeader
from mirror_ray.transforms.chain import NamedTransform, TransformChain
from tests.model.broker import TargetPartition
from tests.model.requests import Connection, Part, Spoilt
from tests.model.sending import Sending, Wiring
from tests.model.source import Fetched, SourcePartition
from tests.model.state_topic import StateTopic
from tests.model.wire import Written


class Surroundings(Protocol):
    """What a replicator can reach."""

    sources: list[SourcePartition]
    targets: list[TargetPartition]
    state: StateTopic
    now_s: float
    #: What brokers have of connections that were lost.
    orphans: list[Connection]


#: What records of every second partition go through: values, by which they are judged, stay.
STAMP = TransformChain((NamedTransform("stamp", InsertHeader("h", "")),), "stamp 1")


@dataclass(slots=True, eq=False)
class Replicator:
    """``number`` of a life: what crashes comes back as another one."""

    number: int
    around: Surroundings
    terms: LeaseTerms
    wiring: Wiring
    #: Whether the lease is looked at before each send; switched off to show what it is for.
    leased: bool = True
    book: LeaseTable = field(init=False)
    state_id: int = -1
    dead: bool = False
    frozen: bool = False
    #: What happens while it stands still between composing and the lease's last check; once.
    meanwhile: Callable[[], None] | None = None
    sending: Sending = field(init=False)
    copies: dict[int, PartitionReplication] = field(default_factory=dict)
    #: Where each copy is sent to: it fetches and sends only while it has a place here.
    leaders: dict[PartitionReplication, int] = field(default_factory=dict)
    leader_epochs: dict[PartitionReplication, int] = field(default_factory=dict)
    fetches: dict[int, tuple[PartitionReplication, Fetched]] = field(default_factory=dict)
    ends: dict[int, tuple[PartitionReplication, TargetLog]] = field(default_factory=dict)
    look: tuple[float, int, int] | None = None
    given_up: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.book = LeaseTable(self.terms)
        self.sending = Sending(self, self.wiring, lambda: self.around.now_s)

    @property
    def connections(self) -> dict[int, Connection]:
        """To target brokers, by their numbers."""
        return self.sending.connections

    @property
    def runs(self) -> bool:
        """Whether it does anything."""
        return not (self.dead or self.frozen)

    # ---- assignments and leases

    def assign(self, assignment: Assignment, state_id: int) -> None:
        """The coordinator's order has arrived."""
        number = assignment.partition.partition
        source = assignment.partition.source
        if state_id != self.state_id:
            self.book, self.state_id = LeaseTable(self.terms), state_id
            for held, copy in self.copies.items():
                self.book.assign(TopicPartition("t", held), _tenure(copy.assignment), -1, self.around.now_s)
        if not self.book.assign(source, _tenure(assignment), assignment.state_offset, self.around.now_s):
            self.given_up.append((number, assignment.epoch))
            return
        self.look = None
        self.drop(number)
        self.book.assign(source, _tenure(assignment), assignment.state_offset, self.around.now_s)
        # Changed at each assignment: what was sent before is found again however it was cut.
        merge = kernel.is_available() and assignment.epoch % 2 == 0
        transforms = PartitionTransforms(STAMP, source, skip=assignment.skip) if number % 2 else None
        self.copies[number] = PartitionReplication(
            assignment, BufferBudget(1 << 30), 1 << 30, transforms=transforms, merge=merge
        )

    def drop(self, number: int) -> None:
        """Forget a partition; what is in flight has an unknown outcome from here on."""
        copy = self.copies.pop(number, None)
        if copy is not None:
            copy.remove()
            self.detach(copy)
            self.book.drop(copy.assignment.partition.source)

    def begin_look(self) -> None:
        """Begin to read the state topic."""
        if self.book.read_from is not None and self.around.state.identity == self.state_id:
            self.look = (self.around.now_s, self.around.state.end, self.state_id)

    def end_look(self) -> None:
        """The read has reached what was the end when it began."""
        if self.look is None:
            return
        (began_s, upto, identity), self.look = self.look, None
        if self.around.state.identity != identity:
            return
        shown = self.around.state.grants(max(self.book.read_from or 0, 0), upto)
        given_up = self.book.shown(shown)
        renewed = self.book.looked(began_s, self.around.now_s)
        for partition, _ in [*given_up, *self.book.ungranted(began_s)]:
            copy = self.copies[partition.partition]
            self.given_up.append((partition.partition, copy.assignment.epoch))
            self.drop(partition.partition)
        if renewed:
            self.sending.wake()
        self.sending.step()

    def holds(self, partition: TopicPartition) -> bool:
        """Of ``Lease``: whether records of the partition may be sent now."""
        return not self.leased or self.book.holds(partition, self.around.now_s)

    def lasts(self) -> bool:
        """Of ``Lease``: whether anything may be; the sender asks when it has composed."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            self.frozen = True
            meanwhile()
            self.frozen = False
        return not self.leased or self.book.lasts(self.around.now_s)

    # ---- finding the place

    def look_at_target(self, number: int) -> None:
        """The leader's end is read; it counts once it is committed."""
        copy, target = self.copies[number], self.around.targets[number]
        if target.topic_id != copy.assignment.target_topic_id:
            found, assigned = target.topic_id, copy.assignment.target_topic_id
            self.failed(copy, ReplicationFault(recreated("remote", "A.t", found, assigned)))
        elif target.end == target.high_watermark:
            self.ends[number] = (copy, target.seen(copy.acknowledged.target_epoch, scanned=copy.needs_scan))

    def settle(self, number: int) -> None:
        """What lies before that end is read, and the copy goes on from there."""
        copy, seen = self.ends.pop(number)
        target = self.around.targets[number]
        if copy is not self.copies.get(number) or not copy.needs_end:
            return
        contents = TargetContents() if copy.wants_contents else None
        begin = scan_start(copy.acknowledged, seen)
        if (copy.needs_scan or copy.wants_contents) and (copy.needs_last_batch(seen.end) or seen.agrees_to <= begin):
            scan = TargetScan(copy.assignment, copy.acknowledged, begin, contents)
            scan.add(
                batch.parsed() for batch in target.log if batch.next_offset > begin and batch.base_offset < seen.end
            )
            seen = scan.describe(seen) if copy.needs_scan else seen
        if copy.needs_last_batch(seen.end) and not copy.needs_scan:
            seen = replace(seen, tail=target.tail(seen.end))
        if wants_producer_state(copy.acknowledged, seen, copy.assignment):
            if (target.leader_epoch, target.end, target.high_watermark) != (seen.epoch, seen.end, seen.end):
                return
            known = target.producers.get(copy.assignment.producer_id)
            seen = replace(seen, remembered=None if known is None else known.next_sequence)
        try:
            copy.established(seen, contents)
        except MirrorError as error:
            self.failed(copy, error)
            return
        copy.placed()
        copy.take_instructions()
        self.leaders[copy], self.leader_epochs[copy] = target.leader, target.leader_epoch
        self.sending.attach(copy, target.leader)
        self.sending.step()

    def failed(self, copy: PartitionReplication, error: Exception) -> None:
        """The partition alone stops; its target's log end is read again later."""
        copy.stop(error)
        self.carry_out(copy)

    def interrupted(self, copy: PartitionReplication, reason: str | None = None) -> None:
        """Something failed that passes: the target's log end is read again."""
        copy.interrupt(reason)
        self.carry_out(copy)

    def carry_out(self, copy: PartitionReplication) -> None:
        """Do what the partition's transitions instruct."""
        if Instruction.DETACH in copy.take_instructions():
            self.detach(copy)

    def detach(self, copy: PartitionReplication) -> None:
        """Neither fetch nor send."""
        leader = self.leaders.pop(copy, None)
        if leader is not None:
            self.sending.detach(copy, leader)

    # ---- the source

    def fetch(self, number: int, most: int) -> None:
        """A fetch goes out, and is answered by the log as it is now."""
        copy = self.copies[number]
        if self._is_another_source(copy):
            return
        self.fetches[number] = (
            copy, self.around.sources[number].fetch(copy.fetch_offset, copy.fetch_epoch, most)
        )  # fmt: skip

    def arrive(self, number: int) -> None:
        """The answer is taken, if it still is an answer to what is wanted."""
        copy, fetched = self.fetches.pop(number)
        current = copy is self.copies.get(number) and copy in self.leaders
        if not current or not copy.state.fetches or fetched.position != copy.fetch_offset:
            return
        if fetched.error:
            copy.out_of_range()
            return
        if fetched.diverging_from >= 0:
            try:
                copy.diverged(fetched.diverging_from)
            except ReplicationFault as error:
                self.failed(copy, error)
            else:
                self.interrupted(copy)
            return
        copy.source_answered(fetched.stable_end, fetched.end)
        try:
            copy.process(copy.received(memoryview(bytearray(fetched.records))), fetched.aborted)
        except ReplicationFault as error:
            copy.block(error)
            if copy.drained:
                self.failed(copy, error)
        if copy.state is CopyState.ESTABLISHING:
            self.interrupted(copy)
        self.sending.schedule(copy)
        self.sending.step()

    def ask_source(self, number: int) -> None:
        """The source's leader says where its log begins and ends."""
        copy, source = self.copies[number], self.around.sources[number]
        if self._is_another_source(copy):
            return
        try:
            copy.source_bounds(source.start, source.end, source.stable_end)
        except MirrorError as error:
            self.failed(copy, error)
            return
        if copy.state is CopyState.ESTABLISHING:
            self.interrupted(copy)

    def _is_another_source(self, copy: PartitionReplication) -> bool:
        """Whether the source topic is not the one that was assigned, by which it is asked for; stops the copy then."""
        found, assigned = self.around.sources[copy.source.partition].topic_id, copy.assignment.source_topic_id
        if found != assigned:
            self.failed(copy, ReplicationFault(recreated("source", "t", found, assigned)))
        return found != assigned

    # ---- what senders say of the target

    def part(self, written: Written) -> Part:
        """Whose batch goes out."""
        copy = self.copies[written.partition]
        return Part(copy, written.partition, written.topic, written.data, self.leader_epochs[copy])

    def acknowledged(self, copy: PartitionReplication) -> None:
        """The target took a batch."""
        if copy.blocked_by is not None and copy.drained:
            self.failed(copy, copy.blocked_by)

    def refused(
        self, copy: PartitionReplication, error: str = "", message: str | None = None, *, leader_known: bool = False
    ) -> None:
        """The target refused a batch; refusals behind it are its consequences."""
        if copy in self.leaders:
            self.interrupted(copy)

    def lost(self, copy: PartitionReplication) -> None:
        """The connection is gone, or an answer is."""
        if copy.pipeline.in_flight or copy in self.leaders:
            copy.lost()
            self.carry_out(copy)
            if not copy.state.stopped:
                self.interrupted(copy)

    def buffer_freed(self) -> None:
        """Of ``PartitionEvents``."""

    def target_throttled(self, wait_s: float) -> None:
        """Of ``PartitionEvents``."""

    def fetched(self, copy: PartitionReplication) -> None:
        """Of ``PartitionEvents``, for fetchers."""

    def leader_moved(self, copy: PartitionReplication, broker_id: int) -> None:
        """Of ``PartitionEvents``, for fetchers."""

    def waiting(self, copy: PartitionReplication, reason: str) -> None:
        """Of ``PartitionEvents``, for fetchers."""

    def schema_ids_learned(self, copy: PartitionReplication) -> None:
        """Of ``PartitionEvents``, for schema ids."""

    schema_ids_overdue = schema_ids_learned

    def dead_letters_written(self, copy: PartitionReplication, letters: WaitingDeadLetters) -> None:
        """Of ``PartitionEvents``, for transforms."""

    def reset(self, connection: Connection) -> None:
        """A sender has given a connection up; what the broker has of it, it may still handle."""
        self.around.orphans.append(connection)

    def answered(self, broker: int, spoilt: Spoilt | None, throttle_ms: int) -> None:
        """The oldest handled request's answer arrives."""
        request = self.connections[broker].handled.popleft()
        for part in request.parts:
            if part.answer is not None and part.answer.error is None and request.by_all:
                self.leader_epochs[part.copy] = part.answer.leader_epoch
        request.future.set_result(memoryview(request.answered(spoilt, throttle_ms)))
        self.sending.step()

    def report(self) -> list[PartitionReport]:
        """What the coordinator is told of every partition."""
        return [copy.report() for copy in self.copies.values()]


def _tenure(assignment: Assignment) -> Tenure:
    return Tenure(assignment.epoch, assignment.owner)
