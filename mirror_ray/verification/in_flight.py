"""Compares records of the flow behind the acknowledged pair: they must be the source's next ones, in order."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Sequence

from mirror_ray.verification.compacted import compare_in_order
from mirror_ray.verification.difference import NULL_HASH, Difference, HashedRecord, RecordHash, by_target_offset
from mirror_ray.verification.ranges import PositionPair
from mirror_ray.verification.record_comparison import RecordComparison

#: Least number of equal fields by which a record counts as a changed one, and not as another one.
_LEAST_EQUAL_FIELDS = 3


def in_flight_differences(
    ours: Sequence[HashedRecord], following: Sequence[HashedRecord], copied: PositionPair
) -> list[Difference]:
    """Compare our records on the target behind the acknowledged pair with the source's from there on.

    ``following`` are as many, and some more: what is not copied yet is no difference.
    """
    expected = _expected(ours, following)
    comparison = RecordComparison(PositionPair(_end(expected, copied.source), _end(ours, copied.target)))
    for side, records in ((comparison.source, expected), (comparison.target, ours)):
        side.feed(records)
        side.feed(None)
    comparison.step()
    return comparison.differences()


def _end(records: Sequence[HashedRecord], begin: int) -> int:
    return records[-1].offset + 1 if records else begin


def _expected(ours: Sequence[HashedRecord], following: Sequence[HashedRecord]) -> Sequence[HashedRecord]:
    """The source's records that are copied: up to the last equal one, and changed ones behind it."""
    end, at = _copied(ours, following)
    while at < len(ours) and end < len(following) and _is_changed(ours[at].hash, following[end].hash):
        end, at = end + 1, at + 1
    return following[:end]


def _copied(ours: Sequence[HashedRecord], following: Sequence[HashedRecord]) -> tuple[int, int]:
    """The ends, on both sides, of the source's records that are found in order on the target."""
    positions: dict[RecordHash, list[int]] = defaultdict(list)
    for position, record in enumerate(following):
        positions[record.hash].append(position)
    end = behind = 0
    for at, record in enumerate(ours):
        there = positions.get(record.hash, [])
        # The first of equal records: it is unknown whether the others are copied.
        next_one = bisect_left(there, end)
        if next_one < len(there):
            end, behind = there[next_one] + 1, at + 1
    return end, behind


def _is_changed(mine: RecordHash, theirs: RecordHash) -> bool:
    return len(mine) - len(mine.differs_in(theirs)) >= _LEAST_EQUAL_FIELDS


def compacted_in_flight_differences(
    ours: Sequence[HashedRecord],
    following: Sequence[HashedRecord],
    copied: PositionPair,
    source_end: int,
    newer: Collection[bytes],
) -> list[Difference]:
    """Compare as ``in_flight_differences`` does, where log cleaning may have removed records on either side.

    Cleaning leaves an offset gap and a newer record of the key. Of records far behind only the keys are known:
    ``following`` ends at ``source_end``, and ``newer`` are hashes of keys that either side holds behind.
    """
    end, at = _copied(ours, following)
    superseded = {record.hash.key for record in following[end:]} | set(newer)
    if ours:
        # So many more may have been copied and then cleaned on the target.
        first = ours[at - 1].offset + 1 if at else copied.target
        end += _end(ours, first) - first - len(ours[at:])
    behind = following[end].offset if end < len(following) else source_end
    foreign = _foreign_records(ours, {record.hash.key for record in following} | superseded)
    known = [record for record in ours if record not in foreign]
    ends = PositionPair(behind, _end(ours, copied.target))
    found = compare_in_order(following[:end], known, copied, ends, superseded)
    alone = [Difference("extra", copied.source, record.offset) for record in foreign]
    return sorted([*alone, *(difference for difference, _ in found.differences)], key=by_target_offset)


def _foreign_records(ours: Sequence[HashedRecord], keys: Collection[bytes]) -> set[HashedRecord]:
    """Records that no cleaning can have removed from the source: it has no newer record or tombstone of their key."""
    found: set[HashedRecord] = set()
    deleted: set[bytes] = {NULL_HASH}
    for record in reversed(ours):
        if record.hash.value == NULL_HASH:
            deleted.add(record.hash.key)
        if record.hash.key not in deleted and record.hash.key not in keys:
            found.add(record)
    return found
