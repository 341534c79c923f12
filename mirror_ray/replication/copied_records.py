"""How many records of ours the target holds behind an anchor, by what was read of its log. Pure.

The sequences of our newest batch there say it, as long as that one is there and is our newest. Where offsets behind it
hold no batch any more (retention, DeleteRecords, cleaning), ours may have been there; where the log has lost its end
and grown again, ours may be gone that were acknowledged. Then the broker's own memory of our producer decides, and what
was sent; where neither does, nothing is guessed: the partition stops.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirror_ray.model.assignment import NO_END, Assignment
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLog:
    """What was read of a remote partition behind an anchor, at one moment.

    Where others may have written too (``to_be_scanned``), ``tail`` is the newest batch of ours and ``stranger`` the
    first one of somebody else that was not accepted; else ``tail`` is the last batch, whoever wrote it.
    """

    #: The leader's log end; the high watermark had reached it.
    end: int
    #: The leader's epoch; -1 for not known.
    epoch: int = -1
    #: None: there is none behind the anchor, or it was removed.
    tail: RecordBatch | None = None
    stranger: RecordBatch | None = None
    #: Where it was scanned: every offset from here to the end is in a batch that is there.
    whole_from: int = 0
    #: The log is the one that held the anchor up to here at least: it may have lost its end there, and grown again.
    agrees_to: int = NO_END
    #: The next sequence of our producer, as the broker remembers it; None: it does not, or was not asked.
    remembered: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRecords:
    """What the copier knows of what it has sent since the anchor."""

    #: Nothing at all, nor has anybody else of this flow.
    nothing: bool = False
    #: A batch that ends just where the target ends.
    up_to_end: bool = False


_NOT_KNOWN = SentRecords()


def to_be_scanned(assignment: Assignment, anchor: OffsetPair) -> bool:
    """Whether batches of others are expected behind the anchor, so that ours must be looked for."""
    return assignment.producer_id >= 0 and (assignment.shared or assignment.foreign_to > anchor.target_offset)


def scanned_from(anchor: OffsetPair, log: TargetLog) -> int:
    """From where on the log is to be scanned: what is ours before the anchor shows that it was not lost."""
    return min(anchor.target_offset, log.agrees_to)


def wants_memory(anchor: OffsetPair, log: TargetLog, assignment: Assignment) -> bool:
    """Whether what was read does not decide, so that the broker's memory of our producer is wanted."""
    if assignment.producer_id < 0 or log.end < anchor.target_offset:
        return False
    if to_be_scanned(assignment, anchor):
        return (assignment.shared or log.stranger is None) and not _decides(anchor, log)
    return log.end > anchor.target_offset and log.tail is None


def copied_since(anchor: OffsetPair, log: TargetLog, assignment: Assignment, sent: SentRecords = _NOT_KNOWN) -> int:
    """How many records of ours the target holds since the anchor.

    Without a producer id (at least once) everything behind the anchor of an exclusive topic is believed to be ours, as
    long as its last record can be compared with the source's; nothing in a shared one, or where it was removed.

    Raises:
        Troubled: target_truncated, target_foreign or copy_lost.
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
    """The batch that ends with the last record that was copied before ``reached``; None: it is not there any more."""
    if log.tail is None or assignment.producer_id < 0 or _next_sequence(log.tail) == reached.next_sequence:
        return log.tail
    return None


def _nothing_since(anchor: OffsetPair, log: TargetLog, assignment: Assignment) -> int:
    """The end is where it was left; the last batch, where it is known and ours, must be the one that was left, too."""
    if log.tail is None:
        return 0
    if log.tail.producer_id == assignment.producer_id and _next_sequence(log.tail) != anchor.next_sequence:
        text = f"remote topic {assignment.target} ends at {log.end}, as it did, but in another batch: it lost data"
        raise ReplicationFault(faults.copy_lost(anchor, text))
    return 0


def _emptied(anchor: OffsetPair, log: TargetLog, assignment: Assignment, sent: SentRecords) -> int:
    """The log goes on behind the anchor, and holds nothing: what was there may have been ours, or not."""
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
    """The number of offsets behind the anchor, if ``following``, our next sequence, says that all of them are ours."""
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
    """Of a topic that others write to, where nothing is known by offsets."""
    if log.stranger is not None and not assignment.shared:
        stranger = log.stranger
        who = f"producer {stranger.producer_id}"
        raise ReplicationFault(faults.foreign(assignment, stranger.base_offset, log.end, who))
    room = log.end - anchor.target_offset
    ours = 0 if log.tail is None else _sequences_since(anchor, _next_sequence(log.tail), room)
    if not _decides(anchor, log):
        if log.remembered is not None:
            ours = _sequences_since(anchor, log.remembered, room)
        elif log.agrees_to < anchor.target_offset:
            raise ReplicationFault(faults.lost_its_end(assignment, anchor, log.agrees_to))
        elif not sent.nothing:
            why = (
                f"others write to it too, records up to {log.whole_from} were removed or cleaned, and its broker does "
                "not remember our producer"
            )
            raise ReplicationFault(faults.unknown_place(assignment, anchor, why))
    if ours < 0:
        left_to = scanned_from(anchor, log) if log.tail is None else log.tail.next_offset
        raise ReplicationFault(faults.lost_ours(assignment, anchor, -ours, left_to))
    return ours


def _decides(anchor: OffsetPair, log: TargetLog) -> bool:
    """Whether the newest batch of ours that is there is the newest one for sure; or there was none for sure."""
    if log.tail is not None:
        return log.whole_from <= log.tail.next_offset
    return log.whole_from <= anchor.target_offset <= log.agrees_to


def _next_sequence(tail: RecordBatch) -> int:
    """Not by counts, which cleaning shrinks."""
    return (tail.base_sequence + tail.last_offset_delta + 1) % SEQUENCE_MODULUS


def _sequences_since(anchor: OffsetPair, following: int, room: int) -> int:
    """How many sequences lie between; below 0 where the anchor's is the later one.

    Sequences wrap: half of them or more count as forward only where the log has ``room`` for as many records.
    """
    forward = (following - anchor.next_sequence) % SEQUENCE_MODULUS
    return forward if forward < SEQUENCE_MODULUS // 2 or forward <= room else forward - SEQUENCE_MODULUS
