"""What was read of a target partition's log, and how many records of ours it holds behind an offset pair.

The sequences of our newest batch there say how many, as long as that batch is there and is our newest. Where offsets
behind it hold no batch any more (retention, DeleteRecords, cleaning), they may have held ours; where the log has lost
its end and grown again, acknowledged records may be lost. Then the broker's state of our producer decides, and what was
sent; where neither does, nothing is guessed: the partition stops.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mirror_ray.model.assignment import NO_END, Assignment
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.records.filler import is_filler
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.offset_gaps import OffsetGap


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLog:
    """What was read of a remote partition behind an anchor, at one moment.

    Where others may have written, too (``to_be_scanned``), ``tail`` is the newest batch of ours and ``foreign`` the
    first batch of somebody else that was not accepted; else ``tail`` is the last batch, whoever wrote it.
    """

    #: The leader's log end; the high watermark had reached it.
    end: int
    #: The leader's epoch; -1 for not known.
    epoch: int = -1
    #: None: there is none behind the acknowledged pair, or it was removed.
    tail: RecordBatch | None = None
    foreign: RecordBatch | None = None
    #: Where it was scanned: every offset from here to the end is in a batch that still exists.
    complete_from: int = 0
    #: Up to here, at least, the log is the one that held the pair: it may have lost its end there, and grown again.
    agrees_to: int = NO_END
    #: The next sequence in the broker's state of our producer; None: it has none, or was not asked.
    remembered: int | None = None
    #: Where offsets are preserved: what markers and fillers take, in order.
    filled: tuple[OffsetGap, ...] = ()


@dataclass(slots=True)
class TargetContents:
    """Contents of all records of ours that the target got since the acknowledged pair, oldest first."""

    records: list[bytes] = field(default_factory=list)
    #: Whether timestamps are part of them: a target with LogAppendTime has its own.
    timed: bool = True

    def add(self, batch: RecordBatch) -> None:
        """Take the next batch of ours."""
        if not self.records:
            self.timed = not batch.is_log_append_time
        self.records += [content_of(record, timed=self.timed) for record in records_of(batch)]


def content_of(record: DecodedRecord, *, timed: bool) -> bytes:
    """Digest what makes two records equal, wherever they are: timestamp, key, value and headers, in 16 bytes."""
    digest = hashlib.blake2b(record.tail, digest_size=16)
    if timed:
        digest.update(b"%d" % record.timestamp)
    return digest.digest()


@dataclass(slots=True)
class TargetScan:
    """Takes all batches from ``begin`` on, in order; ``contents``, if given, gets our records behind ``anchor``."""

    assignment: Assignment
    anchor: OffsetPair
    begin: int
    contents: TargetContents | None = None
    newest: RecordBatch | None = None
    foreign: RecordBatch | None = None
    filled: list[OffsetGap] = field(default_factory=list)
    #: Every offset from here to ``_next`` is in a batch.
    _complete_from: int = field(init=False)
    _next: int = field(init=False)

    def __post_init__(self) -> None:
        self._complete_from = self._next = self.begin

    def add(self, batches: Iterable[RecordBatch]) -> None:
        """Take the next batches."""
        for batch in batches:
            if batch.base_offset > self._next:
                self._complete_from = batch.base_offset
            self._next = batch.next_offset
            if batch.producer_id == self.assignment.producer_id:
                self.newest = batch
                if self.contents is not None and batch.next_offset > self.anchor.target_offset:
                    self.contents.add(batch)
            elif self.assignment.preserve_offsets and (batch.is_control or is_filler(batch)):
                self.filled.append(OffsetGap(batch.base_offset, batch.next_offset))
            elif self.foreign is None and batch.base_offset >= self.assignment.foreign_to:
                self.foreign = batch

    def describe(self, log: TargetLog) -> TargetLog:
        """Complete ``log`` by what was found."""
        complete_from = self._complete_from if self._next >= log.end else log.end
        return replace(
            log, tail=self.newest, foreign=self.foreign, complete_from=complete_from, filled=tuple(self.filled)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRecords:
    """What this replicator knows of what was sent since the acknowledged pair."""

    #: Nothing was sent, by any replicator.
    nothing: bool = False
    #: A batch was sent that ends where the target ends.
    up_to_end: bool = False


_NOT_KNOWN = SentRecords()


def to_be_scanned(assignment: Assignment, anchor: OffsetPair) -> bool:
    """Whether batches of others, or markers, are expected behind ``anchor``, so that ours must be searched for."""
    others = assignment.shared or assignment.foreign_to > anchor.target_offset
    return assignment.producer_id >= 0 and (others or assignment.preserve_offsets)


def scan_start(anchor: OffsetPair, log: TargetLog) -> int:
    """Return the target offset to scan from: records of ours before the pair show that they were not lost."""
    return min(anchor.target_offset, log.agrees_to)


def wants_producer_state(anchor: OffsetPair, log: TargetLog, assignment: Assignment) -> bool:
    """Whether the log that was read does not suffice, so that the broker's state of our producer is wanted."""
    if assignment.producer_id < 0 or log.end < anchor.target_offset:
        return False
    if to_be_scanned(assignment, anchor):
        return (assignment.shared or log.foreign is None) and not _decides(anchor, log)
    return log.end > anchor.target_offset and log.tail is None


def copied_since(anchor: OffsetPair, log: TargetLog, assignment: Assignment, sent: SentRecords = _NOT_KNOWN) -> int:
    """Count the records of ours that the target holds behind ``anchor``.

    Without a producer id (at least once) everything behind ``anchor`` in an exclusive topic is believed to be ours, as
    long as its last record can be compared with the source's; nothing in a shared one, or where it was removed.

    Raises:
        ReplicationFault: target_truncated, target_foreign or copy_lost.
    """
    start, end = anchor.target_offset, log.end
    if end < start:
        raise ReplicationFault(faults.truncated(assignment.target, anchor, end))
    if assignment.producer_id < 0:
        return 0 if assignment.shared or log.tail is None else end - start
    if to_be_scanned(assignment, anchor):
        return _scanned(anchor, log, assignment, sent)
    if end == start:
        return _nothing_since(anchor, log, assignment)
    if log.tail is None:
        return _emptied(anchor, log, assignment, sent)
    if log.tail.producer_id != assignment.producer_id:
        raise ReplicationFault(
            faults.foreign(assignment, log.tail.base_offset, end, f"producer {log.tail.producer_id}")
        )
    return _all_ours(anchor, log, assignment, _next_sequence(log.tail))


def last_copied(log: TargetLog, assignment: Assignment, reached: OffsetPair) -> RecordBatch | None:
    """Return the batch that ends with the last record copied before ``reached``; None: it was removed."""
    if log.tail is None or assignment.producer_id < 0 or _next_sequence(log.tail) == reached.next_sequence:
        return log.tail
    return None


def _nothing_since(anchor: OffsetPair, log: TargetLog, assignment: Assignment) -> int:
    """Check that the last batch, where it is known and ours, is the one that was acknowledged last."""
    if log.tail is None:
        return 0
    if log.tail.producer_id == assignment.producer_id and _next_sequence(log.tail) != anchor.next_sequence:
        text = f"remote topic {assignment.target} ends at {log.end}, as it did, but in another batch: it lost data"
        raise ReplicationFault(faults.copy_lost(anchor, text))
    return 0


def _emptied(anchor: OffsetPair, log: TargetLog, assignment: Assignment, sent: SentRecords) -> int:
    """Count where the batches behind ``anchor`` were removed: they may have been ours, or not."""
    start, end = anchor.target_offset, log.end
    if log.remembered is not None:
        return _all_ours(anchor, log, assignment, log.remembered)
    if sent.nothing:
        raise ReplicationFault(faults.foreign(assignment, start, end, "somebody else"))
    if sent.up_to_end:
        return end - start
    why = f"its records from {start} to {end} were removed, and its broker does not remember who wrote them"
    raise ReplicationFault(faults.unknown_place(assignment, anchor, why))


def _all_ours(anchor: OffsetPair, log: TargetLog, assignment: Assignment, following: int) -> int:
    """Count the offsets behind ``anchor``, if ``following``, our next sequence, shows that all of them are ours."""
    behind = log.end - anchor.target_offset
    surplus = _sequences_since(anchor, following - behind, room=0)
    if surplus == 0:
        return behind
    if 0 < -surplus <= behind:
        raise ReplicationFault(faults.foreign(assignment, anchor.target_offset, log.end, "somebody else"))
    text = (
        f"remote topic {assignment.target} ends at {log.end}, but the sequences of its producer end {abs(surplus)} "
        f"{'further on' if surplus > 0 else 'before its last known pair'}: records are missing"
    )
    raise ReplicationFault(faults.copy_lost(anchor, text))


def _scanned(anchor: OffsetPair, log: TargetLog, assignment: Assignment, sent: SentRecords) -> int:
    """Count in a topic that others write to, where offsets alone say nothing."""
    if log.foreign is not None and not assignment.shared:
        foreign = log.foreign
        who = f"producer {foreign.producer_id}"
        raise ReplicationFault(faults.foreign(assignment, foreign.base_offset, log.end, who))
    room = log.end - anchor.target_offset
    ours = 0 if log.tail is None else _sequences_since(anchor, _next_sequence(log.tail), room)
    if not _decides(anchor, log):
        if log.remembered is not None:
            ours = _sequences_since(anchor, log.remembered, room)
        elif log.agrees_to < anchor.target_offset:
            raise ReplicationFault(faults.lost_its_end(assignment, anchor, log.agrees_to))
        elif not sent.nothing and not assignment.preserve_offsets:
            why = (
                f"others write to it too, records up to {log.complete_from} were removed or cleaned, and its broker "
                "does not remember our producer"
            )
            raise ReplicationFault(faults.unknown_place(assignment, anchor, why))
    if ours < 0:
        left_to = scan_start(anchor, log) if log.tail is None else log.tail.next_offset
        raise ReplicationFault(faults.lost_ours(assignment, anchor, -ours, left_to))
    if assignment.preserve_offsets:
        _check_places(anchor, log, assignment, ours)
    return ours


def _check_places(anchor: OffsetPair, log: TargetLog, assignment: Assignment, ours: int) -> None:
    """Check, where offsets are preserved, that our records and what fills gaps take just the offsets that there are.

    A broker that has forgotten our producer may have appended a batch in the place of one that failed, or twice.
    """
    start = anchor.target_offset
    room = log.end - start - sum(gap.end - max(gap.start, start) for gap in log.filled if gap.end > start)
    complete = log.complete_from <= start and assignment.foreign_to <= start
    if ours > room or (complete and ours < room):
        text = (
            f"remote topic {assignment.target} has room for {room} records behind offset {start}, and the sequences of "
            f"its producer say {ours}: records are missing, or there twice"
        )
        raise ReplicationFault(faults.copy_lost(anchor, text))


def _decides(anchor: OffsetPair, log: TargetLog) -> bool:
    """Whether it is certain that the newest batch of ours was found, or that there was none."""
    if log.tail is not None:
        return log.complete_from <= log.tail.next_offset
    return log.complete_from <= anchor.target_offset <= log.agrees_to


def _next_sequence(tail: RecordBatch) -> int:
    """Return the sequence behind a batch; not by its number of records, which cleaning reduces."""
    return (tail.base_sequence + tail.last_offset_delta + 1) % SEQUENCE_MODULUS


def _sequences_since(anchor: OffsetPair, following: int, room: int) -> int:
    """Count the sequences from ``anchor`` to ``following``; below 0 where the one of ``anchor`` is the later one.

    Sequences wrap: half of them or more count as forward only where the log has ``room`` for as many records.
    """
    forward = (following - anchor.next_sequence) % SEQUENCE_MODULUS
    return forward if forward < SEQUENCE_MODULUS // 2 or forward <= room else forward - SEQUENCE_MODULUS
