"""On the way over records that the target holds already, to where copying goes on. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.replication import faults
from mirror_ray.replication.copied_records import TargetLog, last_copied, to_be_scanned
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.partition_transforms import PartitionTransforms
from mirror_ray.replication.recovery import CleanedError, ContentMatch, SourceWalk, TargetContents


@dataclass(slots=True)
class Realignment:
    """From ``start``, the pair that was acknowledged last, over as many ``records`` as the target holds behind it."""

    assignment: Assignment
    start: OffsetPair
    #: The target's end, and the next sequence there. The source position that belongs to it is what is looked for.
    end: OffsetPair
    records: int
    way: SourceWalk | ContentMatch

    @staticmethod
    def over(
        assignment: Assignment,
        start: OffsetPair,
        end: OffsetPair,
        records: int,
        by: TargetLog | TargetContents,
        *,
        transforms: PartitionTransforms | None = None,
    ) -> Realignment:
        """By number, or by ``TargetContents`` where the source was cleaned; the target may have been, too.

        ``transforms``: what made its records of the source's; then it must have all of them.

        Raises:
            Troubled: There are more contents than records, or none.
        """
        skip = assignment.skip
        if isinstance(by, TargetLog):
            tail = last_copied(by, assignment, end)
            walk = SourceWalk(records, tail, skip, transforms, counted=assignment.producer_id >= 0)
            return Realignment(assignment, start, end, records, walk)
        sparse = len(by.records) < records
        # What cleaning took of ours may have newer values of others behind it, which the source does not have.
        guessed = sparse and (transforms is not None or to_be_scanned(assignment, start))
        if not 0 < len(by.records) <= records or guessed:
            found = f"{records} records were copied behind offset {start.target_offset} and {len(by.records)} are there"
            raise ReplicationFault(faults.unknown_place(assignment, start, found))
        return Realignment(assignment, start, end, records, ContentMatch(by, sparse, skip, transforms=transforms))

    def passed(self, batch: RecordBatch, position: int) -> int | None:
        """Pass over a batch of the source from ``position`` on; the position to copy from once all was passed over.

        Raises:
            CleanedError: The source does not hold what was copied from it.
            Troubled: source_truncated, as ``ended``.
        """
        reached = self.way.passed(batch, position)
        return None if reached is None else self._checked(reached)

    def ended(self, position: int) -> int:
        """The source has nothing more at ``position``; returns the position to copy from, which may be before it.

        Raises:
            CleanedError: There should have been more.
            Troubled: source_truncated: there is no room before the position for all the records that were copied.
        """
        return self._checked(self.way.ended(position))

    def removed_below(self, start: int) -> int:
        """The source begins at ``start``, behind where we are; returns where to go on passing.

        Raises:
            CleanedError: What was removed can't be counted.
        """
        if not isinstance(self.way, ContentMatch):
            raise CleanedError
        self.way.late = True
        return start

    def anchor(self, position: int, epoch: int = -1) -> OffsetPair:
        """The pair of a source position and the target's end."""
        return replace(self.end, source_offset=position, source_epoch=epoch)

    def _checked(self, position: int) -> int:
        copied_to = self.start.source_offset + self.records
        if position < copied_to:
            raise ReplicationFault(
                faults.source_truncated(self.assignment.partition.source, copied_to, self.anchor(position))
            )
        return position
