"""What follows from the events of a flow's partitions: carries out what ``partition_states`` instructs.

Everything unexpected leads back to the target's log end, with a backoff (``RetryTimes``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowPartition
from mirror_ray.replication.broker_loops import BrokerLoops
from mirror_ray.replication.faults import ReplicationFault, contradicted, target_missing
from mirror_ray.replication.offset_gaps import OffsetGap
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import Instruction
from mirror_ray.replication.partition_transforms import WaitingDeadLetters
from mirror_ray.replication.retry import RetryTimes
from mirror_ray.replication.sender import RECORD_ERRORS, TRANSIENT
from mirror_ray.replication.throttle import FetchThrottle

#: What a broker answers for a topic that was deleted, and for a moment for one that was just created.
MISSING = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID"})


class Lifecycle:
    """The partitions of one flow in one replicator; the ``PartitionEvents`` of its fetchers and senders.

    ``wake()`` is called when the flow's loop has something to do; ``fill(copy, gap)`` begins to fill a gap, and
    ``gap_filled`` ends it; ``on_event(level, text)`` is for the event log.

    Attributes:
        copies: All partitions that are assigned.
        retries: When each of them is tried again.
        unplaced: Those in the state UNPLACED, with the broker that is to be fetched from; -1: the leader.
        stale_source: Whether the source's metadata is to be read again.
        stale_target: Whether the target's is.
    """

    def __init__(
        self,
        loops: BrokerLoops,
        throttle: FetchThrottle,
        *,
        now_s: Callable[[], float],
        wake: Callable[[], None],
        fill: Callable[[PartitionReplication, OffsetGap], None],
        on_changed: Callable[[PartitionReplication], None],
        on_event: Callable[[str, str], None],
    ) -> None:
        self._loops, self._throttle = loops, throttle
        self._now_s, self._wake, self._fill = now_s, wake, fill
        self._on_changed, self._on_event = on_changed, on_event
        self.copies: dict[FlowPartition, PartitionReplication] = {}
        self.retries: dict[PartitionReplication, RetryTimes] = {}
        self.unplaced: dict[PartitionReplication, int] = {}
        self.stale_source = self.stale_target = True

    def add(self, copy: PartitionReplication) -> None:
        """Take a partition that was assigned."""
        self.copies[copy.assignment.partition] = copy
        self.retries[copy] = RetryTimes()
        self._on_changed(copy)
        self._wake()

    def drain(self, copy: PartitionReplication) -> None:
        """Fetch nothing more of a partition; what is buffered is still sent."""
        copy.drain()
        self._carry_out(copy)

    def remove(self, copy: PartitionReplication) -> None:
        """Forget a partition; what became of the batches in flight is not known."""
        copy.remove()
        self._carry_out(copy)
        self.copies.pop(copy.assignment.partition, None)
        self.retries.pop(copy, None)
        self._loops.room_made()

    # ---- events of fetchers and senders

    def fetched(self, copy: PartitionReplication) -> None:
        """Send what can be sent, and count the fetch as a success."""
        self._carry_out(copy)
        if copy.reason is None and self._loops.fetches(copy):
            self.retries[copy].moves = 0
        self._fill_gap(copy)
        self._loops.schedule(copy)
        self._on_changed(copy)

    def leader_moved(self, copy: PartitionReplication, broker_id: int) -> None:
        """Look up where to fetch from, or fetch from the named broker."""
        if broker_id < 0:
            self.stale_source = True
        if copy.state.fetches:
            copy.leader_moved()
            self._carry_out(copy)
            self.unplaced[copy] = broker_id
            self.retries[copy].moved(self._now_s())
        self._wake()

    def acknowledged(self, copy: PartitionReplication) -> None:
        """Send what comes next, and have the new position published."""
        retry = self.retries.get(copy)
        if retry is not None:
            retry.acknowledged()
        if copy.blocked_by is not None and copy.drained:
            self.failed(copy, copy.blocked_by)
        elif copy.needs_end or copy.asks_source:
            self._wake()
        self._fill_gap(copy)
        self._on_changed(copy)

    def gap_filled(self, copy: PartitionReplication, end: int | None, why: str) -> None:
        """Go on behind a gap that was filled to ``end``; None: it is not known how far, and ``why``."""
        copy.gap_filled(end)
        if end is None and copy.state.sends:
            # In any of these states, as where a connection is lost: only the log end says what the target has.
            copy.lost()
            self._carry_out(copy)
            self.interrupted(copy, why)
        else:
            self.acknowledged(copy)
            self._loops.schedule(copy)

    def refused(self, copy: PartitionReplication, error: str, message: str | None, *, leader_known: bool) -> None:
        """Recover from a refused batch; refusals behind the first one are its consequences."""
        if self._loops.sends(copy):
            self._carry_out(copy)
            self.back_off(copy, error, message, leader_known=leader_known)
        elif copy.needs_end:
            self._wake()

    def lost(self, copy: PartitionReplication) -> None:
        """Recover from a lost connection: the target's log end is read again."""
        if not copy.pipeline.in_flight and not self._loops.sends(copy):
            return
        copy.lost()
        self._carry_out(copy)
        self._loops.room_made()
        self.stale_target = True
        if not copy.state.stopped:
            self.interrupted(copy, f"connection to the target broker of {copy.assignment.target} was lost")

    def interrupted(self, copy: PartitionReplication, reason: str) -> None:
        """Read the target's log end again, soon; the reason is shown once it was so too often."""
        retry = self.retries.get(copy)
        if retry is None:
            return
        retry.failed(self._now_s())
        copy.interrupt(reason if retry.fails_for_long else copy.reason)
        self._carry_out(copy)
        self._went_back(copy)

    def failed(self, copy: PartitionReplication, error: Exception) -> None:
        """Stop this partition alone; its target's log end is read again later."""
        retry = self.retries.get(copy)
        if retry is None:
            return
        copy.stop(error)
        self._carry_out(copy)
        if retry.reported != copy.reason:
            retry.reported = copy.reason
            kind = f"{error.fault.kind}: " if isinstance(error, ReplicationFault) else ""
            self._on_event("error", f"{copy.assignment.partition} stopped, tried again later: {kind}{copy.reason}")
        retry.stopped(self._now_s())
        self.stale_source = self.stale_target = True
        self._went_back(copy)

    def dead_letters_written(self, copy: PartitionReplication, letters: WaitingDeadLetters) -> None:
        """Go on behind the records that are in the dead letter topic now."""
        copy.dead_letters_written(letters)
        self._carry_out(copy)

    def schema_ids_learned(self, copy: PartitionReplication) -> None:
        """Fetch again from the record that waited, if it needs to wait no longer."""
        copy.schema_ids_learned()
        self._carry_out(copy)
        self._on_changed(copy)

    def schema_ids_overdue(self, copy: PartitionReplication) -> None:
        """Show a partition as stopped that waits for long; nothing else about it changes."""
        copy.schema_ids_overdue()
        retry, fault = self.retries.get(copy), copy.fault
        if retry is not None and fault is not None and retry.reported != fault.text:
            retry.reported = fault.text
            self._on_event("error", f"{copy.assignment.partition} {fault.text}")
        self._on_changed(copy)

    def waiting(self, copy: PartitionReplication, reason: str) -> None:
        """Show in its status what a partition waits for."""
        if copy.reason != reason:
            copy.reason = reason
            self._on_changed(copy)

    def buffer_freed(self) -> None:
        """Let fetchers use the room that an answer has made."""
        self._loops.room_made()

    def target_throttled(self, wait_s: float) -> None:
        """Count the time that the target asks for."""
        self._throttle.throttled_by_target(wait_s, self._now_s())

    # ---- what the flow's loop found out

    def back_off(
        self, copy: PartitionReplication, error: str, message: str | None, *, leader_known: bool = False
    ) -> None:
        """The target's leader refuses, with this Kafka error: try again soon, or stop."""
        self.stale_target |= not leader_known
        target, retry = copy.assignment.target, self.retries[copy]
        text = f"remote topic {target} refuses records: {error}" + (f" ({message})" if message else "")
        if error in MISSING and retry.fails_for_long:
            self.failed(copy, ReplicationFault(target_missing(target, error)))
        elif error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and retry.contradicted(copy.acknowledged):
            fault = contradicted(copy.assignment, copy.acknowledged)
            self.failed(copy, ReplicationFault(fault, until_committed=True))
        elif error in TRANSIENT or error in RECORD_ERRORS:
            self.interrupted(copy, text)
        else:
            self.failed(copy, MirrorError(text))

    def uncommitted(self, copy: PartitionReplication) -> None:
        """The target's leader holds more than is committed: its in-sync replicas decide what of it stays."""
        retry = self.retries[copy]
        retry.not_committed(self._now_s())
        if retry.uncommitted_for_long and copy.state.shown == "establishing":
            self.waiting(
                copy,
                f"remote topic {copy.assignment.target}: not all that its leader holds is committed; are enough of its "
                "replicas in sync (min.insync.replicas)?",
            )

    def established(self, copy: PartitionReplication) -> None:
        """The target's log end is known: fetcher and sender are to be found."""
        self.retries[copy].established(self._now_s())
        self._carry_out(copy)
        self._on_changed(copy)

    def place(self, copy: PartitionReplication, reader: int, writer: int) -> None:
        """Fetch from broker ``reader``, and send to broker ``writer``."""
        self.unplaced.pop(copy)
        copy.placed()
        self._loops.attach(copy, reader, writer)

    def leaderless(self, copy: PartitionReplication, what: str) -> None:
        """Nobody can fetch or send the partition now."""
        self.stale_source = self.stale_target = True
        self.retries[copy].moved(self._now_s())
        self.waiting(copy, f"no leader is known for {what}")

    def source_answered(self, copy: PartitionReplication) -> None:
        """The source's leader answered, and copying goes on."""
        if copy.state.reads_target:
            self.interrupted(copy, f"source partition {copy.source} was cleaned meanwhile")
        self._carry_out(copy)
        # The position may have been found by that, and the next answer with records may be days away.
        self._on_changed(copy)

    def follow_shared(self, copy: PartitionReplication) -> None:
        """Read the log end of a shared remote topic again."""
        copy.target_grows()
        self._carry_out(copy)

    def waiting_for_target(self, copies: Iterable[PartitionReplication], reason: str) -> None:
        """Show why the target's log end could not be read."""
        for copy in copies:
            if copy.state.shown == "establishing":
                self.waiting(copy, reason)

    def lease_changed(self, before: str | None, problem: str | None) -> None:
        """Show why nothing may be sent, or have everything sent again; ``before`` was shown until now."""
        for copy in self.copies.values():
            if (copy.state.sends and problem is not None) or (before is not None and copy.reason == before):
                copy.reason = problem
                self._on_changed(copy)
        if problem is None:
            self._loops.wake_senders()

    def _went_back(self, copy: PartitionReplication) -> None:
        self._loops.room_made()
        self._on_changed(copy)

    def _fill_gap(self, copy: PartitionReplication) -> None:
        gap = copy.open_gap
        if gap is not None:
            copy.fill(gap)
            self._fill(copy, gap)

    def _carry_out(self, copy: PartitionReplication) -> None:
        for instruction in copy.take_instructions():
            match instruction:
                case Instruction.DETACH:
                    self._loops.detach(copy)
                    self.unplaced.pop(copy, None)
                case Instruction.STOP_FETCHING:
                    self._loops.stop_fetching(copy)
                    self.unplaced.pop(copy, None)
                case Instruction.PLACE:
                    self.unplaced[copy] = -1
                    self._wake()
                case Instruction.UPDATE_FETCH:
                    self._loops.touch(copy)
                case Instruction.READ_TARGET | Instruction.ASK_SOURCE | Instruction.DROP:
                    self._wake()
