"""Records of the flow behind the acknowledged pair: they are the source's next ones, in their order. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Sequence

from mirror_ray.verification.compacted import compare_in_order
from mirror_ray.verification.difference import NULL_HASH, Difference, HashedRecord, RecordHash
from mirror_ray.verification.ranges import PositionPair
from mirror_ray.verification.record_comparison import RecordComparison

#: Of a record that was changed on the way so many fields are as they were.
_ALIKE_FIELDS = 3


def in_flight_differences(
    ours: Sequence[HashedRecord], following: Sequence[HashedRecord], copied: PositionPair
) -> list[Difference]:
    """What differs between ours and the source's next records; what is not copied yet is no difference.

    Args:
        ours: On the target behind the acknowledged pair, in order.
        following: The source's records from that pair on: so many, and some more.
        copied: The pair.
    """
    expected = _expected(ours, following)
    ends = expected[-1].offset + 1 if expected else copied.source, ours[-1].offset + 1 if ours else copied.target
    comparison = RecordComparison(*ends)
    for feed, records in ((comparison.feed_source, expected), (comparison.feed_target, ours)):
        if records:
            feed(records)
        feed(None)
    comparison.step()
    return comparison.differences()


def _expected(ours: Sequence[HashedRecord], following: Sequence[HashedRecord]) -> Sequence[HashedRecord]:
    """As much of the source as is copied: up to the last record that is, and those that were changed behind it."""
    end, at = _copied(ours, following)
    while at < len(ours) and end < len(following) and _is_changed(ours[at].hash, following[end].hash):
        end, at = end + 1, at + 1
    return following[:end]


def _copied(ours: Sequence[HashedRecord], following: Sequence[HashedRecord]) -> tuple[int, int]:
    """Behind the last record of the source that is found on the target, each behind the one before: on both sides."""
    places: dict[RecordHash, list[int]] = defaultdict(list)
    for place, record in enumerate(following):
        places[record.hash].append(place)
    end = behind = 0
    for at, record in enumerate(ours):
        there = places.get(record.hash, [])
        # The first of equal ones: of further ones it is not known that they are copied.
        next_one = bisect_left(there, end)
        if next_one < len(there):
            end, behind = there[next_one] + 1, at + 1
    return end, behind


def _is_changed(mine: RecordHash, theirs: RecordHash) -> bool:
    return len(mine) - len(mine.differs_in(theirs)) >= _ALIKE_FIELDS


def compacted_in_flight_differences(
    ours: Sequence[HashedRecord],
    following: Sequence[HashedRecord],
    copied: PositionPair,
    source_end: int,
    newer: Collection[bytes],
) -> list[Difference]:
    """As ``unexpected`` where cleaners may have taken records of either side: that leaves holes, and newer records.

    Args:
        ours: See above.
        following: All records of the source from the pair on; of those far behind ``newer`` may have the keys alone.
        copied: The pair.
        source_end: Where ``following`` ends.
        newer: Hashes of the keys of records that either side holds behind these.
    """
    end, at = _copied(ours, following)
    spared = {record.hash.key for record in following[end:]} | set(newer)
    if ours:
        # So many more may have been copied, and cleaned on the target.
        first = ours[at - 1].offset + 1 if at else copied.target
        end += ours[-1].offset + 1 - first - len(ours[at:])
    behind = following[end].offset if end < len(following) else source_end
    foreign = _foreign_records(ours, {record.hash.key for record in following} | spared)
    known = [record for record in ours if record not in foreign]
    ends = PositionPair(behind, ours[-1].offset + 1 if ours else copied.target)
    found = compare_in_order(following[:end], known, copied, ends, spared)
    alone = [Difference("extra", copied.source, record.offset) for record in foreign]
    return sorted([*alone, *(each for each, _ in found.differences)], key=lambda each: each.target_offset)


def _foreign_records(ours: Sequence[HashedRecord], keys: Collection[bytes]) -> set[HashedRecord]:
    """Records that no cleaner can have taken from the source: nothing newer of their key is there, or was deleted."""
    found: set[HashedRecord] = set()
    deleted: set[bytes] = {NULL_HASH}
    for record in reversed(ours):
        if record.hash.value == NULL_HASH:
            deleted.add(record.hash.key)
        if record.hash.key not in deleted and record.hash.key not in keys:
            found.add(record)
    return found
