"""One partition's replication as a state machine: batches and answers go in, batches to send come out.

What holds between any two calls:

* ``acknowledged`` is an offset pair that the target has committed; it only moves forward.
* The target offsets and sequences of what is in ``pipeline`` run on from ``acknowledged`` without a gap. In a remote
  topic that this flow alone writes **a batch's base sequence is its target offset modulo 2^31**, so the broker's
  idempotence check is a compare-and-swap on the log's end: a batch is appended where it was meant to be, or not at all
  (docs/decisions/0001).
* After anything unexpected, what is buffered is dropped, the answers under way are awaited, the target's log end is
  read (``established``), and copying goes on from the source position that belongs to it (``position``).

``partition_states`` has the states and their transitions (docs/partition-states.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from mirror_ray.model.assignment import PartitionReport
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.offset_gaps import OffsetGap
from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.partition_source import PartitionSource
from mirror_ray.replication.partition_states import CopyState, Recovery, StateEvent
from mirror_ray.replication.target_log import TargetContents, TargetLog, to_be_scanned


@dataclass(slots=True, eq=False, repr=False)
class PartitionReplication(PartitionSource):
    """See the module's docstring; this class adds the target side."""

    # ---- the target's log end

    @property
    def needs_end(self) -> bool:
        """Whether the target's log end is to be read now."""
        return self.state.reads_target and not (self.pipeline.in_flight or self.pipeline.filling)

    def needs_last_batch(self, end: int) -> bool:
        """Whether the target's last batch is wanted: the log holds more than was acknowledged, or refused more."""
        doubtful = self.state.refused or self.fault is not None
        return end > self.acknowledged.target_offset or (doubtful and end > 0)

    @property
    def needs_scan(self) -> bool:
        """Whether others write to the remote topic, so that our newest batch must be searched for."""
        return to_be_scanned(self.assignment, self.acknowledged)

    @property
    def wants_contents(self) -> bool:
        """Whether ``established`` wants the records that the target got since the acknowledged pair."""
        return self.position.wants_contents

    def established(self, log: TargetLog, contents: TargetContents | None = None) -> None:
        """Go on from the end of the target's log; ``contents`` where ``wants_contents``.

        Raises:
            ReplicationFault: The target is not what we left.
        """
        before = self.acknowledged
        self.position.find(log, contents, self.pipeline.boundary, self.transforms, unanswered=self.pipeline.unanswered)
        self._count_unanswered(before, self.acknowledged.next_sequence)
        self.pipeline.forget()
        self._fetch_from(self.acknowledged)
        self.blocked_by = None
        self.pipeline.deep = False
        if self.transforms is not None:
            self.transforms.begin()
        self._on(StateEvent.TARGET_END_READ)
        self._recovered(Recovery.TARGET_END_READ)
        if self.position.known:
            self._position_found()

    def placed(self) -> None:
        """Fetcher and sender have the partition now."""
        self._on(StateEvent.PLACED if self.position.known else StateEvent.PLACED_TO_REALIGN)

    def target_grows(self) -> None:
        """Have the log end of a shared remote topic read again, so that ours is soon found behind it."""
        self._on(StateEvent.TARGET_GROWS)

    # ---- gaps, where offsets are preserved

    @property
    def open_gap(self) -> OffsetGap | None:
        """The gap to fill on the target now: all that lies before it is committed."""
        pipeline = self.pipeline
        ready = self.assignment.preserve_offsets and self.state.sends and self.position.known
        if not ready or not pipeline.answered_all:
            return None
        start = self.acknowledged.target_offset
        end = pipeline.ready[0].source_first if pipeline.ready else self.acknowledged.source_offset
        return OffsetGap(start, end) if end > start else None

    def fill(self, gap: OffsetGap) -> None:
        """The gap is being filled: nothing is sent, and the target's log end is not read, before ``gap_filled``."""
        self.pipeline.filling = gap

    def gap_filled(self, end: int | None) -> None:
        """The target has committed markers and fillers up to ``end``; None: what became of them is not known."""
        gap, self.pipeline.filling = self.pipeline.filling, None
        if gap is None or end is None:
            return
        self.segments.add(((gap.start, end - gap.start),), gap.start, self.acknowledged.next_sequence)
        ready = self.pipeline.ready
        self.position.filled(end, ready[0].source_epoch if ready else -1)
        if ready and ready[0].source_first == end:
            ready[0].behind_gap = False

    # ---- the target's answers

    @property
    def sendable(self) -> bool:
        """Whether a batch may go out now."""
        return self.pipeline.sendable and self.state.sends

    def take(self) -> OutgoingBatch:
        """Return the next batch to send; its answer must come back by ``answered``, ``failed`` or ``lost``."""
        return self.pipeline.take()

    def answered(self, base_offset: int, *, committed: bool = True) -> None:
        """The oldest batch in flight was appended at ``base_offset``; ``committed``: by all in-sync replicas.

        A commit covers what was appended before it.

        Raises:
            ReplicationFault: It is not where it belongs: somebody else writes, or a batch before it failed.
        """
        outgoing, state = self.pipeline.answered(), self.state
        if state is CopyState.LEAVING:
            return
        if base_offset != outgoing.target_offset:
            if self.position.exclusive and state.stopped:
                return
            if self.position.exclusive:
                raise ReplicationFault(
                    faults.misplaced(self.assignment, self.acknowledged, outgoing.target_offset, base_offset)
                )
            outgoing.target_offset = base_offset
        if state.refused:
            # Where it belongs, behind one that was refused: another replicator of this flow was there before us.
            return
        self.pipeline.appended(outgoing)
        if committed:
            self._commit()

    def _commit(self) -> None:
        committed = self.pipeline.committed()
        self._count_unanswered(self.acknowledged, committed[0].sequence)
        if self.tally is not None:
            self.tally.acknowledged(committed)
        for outgoing in committed:
            self.progress.add(outgoing)
            if self.latencies is not None:
                for newest_timestamp, count in outgoing.ages:
                    self.latencies.acknowledged(newest_timestamp, count)
            self.segments.add(outgoing.runs, outgoing.target_offset, outgoing.sequence)
        self.position.committed(committed[-1])
        # Without a producer id nothing keeps a batch from being appended behind one that failed.
        self.pipeline.deep = self.assignment.producer_id >= 0
        self._recovered(Recovery.COMMITTED)

    def _count_unanswered(self, since: OffsetPair, after: int) -> None:
        """Count what was sent before sequence ``after``: the target has it, though not all of it was acknowledged."""
        before = since.next_sequence
        if self.tally is not None and before != after:
            self.tally.acknowledged(self.pipeline.remembered(before, after))

    def failed(self, record_error: str | None = None) -> None:
        """The oldest batch in flight was refused; ``record_error``: for a record in it.

        In place of a merged batch the source's own are sent, in place of one of these its records one by one.

        Raises:
            ReplicationFault: It held one record alone, which the target does not take.
        """
        self.pipeline.remember()
        outgoing = self.pipeline.answered()
        first_refused = not self.state.refused
        self._on(StateEvent.BATCH_REFUSED)
        if record_error is None or not first_refused:
            return
        if outgoing.count == 1:
            raise ReplicationFault(faults.record_refused(self.source, outgoing.source_first, record_error))
        if outgoing.merged:
            self._unmerged_to = outgoing.source_next
        else:
            self._singly_to = outgoing.source_next

    def lost(self) -> None:
        """No answer comes for the batches in flight: the connection is lost."""
        self.pipeline.remember()
        self.pipeline.lose()
        self._on(StateEvent.CONNECTION_LOST)

    def remove(self) -> None:
        """Replicate nothing more; what became of the batches in flight is not known."""
        self.pipeline.remember()
        self.pipeline.lose()
        self._on(StateEvent.REMOVE)

    @property
    def _shown_reason(self) -> str | None:
        waits = self.schema_ids_awaited
        return faults.schema_awaited(self.source, waits) if self.reason is None and waits is not None else self.reason

    @property
    def _translates(self) -> bool:
        return self.transforms is not None and self.transforms.chain.schema_ids is not None

    def report(self) -> PartitionReport:
        """Describe the partition for the coordinator."""
        progress, cause = self.progress, self.stop_cause
        return PartitionReport(
            partition=self.assignment.partition,
            epoch=self.assignment.epoch,
            state=self.state.shown if cause is None else "stopped",
            reason=self._shown_reason if cause is None else cause.text,
            schema_ids=progress.schema_ids if self._translates else None,
            trouble=self.fault,
            anchor=self.acknowledged,
            source_end=self.source_end,
            high_watermark=self.high_watermark,
            records=progress.records,
            bytes=progress.bytes,
            last_timestamp_ms=progress.last_timestamp_ms,
            bytes_per_record=progress.bytes / progress.records if progress.records else 0.0,
            compression=None if self.tally is None else self.tally.compression,
        )
