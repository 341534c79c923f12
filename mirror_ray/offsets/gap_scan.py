"""What lies between two known pairs, found by reading the source. Pure.

A map that had to give up segments, or that a crashed replicator told nothing of its last second, knows how many records
were copied between two pairs. If the source still holds as many there, they are the ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from mirror_ray.model.segment import Segment
from mirror_ray.offsets.segments import BetweenSegments, SegmentMap
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.records.read_committed import CommittedOnly

Copied = Callable[[Sequence[DecodedRecord]], Sequence[DecodedRecord]]


def others_wrote(gap: BetweenSegments) -> str | None:
    """Why nothing is to be found by reading a gap of that many records; None: it may be.

    Where a flow has taken over what MM2 copied, the map is made to say so (``takeover.pairs``).
    """
    after, before = gap.after, gap.before
    if before.target - after.target == before.number - after.number:
        return None
    return f"others wrote between target offsets {after.target} and {before.target}"


class GapReader:
    """Takes the source's batches from ``gap.after.source`` to ``gap.before.source``."""

    def __init__(self, gap: BetweenSegments, *, read_committed: bool, copied: Copied | None = None) -> None:
        """``copied``: what is copied of some records, where that is not all of them."""
        self._gap = gap
        self._copied = copied
        self._read_committed = read_committed
        self._records = 0
        self._places = SegmentMap(sys.maxsize, gap.after)

    def take(self, batches: Sequence[RecordBatch], aborted: Sequence[tuple[int, int]]) -> None:
        """One fetch's batches, in order.

        Raises:
            CorruptBatchError: A batch does not parse.
        """
        select = CommittedOnly(aborted if self._read_committed else ())
        for batch in batches:
            if select.copies(batch):
                for source, count in _runs(batch, self._gap.after.source, self._gap.before.source, self._copied):
                    self._put(source, count)

    def finish(self) -> SegmentMap | str:
        """The map of the gap, or why the source does not say what is where."""
        after, before = self._gap.after, self._gap.before
        copied = before.number - after.number
        if self._records != copied:
            why = "the source was cleaned" if self._records < copied else "transforms left some out"
            return (
                f"of {copied} records that were copied between source offsets {after.source} and {before.source}, "
                f"{self._records} are there: {why}"
            )
        return others_wrote(self._gap) or self._places

    def _put(self, source: int, count: int) -> None:
        after = self._gap.after
        self._places.add(
            Segment(source, after.target + self._records, count, after.number + self._records), source + count
        )
        self._records += count


def _runs(batch: RecordBatch, start: int, end: int, copied: Copied | None) -> list[tuple[int, int]]:
    """A batch's copied records from ``start`` to ``end``, as runs of (first offset, number)."""
    if copied is None and batch.magic == 2 and batch.count == batch.last_offset_delta + 1:
        first, last = max(batch.base_offset, start), min(batch.next_offset, end)
        return [(first, last - first)] if first < last else []
    runs: list[tuple[int, int]] = []
    inside = [record for record in records_of(batch) if start <= record.offset < end]
    for record in inside if copied is None else copied(inside):
        if runs and runs[-1][0] + runs[-1][1] == record.offset:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((record.offset, 1))
    return runs
