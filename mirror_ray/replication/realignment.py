"""Finding the source position that belongs to the target's log end, over the source records that the target holds.

``target_log`` counts those records. So many are passed over on the source, batch header by batch header, and the last
one must equal the target's last record (``SourceWalk``). Where the source was cleaned in between, so that the numbers
no longer fit, its records are compared with the target's (``ContentMatch``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, reaching_into, records_of
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.partition_transforms import PartitionTransforms, SchemaIdsWaitError, copied_of
from mirror_ray.replication.preserved_walk import PreservedWalk
from mirror_ray.replication.target_log import TargetContents, TargetLog, content_of, last_copied, to_be_scanned


class CleanedError(Exception):
    """The source does not hold the records that were copied from it: it was cleaned since."""


@dataclass(slots=True)
class SourceWalk:
    """Passes over as many source records as the target holds."""

    records: int
    #: The target's last batch: its last record must equal the last one passed over. None: it was removed.
    tail: RecordBatch | None
    #: Ranges of source offsets, the end not included, whose records were left out.
    skip: Sequence[tuple[int, int]] = ()
    #: What made the target's records of the source's, if anything.
    transforms: PartitionTransforms | None = None
    #: Whether sequences show that all of these records are ours; else the last one has to be compared.
    counted: bool = True
    #: Whether offset gaps were found, as cleaning leaves them.
    _gaps: bool = False

    def passed(self, batch: RecordBatch, position: int) -> int | None:
        """Pass over a batch's records from ``position`` on.

        Returns:
            The source position to copy from, once all were passed over.

        Raises:
            CleanedError: The last one is another record; or that is not known, and records are missing.
            SchemaIdsWaitError: The last one may be behind a record whose schema id is not known; nothing was passed.
        """
        self._gaps |= batch.base_offset > position
        whole = batch.base_offset >= position and not reaching_into(batch, batch.base_offset, self.skip)
        if batch.magic == 2 and whole and self.transforms is None and self.records > batch.count:
            self.records -= batch.count
            self._gaps |= batch.is_compacted
            return None
        records: Sequence[DecodedRecord]
        try:
            records = copied_of(batch, position, self.skip, self.transforms)
        except SchemaIdsWaitError as waiting:
            if self.records > len(waiting.before):
                raise
            records = waiting.before
        if self.records > len(records):
            self.records -= len(records)
            self._gaps |= batch.magic == 2 and batch.is_compacted
            return None
        last = records[self.records - 1]
        if not self._is_last(last, batch):
            raise CleanedError
        # Records that fail behind the last one of a part may not be in the dead letter topic yet.
        in_parts = self.transforms is not None and self.transforms.sends_parts
        return last.offset + 1 if self.records < len(records) or in_parts else batch.next_offset

    def ended(self, position: int) -> int:
        """The source has no more records at ``position``.

        Raises:
            CleanedError: Always, since there should have been more.
        """
        raise CleanedError(position)

    def _is_last(self, record: DecodedRecord, batch: RecordBatch) -> bool:
        last = None if self.tail is None or self.tail.is_empty else records_of(self.tail)[-1]
        if self.tail is None or last is None or last.offset + 1 < self.tail.next_offset:
            # It was removed. The number of records identifies it, if the source has lost none of its records.
            return self.counted and not (self._gaps or _has_gap_before(batch, record.offset))
        timed = not self.tail.is_log_append_time
        return content_of(last, timed=timed) == content_of(record, timed=timed)


def _has_gap_before(batch: RecordBatch, offset: int) -> bool:
    if batch.magic != 2 or not batch.is_compacted:
        return False
    return sum(record.offset < offset for record in records_of(batch)) < offset - batch.base_offset


@dataclass(slots=True)
class ContentMatch:
    """Passes over the source's records as long as each is one of ``copied``, in that order.

    Cleaning removes records and changes neither the others nor their order, so the first record that is not among those
    copied is the first one to copy. Two records can't be distinguished: one that was copied and cleaned since, and a
    later one with the same timestamp, key, value and headers that was not copied.

    With ``transforms`` a record may also be missing among those copied because they make something else of the source
    than they did. So the last one copied must be found before the first that was not, and all of them must be found
    where the source shows no sign of cleaning.

    Where the target was cleaned, too (``sparse``), the source may still have records that were copied and are not among
    ``copied`` any more. Each of them has a successor of the same key there that was copied later; and as cleaning
    removes the older one first, the source has that successor, too. So the first one to copy follows the last match;
    where nothing matches, all that was copied was replaced since, and the first one to copy is the first one there is.
    """

    copied: TargetContents
    sparse: bool = False
    #: Ranges of source offsets, the end not included, whose records were left out.
    skip: Sequence[tuple[int, int]] = ()
    #: Records of the source between the anchor and where matching began were removed: the first one must match.
    late: bool = False
    #: What made the target's records of the source's, if anything did; then ``sparse`` is false.
    transforms: PartitionTransforms | None = None
    _indexes: dict[bytes, list[int]] = field(default_factory=dict)
    _next: int = 0
    _matched: int = 0
    #: Whether offset gaps were found, as cleaning leaves them.
    _gaps: bool = False
    #: The first record behind the last one that matched, where ``sparse`` allows for more to match.
    _following: int | None = None

    def __post_init__(self) -> None:
        for index, content in enumerate(self.copied.records):
            self._indexes.setdefault(content, []).append(index)

    def passed(self, batch: RecordBatch, position: int) -> int | None:
        """Pass over a batch's records from ``position`` on; returns what ``SourceWalk.passed`` does.

        Raises:
            CleanedError: Records were removed, and none behind them was copied.
        """
        self._gaps |= batch.base_offset > position or batch.is_compacted or batch.magic != 2
        for record in copied_of(batch, position, self.skip, self.transforms):
            if self._was_copied(record):
                self._following = None
            elif not self.sparse or self._next == len(self.copied.records):
                return self.ended(record.offset)
            elif self._following is None:
                self._following = record.offset
        return None

    def ended(self, position: int) -> int:
        """The source has no more records at ``position``, or others: all that it still has before it were copied.

        Returns:
            ``position``, or a smaller one if only what lies before that one was copied for sure.

        Raises:
            CleanedError: As ``passed`` does.
        """
        if self._next == 0 and (self.late or (self.sparse and self._following is None)):
            raise CleanedError(position)
        copied = len(self.copied.records)
        if self.transforms is not None and (
            self._next < copied or not (self._matched == copied or self._gaps or self.late)
        ):
            raise CleanedError(position)
        return position if self._following is None else self._following

    def _was_copied(self, record: DecodedRecord) -> bool:
        indexes = self._indexes.get(content_of(record, timed=self.copied.timed), [])
        at = bisect_left(indexes, self._next)
        if at == len(indexes):
            return False
        self._next = indexes[at] + 1
        self._matched += 1
        return True


@dataclass(slots=True)
class Realignment:
    """The way from ``start``, the acknowledged pair, over as many ``records`` as the target holds behind it."""

    assignment: Assignment
    start: OffsetPair
    #: The target's log end and its next sequence. The source position that belongs to it is searched for.
    end: OffsetPair
    records: int
    walk: SourceWalk | ContentMatch | PreservedWalk

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
        """Walk by number; by ``TargetContents`` where the source was cleaned. The target may have been cleaned, too.

        With ``transforms`` the target must hold all of these records.

        Raises:
            ReplicationFault: There are more contents than records, or none.
        """
        skip = assignment.skip
        if isinstance(by, TargetLog):
            tail = last_copied(by, assignment, end)
            walk = SourceWalk(records, tail, skip, transforms, counted=assignment.producer_id >= 0)
            return Realignment(assignment, start, end, records, walk)
        sparse = len(by.records) < records
        # Records of ours that cleaning removed may have successors of others, which the source does not have.
        guessed = sparse and (transforms is not None or to_be_scanned(assignment, start))
        if not 0 < len(by.records) <= records or guessed:
            found = f"{records} records were copied behind offset {start.target_offset} and {len(by.records)} are there"
            raise ReplicationFault(faults.unknown_place(assignment, start, found))
        return Realignment(assignment, start, end, records, ContentMatch(by, sparse, skip, transforms=transforms))

    def passed(self, batch: RecordBatch, position: int) -> int | None:
        """Pass over a batch from ``position`` on; return the position to copy from once all was passed over.

        Raises:
            CleanedError: The source does not hold what was copied from it.
            ReplicationFault: source_truncated, as ``ended``.
        """
        reached = self.walk.passed(batch, position)
        return None if reached is None else self._checked(reached)

    def ended(self, position: int) -> int:
        """Return the position to copy from, which may be before ``position``, where the source has nothing more.

        Raises:
            CleanedError: There should have been more.
            ReplicationFault: source_truncated: there is no room before the position for all copied records.
        """
        return self._checked(self.walk.ended(position))

    def removed_below(self, start: int) -> int:
        """Return where to go on, for the source begins at ``start``, behind the position.

        Raises:
            CleanedError: What was removed can't be counted.
            ReplicationFault: source_removed, where offsets are preserved: some of it was not copied.
        """
        if isinstance(self.walk, PreservedWalk) and start > self.end.target_offset:
            source = self.assignment.partition.source
            end = self.end.target_offset
            raise ReplicationFault(faults.source_removed(source, end, self.anchor(start)))
        if isinstance(self.walk, SourceWalk):
            raise CleanedError
        if isinstance(self.walk, ContentMatch):
            self.walk.late = True
        return start

    def anchor(self, position: int, epoch: int = -1) -> OffsetPair:
        """Pair a source position with the target's log end."""
        return replace(self.end, source_offset=position, source_epoch=epoch)

    def _checked(self, position: int) -> int:
        copied_to = self.start.source_offset + self.records
        if position < copied_to:
            raise ReplicationFault(
                faults.source_truncated(self.assignment.partition.source, copied_to, self.anchor(position))
            )
        return position
