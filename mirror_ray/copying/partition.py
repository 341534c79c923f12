"""One partition's copy as a state machine. Pure: batches and answers go in, batches to send come out.

What holds between any two calls:

* ``acknowledged`` is a pair (source position, target end) that the target has confirmed; it only moves forward.
* Batches wait in ``ready``, then in ``in_flight``; their target offsets run on from ``acknowledged`` without a gap, and
  **a batch's base sequence is its target offset modulo 2^31**. So the broker's idempotence check is a compare-and-swap
  on the log's end: a batch is appended where it was meant to be, or not at all (docs/decisions/0001).
* After anything unexpected, what is buffered is dropped, the answers under way are waited for, the target's log end is
  read (``established``), and copying goes on from the source position that belongs to it.

::

    establishing --established--> copying --failed, lost--> establishing
    copying, establishing --PartitionStoppedError--> stopped --looked at again later--> copying
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from mirror_ray.copying.select import CommittedOnly
from mirror_ray.model.assignment import SEQUENCE_MODULUS, Anchor, Assignment, PartitionReport, PartitionState
from mirror_ray.model.errors import MirrorError
from mirror_ray.records.batch import Batch, iter_batches, needs_repack, rewrite, verify
from mirror_ray.records.decode import Record, records_of
from mirror_ray.records.repack import compress_batch, repack


class PartitionStoppedError(MirrorError):
    """The partition must not go on as things are; the text says why and what to do."""


@dataclass(slots=True)
class Outgoing:
    """A batch that is ready for the target, and what its acknowledgement will mean."""

    view: memoryview
    target_offset: int
    count: int
    #: Source position once it is acknowledged; holes that follow it on the source move it on.
    source_next: int
    max_timestamp: int
    size_bytes: int


@dataclass(slots=True)
class Budget:
    """Bytes fetched and not yet acknowledged, over all partitions of a flow in one replicator."""

    limit_bytes: int
    used_bytes: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether nothing more should be fetched for now."""
        return self.used_bytes >= self.limit_bytes


@dataclass(slots=True)
class Progress:
    """What was copied by this replicator since it got the partition."""

    records: int = 0
    bytes: int = 0
    last_timestamp_ms: int = -1


@dataclass(slots=True)
class Walk:
    """Records of ours that the target holds beyond the anchor: to be skipped on the source before copying goes on."""

    records: int
    target_end: int
    #: The last record on the target, which the last skipped one must equal.
    tail: Record | None


@dataclass(slots=True, eq=False)
class PartitionCopy:
    """See the module's docstring. ``budget`` is shared; ``buffer_limit_bytes`` is this partition's own."""

    assignment: Assignment
    budget: Budget
    buffer_limit_bytes: int
    read_committed: bool = True
    state: PartitionState = "establishing"
    reason: str | None = None
    acknowledged: Anchor = field(init=False)
    #: Next source offset to ask the broker for.
    fetch_offset: int = field(init=False)
    #: Next source offset to select and rewrite.
    process_offset: int = field(init=False)
    ready: deque[Outgoing] = field(default_factory=deque)
    in_flight: deque[Outgoing] = field(default_factory=deque)
    #: Whether the target's broker is known to hold our producer: then batches may be sent behind each other.
    deep: bool = False
    #: No more fetching; what is buffered still goes out.
    draining: bool = False
    #: Why the next source batch can't be copied: what is queued before it still goes out, then the partition stops.
    obstacle: str | None = None
    #: The target refused a batch: what becomes of those in flight behind it, its log end will tell.
    refused: bool = False
    source_end: int = -1
    high_watermark: int = -1
    buffered_bytes: int = 0
    progress: Progress = field(default_factory=Progress)
    _walk: Walk | None = None
    _boundaries: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.acknowledged = self.assignment.anchor
        self.fetch_offset = self.process_offset = self.acknowledged.source_offset

    # ---- the target's end

    @property
    def needs_end(self) -> bool:
        """Whether the target's log end is to be read now, or again."""
        return self.state in ("establishing", "stopped") and not self.in_flight

    def needs_tail(self, end: int) -> bool:
        """Whether the target holds more than was acknowledged, so that its last batch must be looked at."""
        return end > self.acknowledged.target_offset

    def established(self, end: int, tail: Batch | None) -> None:
        """The target's log ends at ``end`` and its last batch is ``tail`` (None: not asked for, or no longer there).

        Raises:
            PartitionStoppedError: The target is not what we left.
        """
        source, target = self.acknowledged.source_offset, self.acknowledged.target_offset
        self._walk = None
        if end < target:
            raise PartitionStoppedError(
                f"remote topic {self.assignment.target} ends at {end}, but records up to {target} were acknowledged: "
                "it was truncated or lost data; restore it, or delete the remote topic and start the flow anew"
            )
        if end > target:
            self._check_tail(end, tail)
            known = self._boundaries.get(end)
            if known is None:
                self._walk = Walk(end - target, end, records_of(tail)[-1] if tail is not None and tail.count else None)
            else:
                source = known
                self.acknowledged = Anchor(known, end)
        self._boundaries = {}
        self.fetch_offset = self.process_offset = source
        self.deep = False
        self.refused = False
        self.obstacle = None
        self.state, self.reason = "copying", None

    def _check_tail(self, end: int, tail: Batch | None) -> None:
        """Our batches carry our producer id and their target offset as sequence: any other is foreign."""
        if tail is None:
            return
        ours = self.assignment.producer_id
        if tail.producer_id != ours:
            raise PartitionStoppedError(
                f"remote topic {self.assignment.target}: the last batch, at offset {tail.base_offset}, was written by "
                f"producer {tail.producer_id}, not by this flow ({ours}): stop the other writer, and delete what it "
                "wrote or choose another name for the remote topic"
            )
        after = (tail.base_sequence + tail.last_offset_delta + 1) % SEQUENCE_MODULUS
        if after != end % SEQUENCE_MODULUS:
            raise PartitionStoppedError(
                f"remote topic {self.assignment.target} ends at {end}, but its last batch's sequences end at {after}: "
                "records are missing or foreign ones stand between ours; compare it with the source before going on"
            )

    # ---- the source

    @property
    def wants_fetch(self) -> bool:
        """Whether the partition takes part in the next fetch."""
        return self.fetchable and self.buffered_bytes < self.buffer_limit_bytes

    @property
    def fetchable(self) -> bool:
        """Whether it would be fetched if there were room for it."""
        return self.state == "copying" and not self.draining and self.obstacle is None

    def received(self, records: memoryview) -> list[Batch]:
        """Split fetched bytes and move the fetch offset on: the next fetch can go out before they are processed.

        Raises:
            CorruptBatchError: The bytes are no record batches.
        """
        batches = iter_batches(records) if len(records) else []
        if batches:
            self.fetch_offset = max(self.fetch_offset, batches[-1].next_offset)
        return batches

    def process(self, batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]) -> None:
        """Select, check and rewrite batches that ``received`` returned; they end up in ``ready``.

        Raises:
            CorruptBatchError: A checksum is wrong; nothing of that batch was taken over.
            RecordTooLargeError: A single record is larger than the target takes.
            PartitionStoppedError: What the target holds is not what the source says.
        """
        select = CommittedOnly(aborted if self.read_committed else ())
        for batch in batches:
            if batch.next_offset <= self.process_offset:
                select.copies(batch)
                continue
            verify(batch)
            if not select.copies(batch):
                self._hole(batch.next_offset)
            elif self._walk is not None:
                self._skip(batch, self._walk)
            else:
                self._take(batch, self.process_offset)
            self.process_offset = batch.next_offset

    def _take(self, batch: Batch, position: int) -> None:
        """Queue a batch: as it is where that is right, else repacked."""
        assignment = self.assignment
        codec = assignment.compress_with
        if codec is not None and batch.magic == 2 and batch.codec == "none":
            batch = compress_batch(batch, codec)
        if needs_repack(batch, position, assignment.max_message_bytes) is None:
            self._queue(batch, batch.next_offset)
            return
        pieces = repack(batch, from_offset=position, max_batch_bytes=assignment.max_message_bytes)
        for piece in pieces:
            self._queue(piece.batch, piece.next_source_offset)
        self._hole(batch.next_offset)

    def _queue(self, batch: Batch, source_next: int) -> None:
        behind = self.ready[-1] if self.ready else self.in_flight[-1] if self.in_flight else None
        target = behind.target_offset + behind.count if behind else self.acknowledged.target_offset
        rewrite(batch, self.assignment.producer_id, self.assignment.producer_epoch, target % SEQUENCE_MODULUS)
        size = len(batch.view)
        self.ready.append(Outgoing(batch.view, target, batch.count, source_next, batch.max_timestamp, size))
        self.buffered_bytes += size
        self.budget.used_bytes += size

    def _hole(self, source_next: int) -> None:
        """Source offsets without a record to copy: the position moves over them once what is before them is there."""
        last = self.ready[-1] if self.ready else self.in_flight[-1] if self.in_flight else None
        if last is not None:
            last.source_next = max(last.source_next, source_next)
        elif self._walk is None:
            self.acknowledged = Anchor(
                max(source_next, self.acknowledged.source_offset), self.acknowledged.target_offset
            )

    def _skip(self, batch: Batch, walk: Walk) -> None:
        """Pass over records that the target already has; take what lies behind them."""
        whole = batch.magic == 2 and batch.base_offset >= self.process_offset
        if whole and walk.records > batch.count:
            walk.records -= batch.count
            return
        records = [record for record in records_of(batch) if record.offset >= self.process_offset]
        if walk.records > len(records):
            walk.records -= len(records)
            return
        last = records[walk.records - 1]
        if walk.tail is not None and last.tail != walk.tail.tail:
            raise PartitionStoppedError(
                f"remote topic {self.assignment.target}: its last record is not the source's at offset {last.offset}, "
                "where the copy should have ended: the source was compacted or recreated in between; compare both "
                "before going on"
            )
        done = last.offset + 1 if walk.records < len(records) else batch.next_offset
        self._walk = None
        self.acknowledged = Anchor(done, walk.target_end)
        if done < batch.next_offset:
            self._take(batch, done)

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

    def answered(self, base_offset: int) -> None:
        """The oldest batch in flight was committed at ``base_offset``.

        Raises:
            PartitionStoppedError: It is not where it belongs: somebody else writes, or a batch before it failed.
        """
        outgoing = self.in_flight.popleft()
        self._release(outgoing)
        if base_offset != outgoing.target_offset:
            raise PartitionStoppedError(
                f"remote topic {self.assignment.target}: a batch meant for offset {outgoing.target_offset} was written "
                f"at {base_offset}: somebody else writes to this topic, or it was truncated; compare it with the source"
            )
        if self.refused:
            # Where it belongs, behind one that was refused: another copier of this flow was there before us.
            return
        self.deep = True
        self.acknowledged = Anchor(outgoing.source_next, outgoing.target_offset + outgoing.count)
        progress = self.progress
        progress.records += outgoing.count
        progress.bytes += outgoing.size_bytes
        progress.last_timestamp_ms = max(progress.last_timestamp_ms, outgoing.max_timestamp)

    def failed(self) -> None:
        """The oldest batch in flight was refused."""
        self._remember()
        self._release(self.in_flight.popleft())
        self.refused = True
        self.rewind("stopped" if self.state == "stopped" else "establishing", self.reason)

    def lost(self) -> None:
        """What became of the batches in flight will never be known from here: the connection is gone."""
        self._remember()
        while self.in_flight:
            self._release(self.in_flight.popleft())
        self.rewind("stopped" if self.state == "stopped" else "establishing", self.reason)

    def rewind(self, state: PartitionState, reason: str | None) -> None:
        """Drop what is buffered and go back to what the target will say. Answers under way are still awaited."""
        while self.ready:
            self._release(self.ready.popleft())
        self.state, self.reason = state, reason
        self.deep = False

    def _remember(self) -> None:
        """Keep which source position belongs to each target end that batches in flight may have brought about."""
        for outgoing in self.in_flight:
            self._boundaries[outgoing.target_offset + outgoing.count] = outgoing.source_next

    def _release(self, outgoing: Outgoing) -> None:
        self.buffered_bytes -= outgoing.size_bytes
        self.budget.used_bytes -= outgoing.size_bytes

    # ---- what is seen of it

    @property
    def drained(self) -> bool:
        """Whether nothing is on its way any more."""
        return not self.in_flight and (not self.ready or self.state != "copying")

    def report(self) -> PartitionReport:
        """The partition's state, for the coordinator."""
        progress = self.progress
        return PartitionReport(
            partition=self.assignment.partition,
            epoch=self.assignment.epoch,
            state=self.state,
            reason=self.reason,
            anchor=self.acknowledged,
            source_end=self.source_end,
            high_watermark=self.high_watermark,
            records=progress.records,
            bytes=progress.bytes,
            last_timestamp_ms=progress.last_timestamp_ms,
            bytes_per_record=progress.bytes / progress.records if progress.records else 0.0,
        )
