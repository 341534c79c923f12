"""What lies between two known pairs, found by reading the source. Pure.

A map that had to give up segments, or that a crashed replicator told nothing of its last second, knows how many records
were copied between two pairs. If the source still holds as many there, they are the ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mirror_ray.copying.select import CommittedOnly
from mirror_ray.model.segment import Segment
from mirror_ray.offsets.segments import Between, SegmentMap
from mirror_ray.records.batch import Batch
from mirror_ray.records.decode import records_of


class GapReader:
    """Takes the source's batches from ``gap.after.source`` to ``gap.before.source``."""

    def __init__(self, gap: Between, *, read_committed: bool) -> None:
        self._gap = gap
        self._read_committed = read_committed
        self._records = 0
        self._places = SegmentMap(sys.maxsize, gap.after)

    def take(self, batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]) -> None:
        """One fetch's batches, in order.

        Raises:
            CorruptBatchError: A batch does not parse.
        """
        select = CommittedOnly(aborted if self._read_committed else ())
        for batch in batches:
            if select.copies(batch):
                for source, count in _runs(batch, self._gap.after.source, self._gap.before.source):
                    self._put(source, count)

    def finish(self) -> SegmentMap | str:
        """The map of the gap, or why the source does not say what is where."""
        after, before = self._gap.after, self._gap.before
        copied = before.number - after.number
        if self._records != copied:
            return (
                f"of {copied} records that were copied between source offsets {after.source} and {before.source}, "
                f"{self._records} are there: the source was cleaned"
            )
        if before.target - after.target != copied:
            return f"others wrote between target offsets {after.target} and {before.target}"
        return self._places

    def _put(self, source: int, count: int) -> None:
        after = self._gap.after
        self._places.add(
            Segment(source, after.target + self._records, count, after.number + self._records), source + count
        )
        self._records += count


def _runs(batch: Batch, start: int, end: int) -> list[tuple[int, int]]:
    """A batch's records from ``start`` to ``end``, as runs of (first offset, number)."""
    if batch.magic == 2 and batch.count == batch.last_offset_delta + 1:
        first, last = max(batch.base_offset, start), min(batch.next_offset, end)
        return [(first, last - first)] if first < last else []
    runs: list[tuple[int, int]] = []
    for record in records_of(batch):
        if start <= record.offset < end:
            if runs and runs[-1][0] + runs[-1][1] == record.offset:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((record.offset, 1))
    return runs
