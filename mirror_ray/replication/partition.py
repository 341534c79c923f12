"""One partition's copy as a state machine. Pure: batches and answers go in, batches to send come out.

What holds between any two calls:

* ``acknowledged`` is a pair (source position, target end) that the target has committed; it only moves forward.
* The target offsets and sequences of what is in ``pipeline`` run on from ``acknowledged`` without a gap. In a remote
  topic that this flow alone writes **a batch's base sequence is its target offset modulo 2^31**, so the broker's
  idempotence check is a compare-and-swap on the log's end: a batch is appended where it was meant to be, or not at all
  (docs/decisions/0001).
* After anything unexpected, what is buffered is dropped, the answers under way are waited for, the target's log end is
  read (``established``), and copying goes on from the source position that belongs to it (``place``).

::

    establishing --established--> copying --failed, lost--> establishing
    copying, establishing --an error--> stopped --looked at again later--> copying
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mirror_ray.model.assignment import Assignment, PartitionReport, PartitionState
from mirror_ray.model.fault import FaultKind, PartitionFault
from mirror_ray.model.latency import LatencyCounter
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import RecordBatch, iter_batches, rewrite, verify
from mirror_ray.records.read_committed import CommittedOnly
from mirror_ray.replication import faults
from mirror_ray.replication.copied_records import TargetLog, to_be_scanned
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.outgoing_batch import BufferBudget, CopyProgress, OutgoingBatch
from mirror_ray.replication.partition_transforms import DeadLettersWaitError, PartitionTransforms, WaitingDeadLetters
from mirror_ray.replication.pipeline import Pipeline
from mirror_ray.replication.position import ReplicationPosition
from mirror_ray.replication.prepare import PreparedBatch, outgoing_of, pieces_of
from mirror_ray.replication.recovery import CleanedError, TargetContents
from mirror_ray.replication.segment_log import SegmentLog
from mirror_ray.replication.statistics import StatisticsTally

#: What is asked of the source's leader: whether the position is out of its bounds, or whether its log really ends.
Question = Literal["out_of_range", "ended"]


@dataclass(slots=True, eq=False, repr=False)
class PartitionReplication:
    """See the module's docstring. ``budget`` is shared; ``buffer_limit_bytes`` is this partition's own."""

    assignment: Assignment
    budget: BufferBudget
    buffer_limit_bytes: int
    read_committed: bool = True
    state: PartitionState = "establishing"
    reason: str | None = None
    #: Reported as stopped until what it says is seen to be over, though it is looked at again meanwhile.
    trouble: PartitionFault | None = None
    place: ReplicationPosition = field(init=False)
    #: Next source offset to ask the broker for, and the leader epoch of what was read before it.
    fetch_offset: int = field(init=False)
    fetch_epoch: int = field(init=False)
    #: Next source offset to select and rewrite.
    process_offset: int = field(init=False)
    pipeline: Pipeline = field(init=False)
    #: Whether the target's broker is known to hold our producer: then batches may be sent behind each other.
    deep: bool = False
    #: No more fetching; what is buffered still goes out.
    draining: bool = False
    #: Why the next source batch can't be copied: what is queued before it still goes out, then the partition stops.
    obstacle: Exception | None = None
    #: Why it stopped, where that is no ``trouble``, until it is seen to go on: looking at it again is no recovery yet.
    halted: str | None = None
    #: The target refused a batch: what becomes of those in flight behind it, its log end will tell.
    refused: bool = False
    #: To be asked of the source's leader once nothing is on its way; ``source_bounds`` takes the answer.
    question: Question | None = None
    source_end: int = -1
    high_watermark: int = -1
    progress: CopyProgress = field(default_factory=CopyProgress)
    #: Which source offset is which target offset, as acknowledged since the assignment.
    segments: SegmentLog = field(init=False)
    #: What it all adds up to, where that is wanted.
    tally: StatisticsTally | None = None
    #: How long its records took, together with those of the flow's other partitions.
    latencies: LatencyCounter | None = None
    #: What its records go through; None: nothing, and batches are passed on as they are.
    transforms: PartitionTransforms | None = None
    source: TopicPartition = field(init=False)
    #: Below this source offset each record is a batch of its own: one of them was refused.
    _singly_to: int = -1
    #: Whether something went wrong since it was established.
    _restarts: bool = False

    def __post_init__(self) -> None:
        self.source = self.assignment.partition.source
        self.pipeline = Pipeline(self.budget)
        self.segments = SegmentLog(self.assignment)
        self.place = ReplicationPosition(self.assignment, self.assignment.anchor)
        self._fetch_from(self.acknowledged)

    def __repr__(self) -> str:
        return f"<{self.assignment.partition} {self.state} at {self.acknowledged}>"

    @property
    def acknowledged(self) -> OffsetPair:
        """The pair (source position, target end) that the target has committed."""
        return self.place.acknowledged

    # ---- the target's end

    @property
    def needs_end(self) -> bool:
        """Whether the target's log end is to be read now, or again."""
        return self.state in ("establishing", "stopped") and not self.pipeline.in_flight

    def needs_tail(self, end: int) -> bool:
        """Whether the target's last batch must be looked at: it holds more than was acknowledged, or refused more."""
        doubtful = self.refused or self.trouble is not None
        return end > self.acknowledged.target_offset or (doubtful and end > 0)

    @property
    def needs_scan(self) -> bool:
        """Whether others write to the remote topic, so that the newest batch of ours must be looked for."""
        return to_be_scanned(self.assignment, self.acknowledged)

    @property
    def wants_contents(self) -> bool:
        """Whether ``established`` wants the records that the target got since the anchor."""
        return self.place.wants_contents

    def established(self, log: TargetLog, contents: TargetContents | None = None) -> None:
        """The target's log is ``log``; ``contents`` of what it got since the anchor, where ``wants_contents``.

        Raises:
            Troubled: The target is not what we left.
        """
        self.question = None
        before = self.acknowledged
        self.place.find(log, contents, self.pipeline.boundary, self.transforms, unanswered=self.pipeline.unanswered)
        self._count_unanswered(before, self.acknowledged.next_sequence)
        self.pipeline.forget()
        self._fetch_from(self.acknowledged)
        if self.transforms is not None:
            self.transforms.begin()
        self.deep = self.refused = False
        self.obstacle = None
        self.state = "copying"
        self._over("target_missing", "target_recreated", "target_truncated", "target_foreign")
        if self.place.known:
            self._found()

    def _found(self) -> None:
        """It is known where copying goes on."""
        self._begin()
        self._over("copy_lost")

    def _begin(self) -> None:
        """Copying goes on from what is acknowledged now."""
        self.segments.begin(self.acknowledged)
        if self.tally is not None:
            self.tally.begin(self.acknowledged, restarted=self._restarts)
        self._restarts = False

    def _fetch_from(self, anchor: OffsetPair) -> None:
        self.fetch_offset = self.process_offset = anchor.source_offset
        self.fetch_epoch = anchor.source_epoch

    # ---- the source

    @property
    def wants_fetch(self) -> bool:
        """Whether the partition takes part in the next fetch: it may have as much room as it leaves to the others."""
        has_room = self.pipeline.size_bytes < max(self.buffer_limit_bytes, self.budget.free_bytes)
        return has_room and self.fetchable and not self.fetched_all

    @property
    def fetchable(self) -> bool:
        """Whether it would be fetched if there were room for it."""
        waits = self.question is not None or self.dead_letters is not None
        return self.state == "copying" and not self.draining and self.obstacle is None and not waits

    @property
    def dead_letters(self) -> WaitingDeadLetters | None:
        """What is to be written to the dead letter topic before it is fetched again."""
        return None if self.transforms is None else self.transforms.waiting

    @property
    def fetched_all(self) -> bool:
        """Whether a backfill needs nothing more: while it passes over what the target holds, it may."""
        return self.fetch_offset >= self.assignment.end_offset and self.place.known

    @property
    def behind(self) -> bool:
        """Whether the source has more to fetch, as far as is known."""
        return self.source_end < 0 or self.fetch_offset < self.source_end

    def saw(self, source_end: int, high_watermark: int) -> None:
        """The source answered a fetch: it ends there, and is what we have read from."""
        self.source_end, self.high_watermark = source_end, high_watermark
        if self.tally is not None:
            self.tally.saw(source_end)
        self._over("source_removed", "source_truncated", "source_recreated")
        if self.trouble is None:
            self.reason = None

    def received(self, records: memoryview) -> list[RecordBatch]:
        """Split fetched bytes and move the fetch offset on: the next fetch can go out before they are processed.

        Raises:
            CorruptBatchError: The bytes are no record batches.
        """
        batches = iter_batches(records) if len(records) else []
        if batches:
            self.fetch_offset = max(self.fetch_offset, batches[-1].next_offset)
            self.fetch_epoch = max(self.fetch_epoch, batches[-1].partition_leader_epoch)
        return batches

    def process(self, batches: Sequence[RecordBatch], aborted: Sequence[tuple[int, int]] | CommittedOnly) -> None:
        """Select, check and rewrite batches that ``received`` returned; they end up in ``ready``.

        Where the source was cleaned since it was copied, the state is ``establishing`` afterwards.

        Raises:
            CorruptBatchError: A checksum is wrong; nothing of that batch was taken over.
            Troubled: A single record is larger than the target takes; or what the target holds is not in the source.
        """
        select = aborted
        if not isinstance(select, CommittedOnly):
            select = CommittedOnly(select if self.read_committed else ())
        following = iter(batches)
        try:
            for batch in following:
                next_offset = batch.next_offset
                if next_offset <= self.process_offset:
                    select.copies(batch)
                    continue
                verify(batch)
                if not select.copies(batch):
                    self._hole(batch)
                elif self.place.known:
                    self._take(batch, self.process_offset)
                else:
                    self._pass(batch)
                self.process_offset = next_offset
        except CleanedError:
            self._cleaned()
        except DeadLettersWaitError:
            self._hold(batch, following, select)
        if 0 <= self.source_end <= self.process_offset:
            self._at_end()

    def _hold(self, batch: RecordBatch, following: Iterable[RecordBatch], select: CommittedOnly) -> None:
        """Go no further than here before the dead letters of what follows are written; then it is fetched again."""
        if self.transforms is not None:
            self.transforms.hold(batch, following, select, self.process_offset)
        self.fetch_offset = self.process_offset
        self.fetch_epoch = (self.pipeline.newest or self.acknowledged).source_epoch

    def _at_end(self) -> None:
        if self.place.known and self.settled:
            self.halted = None
            self._over("transform_failed")
        elif not self.place.known and self.state == "copying":
            self.question = "ended"

    def _take(self, batch: RecordBatch, position: int) -> None:
        """Queue what of a batch lies at ``position`` or behind it."""
        queued_to = position
        singly = position < self._singly_to
        for piece in pieces_of(batch, position, self.assignment, self.transforms, singly=singly):
            self._queue(piece, batch.partition_leader_epoch)
            queued_to = piece.source_next
        if queued_to < batch.next_offset:
            self._hole(batch)

    def _queue(self, piece: PreparedBatch, epoch: int) -> None:
        assignment, behind, batch = self.assignment, self.pipeline.newest, piece.batch
        if behind is None:
            target, sequence = self.acknowledged.target_offset, self.acknowledged.next_sequence
        else:
            target, sequence = behind.target_offset + behind.count, behind.next_sequence
        idempotent = assignment.producer_id >= 0
        rewrite(batch, assignment.producer_id, assignment.producer_epoch, sequence if idempotent else -1)
        unpacked_bytes = 0 if self.tally is None else self.tally.sample(batch)
        self.pipeline.add(outgoing_of(piece, target, sequence, epoch, unpacked_bytes))

    def _hole(self, batch: RecordBatch) -> None:
        """Source offsets without a record to copy: the position moves over them once what is before them is there."""
        last = self.pipeline.newest
        if last is not None:
            if batch.next_offset > last.source_next:
                last.source_next, last.source_epoch = batch.next_offset, batch.partition_leader_epoch
        elif self.place.known:
            self.place.passed_hole(batch.next_offset, batch.partition_leader_epoch)
            if self.tally is not None:
                self.tally.passed(self.acknowledged.source_offset)

    def _pass(self, batch: RecordBatch) -> None:
        """Pass over what the target holds; take what lies behind it."""
        if not self.place.passed(batch, self.process_offset):
            return
        self._found()
        position = self.acknowledged.source_offset
        if position < batch.next_offset:
            # Should it wait for dead letters, it is taken from here on when it is fetched again.
            self.process_offset = max(self.process_offset, position)
            self._take(batch, position)

    def _cleaned(self) -> None:
        """The source is not what was copied from: the target is looked at again, or all is copied again."""
        self.place.cleaned(transformed=self.transforms is not None)
        if self.place.known:
            self._begin()
            self._fetch_from(self.acknowledged)
        else:
            self.rewind("establishing", self.reason, wrong=False)

    # ---- what the source's leader says

    @property
    def asks_source(self) -> bool:
        """Whether ``question`` is to be asked now."""
        return self.question is not None and self.state == "copying" and self.settled

    def source_bounds(self, start: int, end: int, stable_end: int) -> None:
        """The source's log goes from ``start`` to ``end``; what may be copied ends at ``stable_end``.

        Raises:
            Troubled: The position lies outside, or what the target holds is not in the source.
        """
        question, self.question = self.question, None
        try:
            position = self.place.within(self.fetch_offset, start, end)
            if position > self.fetch_offset:
                self.fetch_offset = self.process_offset = position
            elif question == "ended" and not self.place.known and self.process_offset >= stable_end:
                self._ended()
        except CleanedError:
            self._cleaned()

    def _ended(self) -> None:
        self.place.passed_all(self.process_offset, self.fetch_epoch)
        self._found()
        if self.acknowledged.source_offset < self.process_offset:
            # Records that were passed over have to be copied after all: they are fetched again.
            self.rewind("establishing", self.reason, wrong=False)

    def diverged(self, end: int) -> None:
        """From ``end`` on the source's log is another one than what was read; what is buffered of it must go.

        Raises:
            Troubled: What was copied is not there any more.
        """
        if self.settled and self.fetch_offset == self.acknowledged.source_offset:
            raise ReplicationFault(self.place.source_truncated(self.fetch_offset, end))

    # ---- the target's answers

    @property
    def sendable(self) -> bool:
        """Whether a batch may go out now: depth 1 until one was acknowledged, deep from then on."""
        return bool(self.pipeline.ready) and (self.deep or not self.pipeline.in_flight) and self.state == "copying"

    def take(self) -> OutgoingBatch:
        """The next batch to send; its answer must come back by ``answered``, ``failed`` or ``lost``."""
        return self.pipeline.take()

    def answered(self, base_offset: int, *, committed: bool = True) -> None:
        """The oldest batch in flight was appended at ``base_offset``; ``committed``: by all in-sync replicas.

        A commit covers what was appended before it.

        Raises:
            Troubled: It is not where it belongs: somebody else writes, or a batch before it failed.
        """
        outgoing = self.pipeline.answered()
        if base_offset != outgoing.target_offset:
            if self.place.exclusive and self.state == "stopped":
                return
            if self.place.exclusive:
                raise ReplicationFault(
                    faults.misplaced(self.assignment, self.acknowledged, outgoing.target_offset, base_offset)
                )
            outgoing.target_offset = base_offset
        if self.refused:
            # Where it belongs, behind one that was refused: another copier of this flow was there before us.
            return
        self.pipeline.appended(outgoing)
        if committed:
            self._commit()

    def _commit(self) -> None:
        committed = self.pipeline.committed()
        self._count_unanswered(self.acknowledged, committed[0].sequence)
        if self.tally is not None:
            self.tally.acknowledged(committed)
        for done in committed:
            self.progress.add(done)
            if self.latencies is not None:
                self.latencies.acknowledged(done.max_timestamp, done.count)
            self.segments.add(done.runs, done.target_offset, done.sequence)
        self.place.committed(committed[-1])
        # Without a producer id nothing keeps a batch from being appended behind one that failed.
        self.deep = self.assignment.producer_id >= 0
        self.halted = None
        self._over("record_refused", "transform_failed")

    def _count_unanswered(self, since: OffsetPair, after: int) -> None:
        """The target has what was sent before sequence ``after``, though not all of it was acknowledged."""
        before = since.next_sequence
        if self.tally is not None and before != after:
            self.tally.acknowledged(self.pipeline.remembered(before, after))

    def failed(self, record_error: str | None = None) -> None:
        """The oldest batch in flight was refused; ``record_error``: for what is in it.

        Raises:
            Troubled: It held the one record that the target does not take.
        """
        self.pipeline.remember()
        outgoing = self.pipeline.answered()
        first_refused, self.refused = not self.refused, True
        self.rewind("stopped" if self.state == "stopped" else "establishing", self.reason)
        if record_error is None or not first_refused:
            return
        if outgoing.count == 1:
            raise ReplicationFault(faults.record_refused(self.source, outgoing.source_first, record_error))
        self._singly_to = outgoing.source_next

    def lost(self) -> None:
        """What became of the batches in flight will never be known from here: the connection is gone."""
        self.pipeline.remember()
        self.pipeline.lose()
        self.rewind("stopped" if self.state == "stopped" else "establishing", self.reason)

    def rewind(self, state: PartitionState, reason: str | None, *, wrong: bool = True) -> None:
        """Drop what is buffered and go back to what the target will say. Answers under way are still awaited.

        ``wrong``: something is, so that it counts as a restart.
        """
        self._restarts |= wrong
        self.pipeline.remember()
        self.pipeline.drop()
        self.state, self.reason = state, reason
        self.deep = False

    # ---- what is seen of it

    def _over(self, *kinds: FaultKind) -> None:
        if self.trouble is not None and self.trouble.kind in kinds:
            self.trouble = None
        if self.trouble is None and self.state == "copying":
            self.reason = None

    @property
    def settled(self) -> bool:
        """Whether all that was taken from the source is acknowledged."""
        return self.pipeline.settled

    @property
    def drained(self) -> bool:
        """Whether nothing is on its way any more."""
        return self.settled or (self.state != "copying" and not self.pipeline.in_flight)

    def report(self) -> PartitionReport:
        """The partition's state, for the coordinator."""
        progress = self.progress
        return PartitionReport(
            partition=self.assignment.partition,
            epoch=self.assignment.epoch,
            state=self.state if self.trouble is None and self.halted is None else "stopped",
            reason=(self.halted or self.reason) if self.trouble is None else self.trouble.text,
            trouble=self.trouble,
            anchor=self.acknowledged,
            source_end=self.source_end,
            high_watermark=self.high_watermark,
            records=progress.records,
            bytes=progress.bytes,
            last_timestamp_ms=progress.last_timestamp_ms,
            bytes_per_record=progress.bytes / progress.records if progress.records else 0.0,
            compression=None if self.tally is None else self.tally.compression,
        )
