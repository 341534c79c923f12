"""What lies in a gap between two segments, found by reading the source, and which transforms it went through.

A map that had to drop segments, or that a crashed replicator did not complete, knows how many records were copied
between two segments. If the source still holds as many there, they are the ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.segment import Segment
from mirror_ray.offsets.map import AppliedTransforms, SegmentGap, SegmentMap
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.records.read_committed import CommittedOnly
from mirror_ray.transforms.loading import TransformChains

SelectCopied = Callable[[Sequence[DecodedRecord]], Sequence[DecodedRecord]]


def others_wrote(gap: SegmentGap) -> str | None:
    """Why reading a gap can't tell what lies in it: others wrote on the target; None: it may tell.

    The map of a flow that was taken over says so of what MM2 copied (``takeover.mm2_offset_syncs``).
    """
    after, before = gap.after, gap.before
    if before.target - after.target == before.number - after.number:
        return None
    return f"others wrote between target offsets {after.target} and {before.target}"


class GapReader:
    """Takes the source's batches from ``gap.after.source`` to ``gap.before.source``."""

    def __init__(self, gap: SegmentGap, *, read_committed: bool, copied: SelectCopied | None = None) -> None:
        """``copied`` selects the records that were copied; None: all of them were."""
        self._gap = gap
        self._copied = copied
        self._read_committed = read_committed
        self._records = 0
        self._map = SegmentMap(sys.maxsize, gap.after)

    def take(self, batches: Sequence[RecordBatch], aborted: Sequence[tuple[int, int]]) -> None:
        """Take the batches of one fetch, in order.

        Raises:
            CorruptBatchError: A batch does not parse.
        """
        select = CommittedOnly(aborted if self._read_committed else ())
        for batch in batches:
            if select.copies(batch):
                for source, count in _runs(batch, self._gap.after.source, self._gap.before.source, self._copied):
                    self._add(source, count)

    def finish(self) -> SegmentMap | str:
        """The map of the gap, or why the source does not tell it."""
        after, before = self._gap.after, self._gap.before
        copied = before.number - after.number
        if self._records != copied:
            why = "the source was cleaned" if self._records < copied else "transforms left some out"
            return (
                f"of {copied} records that were copied between source offsets {after.source} and {before.source}, "
                f"{self._records} are there: {why}"
            )
        return others_wrote(self._gap) or self._map

    def _add(self, source: int, count: int) -> None:
        after = self._gap.after
        segment = Segment(source, after.target + self._records, count, after.number + self._records)
        self._map.add(segment, source + count)
        self._records += count


def _runs(batch: RecordBatch, start: int, end: int, copied: SelectCopied | None) -> list[tuple[int, int]]:
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


class GapTransforms:
    """Applies a flow's transforms to the records of gaps that were copied by these very transforms.

    Other gaps are counted by all of their records. That is never wrong: transforms leave out records and add none, so
    if as many were copied as there are, they are the same ones; else the translation is not exact.
    """

    def __init__(self, load: Callable[[], TransformChains], on_problem: Callable[[str], None]) -> None:
        """``load`` may raise a ValueError."""
        self._chains = TransformChains(())
        try:
            self._chains = load()
        except ValueError as error:
            on_problem(f"offsets may be translated less exactly: transforms can't be loaded: {error}")

    def selector(self, source: TopicPartition, applied: AppliedTransforms, gap: SegmentGap) -> SelectCopied | None:
        """What selects the records of a gap that were copied; None: all of them are counted."""
        chain = self._chains.chain(source.topic) if applied.transforms else None
        if chain is None or not chain.pure or chain.identity != applied.transforms or gap.after.source < applied.since:
            return None
        apply = chain.apply

        def copied(records: Sequence[DecodedRecord]) -> Sequence[DecodedRecord]:
            return apply(source, records).kept

        return copied
