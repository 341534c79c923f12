"""One partition's copy as a state machine. Pure: batches and answers go in, batches to send come out.

What holds between any two calls:

* ``acknowledged`` is a pair (source position, target end) that the target has committed; it only moves forward.
* Batches wait in ``ready``, then in ``in_flight``, then, where the leader alone has them, in ``uncommitted``; their
  target offsets and sequences run on from ``acknowledged`` without a gap. In a remote topic that this flow alone writes
  **a batch's base sequence is its target offset modulo 2^31**, so the broker's idempotence check is a compare-and-swap
  on the log's end: a batch is appended where it was meant to be, or not at all (docs/decisions/0001).
* After anything unexpected, what is buffered is dropped, the answers under way are waited for, the target's log end is
  read (``established``), and copying goes on from the source position that belongs to it (``recovery``).

::

    establishing --established--> copying --failed, lost--> establishing
    copying, establishing --an error--> stopped --looked at again later--> copying
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mirror_ray.copying import troubled
from mirror_ray.copying.outgoing import Budget, Outgoing, Progress
from mirror_ray.copying.recovery import CleanedError, Contents, Match, TargetLog, Walk, copied_since, to_be_scanned
from mirror_ray.copying.select import CommittedOnly
from mirror_ray.copying.troubled import Troubled
from mirror_ray.model.anchor import SEQUENCE_MODULUS, Anchor
from mirror_ray.model.assignment import Assignment, PartitionReport, PartitionState
from mirror_ray.model.errors import RecordTooLargeError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.trouble import Trouble, TroubleKind
from mirror_ray.records.batch import Batch, iter_batches, needs_repack, rewrite, verify
from mirror_ray.records.repack import compress_batch, repack

#: What is asked of the source's leader: whether the position is out of its bounds, or whether its log really ends.
Question = Literal["out_of_range", "ended"]

_RELEASED = memoryview(b"")


@dataclass(slots=True, eq=False, repr=False)
class PartitionCopy:
    """See the module's docstring. ``budget`` is shared; ``buffer_limit_bytes`` is this partition's own."""

    assignment: Assignment
    budget: Budget
    buffer_limit_bytes: int
    read_committed: bool = True
    state: PartitionState = "establishing"
    reason: str | None = None
    #: Reported as stopped until what it says is seen to be over, though it is looked at again meanwhile.
    trouble: Trouble | None = None
    acknowledged: Anchor = field(init=False)
    #: Next source offset to ask the broker for, and the leader epoch of what was read before it.
    fetch_offset: int = field(init=False)
    fetch_epoch: int = field(init=False)
    #: Next source offset to select and rewrite.
    process_offset: int = field(init=False)
    ready: deque[Outgoing] = field(default_factory=deque)
    in_flight: deque[Outgoing] = field(default_factory=deque)
    #: Appended by the leader, not known to be committed: the next acknowledgement by all in-sync replicas covers them.
    uncommitted: deque[Outgoing] = field(default_factory=deque)
    #: Whether the target's broker is known to hold our producer: then batches may be sent behind each other.
    deep: bool = False
    #: No more fetching; what is buffered still goes out.
    draining: bool = False
    #: Why the next source batch can't be copied: what is queued before it still goes out, then the partition stops.
    obstacle: Exception | None = None
    #: The target refused a batch: what becomes of those in flight behind it, its log end will tell.
    refused: bool = False
    #: What the target holds is to be compared with the source: ``established`` wants its records.
    wants_contents: bool = False
    #: To be asked of the source's leader once nothing is on its way; ``source_bounds`` takes the answer.
    question: Question | None = None
    source_end: int = -1
    high_watermark: int = -1
    buffered_bytes: int = 0
    progress: Progress = field(default_factory=Progress)
    _passing: Walk | Match | None = None
    #: Where the target's end is, and how many records of ours lie before it behind ``acknowledged``.
    _passing_to: Anchor | None = None
    _passed_records: int = 0
    #: Below this source offset each record is a batch of its own: one of them was refused.
    _singly_to: int = -1
    _boundaries: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.acknowledged = self.assignment.anchor
        self._fetch_from(self.acknowledged)

    def __repr__(self) -> str:
        return f"<{self.assignment.partition} {self.state} at {self.acknowledged}>"

    # ---- the target's end

    @property
    def needs_end(self) -> bool:
        """Whether the target's log end is to be read now, or again."""
        return self.state in ("establishing", "stopped") and not self.in_flight

    def needs_tail(self, end: int) -> bool:
        """Whether the target holds more than was acknowledged, so that its last batch must be looked at."""
        return end > self.acknowledged.target_offset

    @property
    def needs_scan(self) -> bool:
        """Whether others write to the remote topic, so that the newest batch of ours must be looked for."""
        return to_be_scanned(self.assignment, self.acknowledged)

    def established(self, log: TargetLog, contents: Contents | None = None) -> None:
        """The target's log is ``log``; ``contents`` of what it got since the anchor, where ``wants_contents``.

        Raises:
            Troubled: The target is not what we left.
        """
        self._passing = self._passing_to = self.question = None
        ours = copied_since(self.acknowledged, log, self.assignment)
        if log.end > self.acknowledged.target_offset:
            self._pass_over(ours, log, contents)
        self._boundaries.clear()
        self._fetch_from(self.acknowledged)
        self.deep = self.refused = False
        self.obstacle = None
        self.state = "copying"
        self._over("target_missing", "target_recreated", "target_truncated", "target_foreign")
        if self._passing is None:
            self._over("copy_lost")

    def _pass_over(self, ours: int, log: TargetLog, contents: Contents | None) -> None:
        """Go on behind ``ours`` records that the target holds already: at once where their place is known."""
        anchor = self.acknowledged
        after = (anchor.next_sequence + ours) % SEQUENCE_MODULUS
        source, epoch = self._boundaries.get(after, (anchor.source_offset, anchor.source_epoch))
        reached = self._pair(source, log.end, after, epoch)
        self._passed_records = ours
        if ours == 0 or after in self._boundaries:
            self.acknowledged = reached
        elif contents is None:
            self._passing_to, self._passing = reached, Walk(ours, log.tail)
        elif len(contents.records) == ours:
            self._passing_to, self._passing = reached, Match(contents)
        else:
            what = (
                f"{ours} records were copied behind offset {anchor.target_offset} and {len(contents.records)} are there"
            )
            raise Troubled(self._lost_copy(what))

    def _pair(self, source: int, target: int, sequence: int, epoch: int) -> Anchor:
        own = self._exclusive and self.acknowledged.sequence is None and sequence == target % SEQUENCE_MODULUS
        return Anchor(source, target, None if own else sequence, epoch)

    @property
    def _exclusive(self) -> bool:
        """Whether every batch must land where it was meant to."""
        return not self.assignment.shared and self.assignment.producer_id >= 0

    def _fetch_from(self, anchor: Anchor) -> None:
        self.fetch_offset = self.process_offset = anchor.source_offset
        self.fetch_epoch = anchor.source_epoch

    # ---- the source

    @property
    def wants_fetch(self) -> bool:
        """Whether the partition takes part in the next fetch: it may have as much room as it leaves to the others."""
        return self.fetchable and self.buffered_bytes < max(self.buffer_limit_bytes, self.budget.free_bytes)

    @property
    def fetchable(self) -> bool:
        """Whether it would be fetched if there were room for it."""
        return self.state == "copying" and not self.draining and self.obstacle is None and self.question is None

    def saw(self, source_end: int, high_watermark: int) -> None:
        """The source answered a fetch: it ends there, and is what we have read from."""
        self.source_end, self.high_watermark = source_end, high_watermark
        self._over("source_removed", "source_truncated", "source_recreated")
        if self.trouble is None:
            self.reason = None

    def received(self, records: memoryview) -> list[Batch]:
        """Split fetched bytes and move the fetch offset on: the next fetch can go out before they are processed.

        Raises:
            CorruptBatchError: The bytes are no record batches.
        """
        batches = iter_batches(records) if len(records) else []
        if batches:
            self.fetch_offset = max(self.fetch_offset, batches[-1].next_offset)
            self.fetch_epoch = max(self.fetch_epoch, batches[-1].partition_leader_epoch)
        return batches

    def process(self, batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]) -> None:
        """Select, check and rewrite batches that ``received`` returned; they end up in ``ready``.

        Where the source was cleaned since it was copied, the state is ``establishing`` afterwards.

        Raises:
            CorruptBatchError: A checksum is wrong; nothing of that batch was taken over.
            Troubled: A single record is larger than the target takes; or what the target holds is not in the source.
        """
        select = CommittedOnly(aborted if self.read_committed else ())
        try:
            for batch in batches:
                if batch.next_offset <= self.process_offset:
                    select.copies(batch)
                    continue
                verify(batch)
                if not select.copies(batch):
                    self._hole(batch)
                elif self._passing is None:
                    self._take(batch, self.process_offset)
                else:
                    self._pass(batch, self._passing)
                self.process_offset = batch.next_offset
        except CleanedError:
            self._cleaned()
        if self._passing is not None and self.state == "copying" and 0 <= self.source_end <= self.process_offset:
            self.question = "ended"

    def _take(self, batch: Batch, position: int) -> None:
        """Queue a batch: as it is where that is right, else repacked."""
        assignment = self.assignment
        codec = assignment.compress_with
        if codec is not None and batch.magic == 2 and batch.codec == "none":
            batch = compress_batch(batch, codec)
        epoch = batch.partition_leader_epoch
        leave_out = [(first, end) for first, end in assignment.skip if first < batch.next_offset and end > position]
        singly = position < self._singly_to
        if not (leave_out or singly) and needs_repack(batch, position, assignment.max_message_bytes) is None:
            self._queue(batch, batch.base_offset, batch.next_offset, epoch)
            return
        try:
            pieces = repack(
                batch,
                from_offset=position,
                max_batch_bytes=assignment.max_message_bytes,
                leave_out=leave_out,
                singly=singly,
            )
        except RecordTooLargeError as error:
            raise Troubled(troubled.record_refused(self._source, error.offset, str(error))) from error
        for piece in pieces:
            self._queue(piece.batch, piece.source_first, piece.next_source_offset, epoch)
        self._hole(batch)

    def _queue(self, batch: Batch, source_first: int, source_next: int, epoch: int) -> None:
        assignment, behind = self.assignment, self._newest
        if behind is None:
            target, sequence = self.acknowledged.target_offset, self.acknowledged.next_sequence
        else:
            target, sequence = behind.target_offset + behind.count, behind.next_sequence
        idempotent = assignment.producer_id >= 0
        rewrite(batch, assignment.producer_id, assignment.producer_epoch, sequence if idempotent else -1)
        size = len(batch.view)
        self.ready.append(
            Outgoing(
                batch.view, target, sequence, batch.count, source_first, source_next, epoch, batch.max_timestamp, size
            )
        )
        self.buffered_bytes += size
        self.budget.used_bytes += size

    @property
    def _newest(self) -> Outgoing | None:
        """The last batch on its way."""
        queue = self.ready or self.in_flight or self.uncommitted
        return queue[-1] if queue else None

    def _hole(self, batch: Batch) -> None:
        """Source offsets without a record to copy: the position moves over them once what is before them is there."""
        last = self._newest
        if last is not None:
            if batch.next_offset > last.source_next:
                last.source_next, last.source_epoch = batch.next_offset, batch.partition_leader_epoch
        elif self._passing is None:
            now = self.acknowledged
            source = max(batch.next_offset, now.source_offset)
            self.acknowledged = Anchor(source, now.target_offset, now.sequence, batch.partition_leader_epoch)

    def _pass(self, batch: Batch, passing: Walk | Match) -> None:
        """Pass over what the target holds; take what lies behind it."""
        position = passing.passed(batch, self.process_offset)
        if position is None:
            return
        self._reached(position, batch.partition_leader_epoch)
        if position < batch.next_offset:
            self._take(batch, position)

    def _reached(self, position: int, epoch: int) -> None:
        """All that the target holds was passed over: ``position`` is where copying goes on.

        Raises:
            Troubled: There is no room before it for all the records that were copied.
        """
        to = self._passing_to or self.acknowledged
        copied_to = self.acknowledged.source_offset + self._passed_records
        if position < copied_to:
            raise Troubled(troubled.source_truncated(self._source, copied_to, self._resume(position)))
        self._passing = self._passing_to = None
        self.wants_contents = False
        self.acknowledged = Anchor(position, to.target_offset, to.sequence, epoch)
        self._over("copy_lost")

    def _cleaned(self) -> None:
        """The source is not what was copied from: compare its records with the target's; at least once: copy again."""
        if self.assignment.producer_id < 0:
            to, anchor = self._passing_to or self.acknowledged, self.acknowledged
            self._passing = self._passing_to = None
            self.acknowledged = Anchor(anchor.source_offset, to.target_offset, to.sequence, anchor.source_epoch)
            self._fetch_from(self.acknowledged)
        elif self.wants_contents:
            raise Troubled(self._lost_copy("the source holds none of the records that were copied last"))
        else:
            self.wants_contents = True
            self.rewind("establishing", self.reason)

    def _lost_copy(self, what: str) -> Trouble:
        text = (
            f"remote topic {self.assignment.target}: where its copy had come to can't be told: {what}, behind source "
            f"offset {self.acknowledged.source_offset}"
        )
        return troubled.copy_lost(self.acknowledged, text)

    def _resume(self, source_offset: int) -> Anchor:
        """The pair of a source offset and the target's end."""
        to = self._passing_to or self.acknowledged
        return Anchor(source_offset, to.target_offset, to.sequence)

    @property
    def _source(self) -> TopicPartition:
        return self.assignment.partition.source

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
        position = self.fetch_offset
        if position > end:
            raise Troubled(troubled.source_truncated(self._source, position, self._resume(end)))
        if position < start:
            self._removed_below(start)
        elif question == "ended" and self._passing is not None and self.process_offset >= stable_end:
            try:
                self._reached(self._passing.ended(self.process_offset), self.fetch_epoch)
            except CleanedError:
                self._cleaned()

    def _removed_below(self, start: int) -> None:
        if isinstance(self._passing, Match):
            self._passing.late = True
            self.fetch_offset = self.process_offset = start
        elif self._passing is not None:
            self._cleaned()
        else:
            raise Troubled(troubled.source_removed(self._source, self.fetch_offset, self._resume(start)))

    def diverged(self, end: int) -> None:
        """From ``end`` on the source's log is another one than what was read; what is buffered of it must go.

        Raises:
            Troubled: What was copied is not there any more.
        """
        copied = self.acknowledged.source_offset
        if self.settled and self.fetch_offset == copied:
            raise Troubled(troubled.source_truncated(self._source, copied, self._resume(end)))

    # ---- the target's answers

    @property
    def sendable(self) -> bool:
        """Whether a batch may go out now: depth 1 until one was acknowledged, deep from then on."""
        return bool(self.ready) and (self.deep or not self.in_flight) and self.state == "copying"

    def take(self) -> Outgoing:
        """The next batch to send; its answer must come back by ``answered``, ``failed`` or ``lost``."""
        outgoing = self.ready.popleft()
        self.in_flight.append(outgoing)
        return outgoing

    def answered(self, base_offset: int, *, committed: bool = True) -> None:
        """The oldest batch in flight was appended at ``base_offset``; ``committed``: by all in-sync replicas.

        A commit covers what was appended before it.

        Raises:
            Troubled: It is not where it belongs: somebody else writes, or a batch before it failed.
        """
        outgoing = self.in_flight.popleft()
        self._release(outgoing)
        if base_offset != outgoing.target_offset:
            if self._exclusive and self.state == "stopped":
                return
            if self._exclusive:
                raise Troubled(
                    troubled.misplaced(self.assignment, self.acknowledged, outgoing.target_offset, base_offset)
                )
            outgoing.target_offset = base_offset
        if self.refused:
            # Where it belongs, behind one that was refused: another copier of this flow was there before us.
            return
        self.uncommitted.append(outgoing)
        if committed:
            self._commit()

    def _commit(self) -> None:
        for done in self.uncommitted:
            self.progress.add(done)
        last = self.uncommitted[-1]
        self.uncommitted.clear()
        self.acknowledged = self._pair(
            last.source_next, last.target_offset + last.count, last.next_sequence, last.source_epoch
        )
        # Without a producer id nothing keeps a batch from being appended behind one that failed.
        self.deep = self.assignment.producer_id >= 0
        self._over("record_refused")

    def failed(self, record_error: str | None = None) -> None:
        """The oldest batch in flight was refused; ``record_error``: for what is in it.

        Raises:
            Troubled: It held the one record that the target does not take.
        """
        self._remember()
        outgoing = self.in_flight.popleft()
        self._release(outgoing)
        first_refused, self.refused = not self.refused, True
        self.rewind("stopped" if self.state == "stopped" else "establishing", self.reason)
        if record_error is None or not first_refused:
            return
        if outgoing.count == 1:
            raise Troubled(troubled.record_refused(self._source, outgoing.source_first, record_error))
        self._singly_to = outgoing.source_next

    def lost(self) -> None:
        """What became of the batches in flight will never be known from here: the connection is gone."""
        self._remember()
        while self.in_flight:
            self._release(self.in_flight.popleft())
        self.rewind("stopped" if self.state == "stopped" else "establishing", self.reason)

    def rewind(self, state: PartitionState, reason: str | None) -> None:
        """Drop what is buffered and go back to what the target will say. Answers under way are still awaited."""
        self._remember()
        while self.ready:
            self._release(self.ready.popleft())
        self.uncommitted.clear()
        self.state, self.reason = state, reason
        self.deep = False

    def _remember(self) -> None:
        """Keep which source position belongs to each sequence that batches on their way may have brought about."""
        for outgoing in (*self.uncommitted, *self.in_flight):
            self._boundaries[outgoing.next_sequence] = (outgoing.source_next, outgoing.source_epoch)

    def _release(self, outgoing: Outgoing) -> None:
        outgoing.view = _RELEASED
        self.buffered_bytes -= outgoing.size_bytes
        self.budget.used_bytes -= outgoing.size_bytes

    # ---- what is seen of it

    def _over(self, *kinds: TroubleKind) -> None:
        if self.trouble is not None and self.trouble.kind in kinds:
            self.trouble = None
        if self.trouble is None and self.state == "copying":
            self.reason = None

    @property
    def settled(self) -> bool:
        """Whether all that was taken from the source is acknowledged."""
        return not (self.ready or self.in_flight or self.uncommitted)

    @property
    def drained(self) -> bool:
        """Whether nothing is on its way any more."""
        return self.settled or (self.state != "copying" and not self.in_flight)

    def report(self) -> PartitionReport:
        """The partition's state, for the coordinator."""
        progress = self.progress
        return PartitionReport(
            partition=self.assignment.partition,
            epoch=self.assignment.epoch,
            state="stopped" if self.trouble is not None else self.state,
            reason=self.reason if self.trouble is None else self.trouble.text,
            trouble=self.trouble,
            anchor=self.acknowledged,
            source_end=self.source_end,
            high_watermark=self.high_watermark,
            records=progress.records,
            bytes=progress.bytes,
            last_timestamp_ms=progress.last_timestamp_ms,
            bytes_per_record=progress.bytes / progress.records if progress.records else 0.0,
        )
