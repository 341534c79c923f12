"""MM2's offset syncs of a partition.

Source of the format: ``OffsetSync`` of Kafka 4.3. MM2 emits a pair every ``offset.lag.max`` records; here each run of
records gives its first one, and the newest record is always among them.
"""

from __future__ import annotations

from collections.abc import Iterator

from mirror_ray.model.segment import SegmentBlock
from mirror_ray.records.mm2_records import OffsetSyncRecord

#: Offset syncs published at a time for one partition, the newest: MM2 keeps 64 of ever larger distances.
_MOST_PAIRS = 100


def offset_syncs(block: SegmentBlock, synced_to: int) -> Iterator[OffsetSyncRecord]:
    """Yield those of records at or behind ``synced_to``, in order: where runs begin, and the newest record."""
    runs = [run for run in block.segments if run.length and run.source + run.length > synced_to][-_MOST_PAIRS:]
    for run in runs:
        if run.source >= synced_to:
            yield OffsetSyncRecord(partition=block.source, upstream_offset=run.source, downstream_offset=run.target)
    if runs:
        last = runs[-1].length - 1
        source, target = runs[-1].source + last, runs[-1].target + last
        if last or runs[-1].source < synced_to:
            yield OffsetSyncRecord(partition=block.source, upstream_offset=source, downstream_offset=target)
