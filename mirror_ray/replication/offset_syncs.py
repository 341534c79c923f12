"""What MM2 is to know of a copy's offsets. Pure.

Source of the format: ``OffsetSync`` of Kafka 4.3. MM2 emits a pair every ``offset.lag.max`` records; here each run of
records gives its first one, and the newest record is always among them.
"""

from __future__ import annotations

from collections.abc import Iterator

from mirror_ray.model.segment import SegmentBlock
from mirror_ray.records.mm2_records import OffsetSyncRecord

#: Pairs told at a time for one partition, the newest: MM2 keeps 64 of ever larger distances.
_MOST_PAIRS = 100


def offset_syncs(block: SegmentBlock, told_to: int) -> Iterator[OffsetSyncRecord]:
    """Pairs of records at or behind source offset ``told_to``, in order: where runs begin, and the newest record."""
    runs = [each for each in block.segments if each.length and each.source + each.length > told_to][-_MOST_PAIRS:]
    for run in runs:
        if run.source >= told_to:
            yield OffsetSyncRecord(partition=block.source, upstream_offset=run.source, downstream_offset=run.target)
    if runs:
        last = runs[-1].length - 1
        source, target = runs[-1].source + last, runs[-1].target + last
        if last or runs[-1].source < told_to:
            yield OffsetSyncRecord(partition=block.source, upstream_offset=source, downstream_offset=target)
