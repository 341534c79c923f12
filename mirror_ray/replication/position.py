"""Where a copy stands, and how that is found again from what target and source say. Pure.

After anything unexpected the target's log end is read. What it holds behind the last pair is counted (``counting``).
The source position that belongs to its end is remembered, or it is found by passing over as many records of the source
(``passing``). Where the source was cleaned meanwhile, numbers no longer tell, and the target's records are wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.replication import faults
from mirror_ray.replication.copied_records import SentRecords, TargetLog, copied_since
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.partition_transforms import PartitionTransforms
from mirror_ray.replication.realignment import Realignment
from mirror_ray.replication.recovery import TargetContents


@dataclass(slots=True)
class ReplicationPosition:
    """The place of one partition's copy: once it is ``known``, what the source has next is to be copied."""

    assignment: Assignment
    #: The pair (source position, target end) that the target has committed last.
    acknowledged: OffsetPair
    #: What the target holds is to be compared with the source: ``find`` wants its records.
    wants_contents: bool = False
    #: While records of the source are passed over, since the target holds them already.
    _passing: Realignment | None = None
    #: Whether all that is ours on the target lies before ``acknowledged``, but for what this copier has sent since.
    _complete: bool = field(init=False)
    #: The target's leader epoch when its end was read last.
    _target_epoch: int = -1

    def __post_init__(self) -> None:
        self._complete = self.assignment.settled

    @property
    def known(self) -> bool:
        """Whether ``acknowledged`` is the target's end, as far as it was read."""
        return self._passing is None

    @property
    def exclusive(self) -> bool:
        """Whether every batch must land where it was meant to."""
        return not self.assignment.shared and self.assignment.producer_id >= 0

    # ---- while batches are copied

    def committed(self, last: OutgoingBatch) -> None:
        """The target has all up to this batch."""
        end = last.target_offset + last.count
        self.acknowledged = self._pair(last.source_next, end, last.next_sequence, last.source_epoch)

    def passed_hole(self, next_offset: int, epoch: int) -> None:
        """Nothing is to be copied of the source before ``next_offset``; ``epoch``: its leader's, there."""
        now = self.acknowledged
        self.acknowledged = replace(now, source_offset=max(next_offset, now.source_offset), source_epoch=epoch)

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
        """The target's log is ``log``; ``contents`` of what it got since the pair, where ``wants_contents``.

        ``unanswered``: what became of something that was sent is not known.

        The place is known afterwards where nothing of ours is behind the pair, or where ``boundary`` remembers the
        source position and leader epoch that belong to the target's next sequence; or where ``transforms`` do not
        repeat themselves, so that all is copied again.

        Raises:
            Troubled: The target is not what we left.
        """
        self._passing = None
        anchor = self.acknowledged
        at_end = boundary((anchor.next_sequence + log.end - anchor.target_offset) % SEQUENCE_MODULUS)
        sent = SentRecords(nothing=self._complete and not unanswered, up_to_end=at_end is not None)
        ours = copied_since(anchor, log, self.assignment, sent)
        self._target_epoch = log.epoch
        if log.end <= anchor.target_offset:
            self._found(replace(anchor, target_epoch=log.epoch))
            return
        after = (anchor.next_sequence + ours) % SEQUENCE_MODULUS
        remembered = boundary(after)
        source, epoch = remembered or (anchor.source_offset, anchor.source_epoch)
        reached = self._pair(source, log.end, after, epoch)
        again = transforms is not None and not transforms.repeats
        if ours == 0 or remembered is not None or again:
            self.acknowledged, self._complete = reached, True
        else:
            by = contents or log
            self._complete = False
            self._passing = Realignment.over(self.assignment, anchor, reached, ours, by, transforms=transforms)

    # ---- what the source has

    def passed(self, batch: RecordBatch, position: int) -> bool:
        """Pass over what the target holds of a batch from ``position`` on.

        Returns:
            Whether the place is known now; then copying goes on from it, inside the batch or behind.

        Raises:
            CleanedError: The source does not hold what was copied from it.
            Troubled: source_truncated, as ``passed_all``.
        """
        if self._passing is not None:
            reached = self._passing.passed(batch, position)
            if reached is not None:
                self._found(self._passing.anchor(reached, batch.partition_leader_epoch))
        return self.known

    def passed_all(self, position: int, epoch: int) -> None:
        """The source has nothing more at ``position``, where its leader's epoch is ``epoch``: the place is known.

        It may be before that position, where records that were passed over have to be copied after all.

        Raises:
            CleanedError: There should have been more.
            Troubled: source_truncated: there is no room before the position for all the records that were copied.
        """
        if self._passing is not None:
            reached = self._passing.ended(position)
            self._found(self._passing.anchor(reached, epoch if reached == position else -1))

    def cleaned(self, *, transformed: bool) -> None:
        """The source is not what was copied from: compare its records with the target's; at least once: copy again.

        The place is known in the second case; in the first one the target is to be looked at again.

        Raises:
            Troubled: They were compared already.
        """
        anchor = self.acknowledged
        if self.assignment.producer_id < 0:
            self._found(self._resume(anchor.source_offset, anchor.source_epoch))
        elif self.wants_contents:
            raise ReplicationFault(faults.not_recognised(self.assignment, anchor, transformed=transformed))
        else:
            self.wants_contents = True

    def within(self, position: int, start: int, end: int) -> int:
        """Where to read on from ``position``: the source's log goes from ``start`` to ``end``.

        Raises:
            CleanedError: What was removed before ``start`` can't be counted.
            Troubled: source_truncated, source_removed: the position lies outside.
        """
        if position > end:
            raise ReplicationFault(self.source_truncated(position, end))
        if position >= start:
            return position
        if self._passing is None:
            source = self.assignment.partition.source
            raise ReplicationFault(faults.source_removed(source, position, self._resume(start)))
        return self._passing.removed_below(start)

    def source_truncated(self, position: int, end: int) -> PartitionFault:
        """The source's log is another one, from ``end`` on, than the one that was read up to ``position``."""
        return faults.source_truncated(self.assignment.partition.source, position, self._resume(end))

    def _found(self, anchor: OffsetPair) -> None:
        self._passing = None
        self.wants_contents = False
        self._complete = True
        self.acknowledged = anchor

    def _pair(self, source: int, target: int, sequence: int, epoch: int) -> OffsetPair:
        own = self.exclusive and self.acknowledged.sequence is None and sequence == target % SEQUENCE_MODULUS
        return OffsetPair(source, target, None if own else sequence, epoch, self._target_epoch)

    def _resume(self, source_offset: int, epoch: int = -1) -> OffsetPair:
        """The pair of a source offset and the target's end."""
        if self._passing is not None:
            return self._passing.anchor(source_offset, epoch)
        return replace(self.acknowledged, source_offset=source_offset, source_epoch=epoch)
