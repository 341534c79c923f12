"""Checking, where offsets are preserved, that the target's log up to its end is what the source has at these offsets.

The position is the log end: nothing is counted. Records that cleaning removed from the source meanwhile don't matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.offset_gaps import OffsetGap
from mirror_ray.replication.partition_transforms import PartitionTransforms, copied_of
from mirror_ray.replication.target_log import content_of


@dataclass(slots=True)
class PreservedWalk:
    """Passes over the source's batches up to the target's log end."""

    #: The acknowledged pair, behind which all this is.
    start: OffsetPair
    end: int
    #: Our newest batch on the target; None: it was removed, or there was none, or can't be compared.
    newest: RecordBatch | None
    #: Offsets that markers and fillers take on the target, in order: the source must have no record there.
    filled: Sequence[OffsetGap]
    skip: Sequence[tuple[int, int]] = ()
    transforms: PartitionTransforms | None = None

    def passed(self, batch: RecordBatch, position: int) -> int | None:
        """Pass over a batch from ``position`` on.

        Returns:
            The target's log end, once all before it was passed over.

        Raises:
            ReplicationFault: copy_lost: the two logs differ there.
        """
        if self._concerns(batch):
            for record in copied_of(batch, position, self.skip, self.transforms):
                self._check(record)
        return self.end if batch.next_offset >= self.end else None

    def ended(self, position: int) -> int:
        """The source has nothing more at ``position``, which may be before the target's log end."""
        return min(position, self.end)

    def _concerns(self, batch: RecordBatch) -> bool:
        """Whether its records are to be looked at: the range of most batches says that nothing is wrong."""
        newest = self.newest
        holds_last = newest is not None and batch.base_offset <= newest.last_offset < batch.next_offset
        return holds_last or any(gap.start < batch.next_offset and gap.end > batch.base_offset for gap in self.filled)

    def _check(self, record: DecodedRecord) -> None:
        newest, offset = self.newest, record.offset
        if any(gap.start <= offset < gap.end for gap in self.filled):
            text = f"the source has a record at offset {offset}, where its remote topic has a marker or a filler"
            raise ReplicationFault(faults.copy_lost(self.start, text))
        if newest is None or offset != newest.last_offset:
            return
        timed = not newest.is_log_append_time
        last = records_of(newest)
        if last and last[-1].offset == offset and content_of(last[-1], timed=timed) != content_of(record, timed=timed):
            text = f"the record at offset {offset} is another one on the source than on its remote topic"
            raise ReplicationFault(faults.copy_lost(self.start, text))
