"""The way over the source's records that the target holds already, to where copying goes on. Pure.

``copied_records`` counts them. That number is walked on the source, batch header by batch header, and the last record
must be the target's last one (``SourceWalk``). Where the source was cleaned in between, so that the numbers no longer
fit, its records are compared with the target's (``ContentMatch``).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, reaching_into, records_from, records_of
from mirror_ray.replication.partition_transforms import PartitionTransforms


class CleanedError(Exception):
    """The source does not hold as many records, or not the same, as were copied from it: it was cleaned since."""


@dataclass(slots=True)
class SourceWalk:
    """Passes over the records that the target already has, by their number."""

    records: int
    #: The target's last batch, whose last record the last one passed over must equal; None: it is not there any more.
    tail: RecordBatch | None
    #: Source offsets, the end not included, whose records were left out.
    skip: Sequence[tuple[int, int]] = ()
    #: What made the target's records of the source's, if anything did.
    transforms: PartitionTransforms | None = None
    #: Whether sequences have said that all of these records are ours; else the last one has to be compared.
    counted: bool = True
    #: Whether source offsets without a record were met, as cleaning leaves them.
    _holes: bool = False

    def passed(self, batch: RecordBatch, position: int) -> int | None:
        """Pass over a batch's records from ``position`` on.

        Returns:
            The source position to copy from, once all were passed over.

        Raises:
            CleanedError: What would be the last one is another record; or that can't be told, and some are missing.
        """
        self._holes |= batch.base_offset > position
        whole = batch.base_offset >= position and not reaching_into(batch, batch.base_offset, self.skip)
        if batch.magic == 2 and whole and self.transforms is None and self.records > batch.count:
            self.records -= batch.count
            self._holes |= batch.is_compacted
            return None
        records = _copied_of(batch, position, self.skip, self.transforms)
        if self.records > len(records):
            self.records -= len(records)
            self._holes |= batch.magic == 2 and batch.is_compacted
            return None
        last = records[self.records - 1]
        if not self._is_last(last, batch):
            raise CleanedError
        return last.offset + 1 if self.records < len(records) else batch.next_offset

    def ended(self, position: int) -> int:
        """The source has no more records at ``position``.

        Raises:
            CleanedError: Always: there should have been more.
        """
        raise CleanedError(position)

    def _is_last(self, record: DecodedRecord, batch: RecordBatch) -> bool:
        last = None if self.tail is None or self.tail.is_empty else records_of(self.tail)[-1]
        if self.tail is None or last is None or last.offset + 1 < self.tail.next_offset:
            # It is there no more, so the number alone says that it is this one: of a source that has all its records.
            return self.counted and not (self._holes or _has_hole_before(batch, record.offset))
        timed = not self.tail.is_log_append_time
        return content_of(last, timed=timed) == content_of(record, timed=timed)


def _has_hole_before(batch: RecordBatch, offset: int) -> bool:
    if batch.magic != 2 or not batch.is_compacted:
        return False
    return sum(record.offset < offset for record in records_of(batch)) < offset - batch.base_offset


@dataclass(slots=True)
class TargetContents:
    """Contents of all records of ours that the target got since the anchor, oldest first."""

    records: list[bytes] = field(default_factory=list)
    #: Whether timestamps are in them: a target that stamps what it appends has its own.
    timed: bool = True

    def add(self, batch: RecordBatch) -> None:
        """Take the next batch of ours."""
        if not self.records:
            self.timed = not batch.is_log_append_time
        self.records += [content_of(record, timed=self.timed) for record in records_of(batch)]


@dataclass(slots=True)
class ContentMatch:
    """Passes over the source's records as long as each is one of ``copied``, in that order.

    Cleaning leaves out records and changes neither the others nor their order, so the first one that is not among those
    copied is the first one to copy. What it can't tell apart: a record that was copied and cleaned since, and a later
    one with the same timestamp, key, value and headers that was not copied.

    With ``transforms`` there may be another reason why a record is not among those copied: that they make something
    else of the source than they did. So the last one copied must be there before the first that was not, and all of
    them where the source shows no sign of cleaning.

    Where the target was cleaned, too (``sparse``), the source may still have records that were copied and are not among
    ``copied`` any more. Each of them has a successor of the same key there that was copied later; and as cleaning takes
    the older one first, the source has that successor, too. So the first one to copy follows the last one that matches.
    """

    copied: TargetContents
    sparse: bool = False
    #: Source offsets, the end not included, whose records were left out.
    skip: Sequence[tuple[int, int]] = ()
    #: Records of the source between the anchor and where matching began were removed: the first one must match.
    late: bool = False
    #: What made the target's records of the source's, if anything did; then ``sparse`` is false.
    transforms: PartitionTransforms | None = None
    _places: dict[bytes, list[int]] = field(default_factory=dict)
    _next: int = 0
    _matched: int = 0
    #: Whether offsets without a record were met, as cleaning leaves them.
    _holes: bool = False
    #: The first record behind the last one that matched, where ``sparse`` allows for more to match.
    _following: int | None = None

    def __post_init__(self) -> None:
        for place, content in enumerate(self.copied.records):
            self._places.setdefault(content, []).append(place)

    def passed(self, batch: RecordBatch, position: int) -> int | None:
        """Pass over a batch's records from ``position`` on; returns what ``SourceWalk.passed`` does.

        Raises:
            CleanedError: Records were removed, and none that was copied is there behind them.
        """
        self._holes |= batch.base_offset > position or batch.is_compacted or batch.magic != 2
        for record in _copied_of(batch, position, self.skip, self.transforms):
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
            ``position``; or a position before it, where that is so of all that it has before that one alone.

        Raises:
            CleanedError: As ``passed`` does.
        """
        if (self.late or self.sparse) and self._next == 0:
            raise CleanedError(position)
        copied = len(self.copied.records)
        if self.transforms is not None and (
            self._next < copied or not (self._matched == copied or self._holes or self.late)
        ):
            raise CleanedError(position)
        return position if self._following is None else self._following

    def _was_copied(self, record: DecodedRecord) -> bool:
        places = self._places.get(content_of(record, timed=self.copied.timed), [])
        at = bisect_left(places, self._next)
        if at == len(places):
            return False
        self._next = places[at] + 1
        self._matched += 1
        return True


def _copied_of(
    batch: RecordBatch, position: int, skip: Sequence[tuple[int, int]], transforms: PartitionTransforms | None
) -> list[DecodedRecord]:
    """What the target got of a batch from ``position`` on, at its source offsets."""
    return records_from(batch, position, skip) if transforms is None else transforms.copied(batch, position)


def content_of(record: DecodedRecord, *, timed: bool) -> bytes:
    """What makes two records the same, wherever they are: timestamp, key, value and headers, in 16 bytes."""
    digest = hashlib.blake2b(record.tail, digest_size=16)
    if timed:
        digest.update(b"%d" % record.timestamp)
    return digest.digest()
