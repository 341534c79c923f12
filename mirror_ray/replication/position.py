"""The replication position of one partition, and how it is found again.

After anything unexpected the target's log end is read. The records that it holds behind the acknowledged pair are
counted (``target_log``). The source position that belongs to its end is remembered, or it is found by passing over as
many records of the source (``realignment``). Where the source was cleaned meanwhile, numbers do not suffice: the
target's records are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.partition_transforms import PartitionTransforms
from mirror_ray.replication.preserved_walk import PreservedWalk
from mirror_ray.replication.realignment import Realignment
from mirror_ray.replication.target_log import SentRecords, TargetContents, TargetLog, copied_since


@dataclass(slots=True)
class ReplicationPosition:
    """Once it is ``known``, what the source has next is to be copied."""

    assignment: Assignment
    #: The pair of source position and target end that the target has committed last.
    acknowledged: OffsetPair
    #: Whether the target's records are to be compared with the source's, so that ``find`` wants them.
    wants_contents: bool = False
    #: While source records that the target holds already are passed over.
    _realignment: Realignment | None = None
    #: Whether nothing of ours lies behind ``acknowledged`` on the target, but for what was sent from here since.
    _complete: bool = field(init=False)
    #: The target's leader epoch when its end was read last.
    _target_epoch: int = -1

    def __post_init__(self) -> None:
        self._complete = self.assignment.settled

    @property
    def known(self) -> bool:
        """Whether ``acknowledged`` belongs to the target's log end, as it was read last."""
        return self._realignment is None

    @property
    def exclusive(self) -> bool:
        """Whether every batch must land where it was meant to."""
        return not self.assignment.shared and self.assignment.producer_id >= 0

    # ---- while batches are copied

    def committed(self, last: OutgoingBatch) -> None:
        """Move to the end of this batch, which the target has committed with all before it."""
        end = last.target_offset + last.count
        self.acknowledged = self._pair(last.source_next, end, last.next_sequence, last.source_epoch)

    def skip_gap(self, next_offset: int, epoch: int) -> None:
        """Move over source offsets without a record to copy; ``epoch`` is the leader's at ``next_offset``."""
        now = self.acknowledged
        self.acknowledged = replace(now, source_offset=max(next_offset, now.source_offset), source_epoch=epoch)

    def filled(self, end: int, epoch: int) -> None:
        """Move over a gap, where offsets are preserved: the target's log has come to ``end``, without a record.

        ``epoch`` is the source leader's of what follows the gap, -1 for not known: that of what lies before it may
        have ended in the gap, and then the source would seem to have lost what is behind.
        """
        now = self.acknowledged
        self.acknowledged = replace(
            now,
            source_offset=max(end, now.source_offset),
            target_offset=end,
            sequence=now.next_sequence,
            source_epoch=epoch if end > now.source_offset else now.source_epoch,
        )

    # ---- what the target says

    def find(
        self,
        log: TargetLog,
        contents: TargetContents | None,
        boundary: Callable[[int], tuple[int, int] | None],
        transforms: PartitionTransforms | None,
        *,
        unanswered: bool = True,
    ) -> None:
        """Find the position that belongs to the target's log end.

        It is known afterwards if nothing of ours is behind the acknowledged pair, or if ``boundary`` remembers it, or
        if ``transforms`` are not pure, so that all is copied again. Else source records have to be passed over.

        Args:
            log: What was read of the target's log.
            contents: The target's records since the acknowledged pair, where ``wants_contents``.
            boundary: Remembered source position and leader epoch by the target's next sequence.
            transforms: What made the target's records of the source's, if anything.
            unanswered: Whether it is not known what became of something that was sent.

        Raises:
            ReplicationFault: The target is not what we left.
        """
        self._realignment = None
        anchor = self.acknowledged
        at_end = boundary((anchor.next_sequence + log.end - anchor.target_offset) % SEQUENCE_MODULUS)
        sent = SentRecords(nothing=self._complete and not unanswered, up_to_end=at_end is not None)
        ours = copied_since(anchor, log, self.assignment, sent)
        self._target_epoch = log.epoch
        if log.end <= anchor.target_offset:
            self._found(replace(anchor, target_epoch=log.epoch))
            return
        if self.assignment.preserve_offsets:
            self._find_preserved(log, ours, boundary, transforms)
            return
        after = (anchor.next_sequence + ours) % SEQUENCE_MODULUS
        remembered = boundary(after)
        source, epoch = remembered or (anchor.source_offset, anchor.source_epoch)
        reached = self._pair(source, log.end, after, epoch)
        copies_again = transforms is not None and not transforms.repeats
        if ours == 0 or remembered is not None or copies_again:
            self.acknowledged, self._complete = reached, True
        else:
            self._complete = False
            self._realignment = Realignment.over(
                self.assignment, anchor, reached, ours, contents or log, transforms=transforms
            )

    def _find_preserved(
        self,
        log: TargetLog,
        ours: int,
        boundary: Callable[[int], tuple[int, int] | None],
        transforms: PartitionTransforms | None,
    ) -> None:
        """Where offsets are preserved, the position is the log end, once the source shows that this is so."""
        anchor, end = self.acknowledged, log.end
        filled = [gap for gap in log.filled if gap.end > anchor.target_offset]
        after = (anchor.next_sequence + ours) % SEQUENCE_MODULUS
        source, epoch = boundary(after) or (anchor.source_offset, anchor.source_epoch)
        if source >= end:
            self.acknowledged, self._complete = self._pair(source, end, after, epoch), True
            return
        repeats = transforms is None or transforms.repeats
        newest = log.tail if repeats and ours else None
        walk = PreservedWalk(anchor, end, newest, filled, self.assignment.skip, transforms)
        reached, records = self._pair(end, end, after, -1), end - anchor.source_offset
        self._complete = False
        self._realignment = Realignment(self.assignment, anchor, reached, records, walk)

    # ---- what the source has

    def passed(self, batch: RecordBatch, position: int) -> bool:
        """Pass over what the target holds of a batch from ``position`` on.

        Returns:
            Whether the position is known now; then copying goes on from it, inside the batch or behind it.

        Raises:
            CleanedError: The source does not hold what was copied from it.
            ReplicationFault: source_truncated, as ``passed_all``.
        """
        if self._realignment is not None:
            reached = self._realignment.passed(batch, position)
            if reached is not None:
                self._found(self._realignment.anchor(reached, batch.partition_leader_epoch))
        return self.known

    def passed_all(self, position: int, epoch: int) -> None:
        """The source has nothing more at ``position``, with its leader's ``epoch``: the position is known.

        It may be a smaller one, if records that were passed over have to be copied after all.

        Raises:
            CleanedError: There should have been more.
            ReplicationFault: source_truncated: there is no room before the position for all copied records.
        """
        if self._realignment is not None:
            reached = self._realignment.ended(position)
            self._found(self._realignment.anchor(reached, epoch if reached == position else -1))

    def cleaned(self, *, transformed: bool) -> None:
        """The source was cleaned since it was copied: have its records compared with the target's.

        A flow that copies at least once copies them again instead: then the position is known.

        Raises:
            ReplicationFault: They were compared already.
        """
        anchor = self.acknowledged
        if self.assignment.producer_id < 0:
            self._found(self._resume(anchor.source_offset, anchor.source_epoch))
        elif self.wants_contents:
            raise ReplicationFault(faults.not_recognised(self.assignment, anchor, transformed=transformed))
        else:
            self.wants_contents = True

    def within(self, position: int, start: int, end: int) -> int:
        """Return where to read on from ``position``, within the source's log from ``start`` to ``end``.

        Raises:
            CleanedError: What was removed before ``start`` can't be counted.
            ReplicationFault: source_truncated, source_removed: the position lies outside.
        """
        if position > end:
            raise ReplicationFault(self.source_truncated(position, end))
        if position >= start:
            return position
        if self._realignment is None:
            source = self.assignment.partition.source
            raise ReplicationFault(faults.source_removed(source, position, self._resume(start)))
        return self._realignment.removed_below(start)

    def source_truncated(self, position: int, end: int) -> PartitionFault:
        """Describe a source whose log, from ``end`` on, is not the one that was read up to ``position``."""
        return faults.source_truncated(self.assignment.partition.source, position, self._resume(end))

    def _found(self, anchor: OffsetPair) -> None:
        self._realignment = None
        self.wants_contents = False
        self._complete = True
        self.acknowledged = anchor

    def _pair(self, source: int, target: int, sequence: int, epoch: int) -> OffsetPair:
        own = self.exclusive and self.acknowledged.sequence is None and sequence == target % SEQUENCE_MODULUS
        return OffsetPair(source, target, None if own else sequence, epoch, self._target_epoch)

    def _resume(self, source_offset: int, epoch: int = -1) -> OffsetPair:
        """Pair a source offset with the target's log end."""
        if self._realignment is not None:
            return self._realignment.anchor(source_offset, epoch)
        return replace(self.acknowledged, source_offset=source_offset, source_epoch=epoch)
