"""Compares compacted partitions: the last record of every key, and then all records in order.

Either side may have been cleaned at any time. Between two pairs of positions only the last record of each key is sure
to exist, and not even that if it is a tombstone, or if a newer record of the key lies behind the second pair.

Both sides hold what log cleaning left of one sequence, in order. Cleaning leaves an offset gap, and a newer record of
the key. So a record that only one side has was cleaned on the other side only if that side has an offset gap there, and
a newer record of the key or none at all; otherwise the record is missing, or surplus.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror_ray.records.decode import DecodedRecord
from mirror_ray.verification.difference import Difference, HashedRecord, RecordHash, hash_record
from mirror_ray.verification.ranges import PositionPair


@dataclass(slots=True)
class LastRecordHashes:
    """Takes the last records of these keys, field by field. A tombstone counts as no record; its offset is kept."""

    timestamps: bool
    keys: Collection[bytes]
    found: dict[bytes, HashedRecord] = field(default_factory=dict)
    tombstones: dict[bytes, int] = field(default_factory=dict)

    def take(self, records: Iterable[DecodedRecord]) -> None:
        """Take the next records."""
        for record in records:
            key, value, _ = record.fields()
            if key is None or key not in self.keys:
                continue
            if value is None:
                self.found.pop(key, None)
                self.tombstones[key] = record.offset
            else:
                self.found[key] = hash_record(record, timestamps=self.timestamps)
                self.tombstones.pop(key, None)

    def drop(self, keys: Collection[bytes]) -> None:
        """Drop these keys."""
        for key in keys:
            self.found.pop(key, None)
            self.tombstones.pop(key, None)

    def drop_before(self, offset: int) -> None:
        """Drop what lies before an offset."""
        self.found = {key: record for key, record in self.found.items() if record.offset >= offset}
        self.tombstones = {key: tombstone for key, tombstone in self.tombstones.items() if tombstone >= offset}


def key_differences(source: LastRecordHashes, target: LastRecordHashes, ends: tuple[int, int]) -> list[Difference]:
    """Compare the last records of the same keys.

    A missing record belongs at the tombstone that is there instead, or at the other side's end.
    """
    found: list[Difference] = []
    for key in source.found.keys() | target.found.keys():
        mine, theirs = source.found.get(key), target.found.get(key)
        if mine is None and theirs is not None:
            found.append(Difference("extra", source.tombstones.get(key, ends[0]), theirs.offset))
        elif mine is not None and theirs is None:
            found.append(Difference("missing", mine.offset, target.tombstones.get(key, ends[1])))
        elif mine is not None and theirs is not None and mine.hash != theirs.hash:
            found.append(Difference("changed", mine.offset, theirs.offset, mine.hash.differs_in(theirs.hash)))
    return sorted(found, key=lambda difference: (difference.source_offset, difference.target_offset))


@dataclass(slots=True)
class RecordHashes:
    """Takes and hashes the records of one side, in order."""

    timestamps: bool
    found: list[HashedRecord] = field(default_factory=list)
    #: Keys by their hashes.
    keys: dict[bytes, bytes] = field(default_factory=dict)

    def take(self, records: Iterable[DecodedRecord]) -> None:
        """Take the next records."""
        for record in records:
            content = hash_record(record, timestamps=self.timestamps)
            self.found.append(content)
            if (key := record.key) is not None:
                self.keys[content.hash.key] = key

    def drop_before(self, offset: int) -> None:
        """Drop what lies before an offset."""
        self.found = [record for record in self.found if record.offset >= offset]


class OrderedComparison(NamedTuple):
    """The result of comparing all records in order."""

    #: Each with the hash of its record's key, as in ``RecordHash``.
    differences: list[tuple[Difference, bytes]]
    cleaned_on_source: int
    cleaned_on_target: int

    @property
    def keys(self) -> set[bytes]:
        """Hashes of the keys that differ."""
        return {key for _, key in self.differences}


class _Block(NamedTuple):
    """The records between two that both sides have; as indexes into each side's records, the ends not included."""

    source: tuple[int, int]
    target: tuple[int, int]
    #: Offsets without a record.
    source_gap_offsets: int
    target_gap_offsets: int


def compare_in_order(
    source: Sequence[HashedRecord],
    target: Sequence[HashedRecord],
    begin: PositionPair,
    end: PositionPair,
    superseded: Collection[bytes] = (),
) -> OrderedComparison:
    """Compare both sides between two pairs of positions, except for what log cleaning explains.

    ``superseded`` are hashes of keys that have newer records behind the end.
    """
    pairs = _equal_records(source, target)
    kept = set(_longest_increasing([mine for mine, _ in pairs]))
    aligned = [pair for at, pair in enumerate(pairs) if at in kept]
    moved = [pair for at, pair in enumerate(pairs) if at not in kept]
    differences = [
        (Difference("moved", source[mine].offset, target[theirs].offset), source[mine].hash.key)
        for mine, theirs in moved
    ]
    paired = {mine for mine, _ in pairs}, {theirs for _, theirs in pairs}
    lasts = _last_by_key(source), _last_by_key(target)
    cleaned_on_source = cleaned_on_target = 0
    for block in _blocks(source, target, aligned, begin, end):
        mine = [at for at in range(*block.source) if at not in paired[0]]
        theirs = [at for at in range(*block.target) if at not in paired[1]]
        gaps = block.source_gap_offsets, block.target_gap_offsets
        missing = _not_cleaned([source[at] for at in mine], lasts[1], block.target, gaps[1], superseded)
        extra = _not_cleaned([target[at] for at in theirs], lasts[0], block.source, gaps[0], superseded)
        cleaned_on_target += len(mine) - len(missing)
        cleaned_on_source += len(theirs) - len(extra)
        differences += _block_differences(
            missing, extra, _offset_behind(source, block.source, end[0]), _offset_behind(target, block.target, end[1])
        )
    return OrderedComparison(differences, cleaned_on_source, cleaned_on_target)


def _equal_records(source: Sequence[HashedRecord], target: Sequence[HashedRecord]) -> list[tuple[int, int]]:
    """Indexes of equal records, ascending on the target; of several the last ones: cleaning removes the first ones."""
    indexes: dict[RecordHash, list[int]] = defaultdict(list)
    for at, record in enumerate(source):
        indexes[record.hash].append(at)
    found = [
        (left.pop(), at)
        for at in range(len(target) - 1, -1, -1)
        if (left := indexes.get(target[at].hash)) is not None and left
    ]
    return found[::-1]


def _longest_increasing(numbers: Sequence[int]) -> list[int]:
    """Indexes of a longest increasing subsequence."""
    tops: list[int] = []
    tails: list[int] = []
    before: list[int] = []
    for at, number in enumerate(numbers):
        length = bisect_left(tops, number)
        tops[length : length + 1] = [number]
        tails[length : length + 1] = [at]
        before.append(tails[length - 1] if length else -1)
    found: list[int] = []
    at = tails[-1] if tails else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found[::-1]


def _last_by_key(records: Sequence[HashedRecord]) -> dict[bytes, int]:
    """The index of each key's last record."""
    return {record.hash.key: at for at, record in enumerate(records)}


def _blocks(
    source: Sequence[HashedRecord],
    target: Sequence[HashedRecord],
    aligned: Sequence[tuple[int, int]],
    begin: PositionPair,
    end: PositionPair,
) -> Iterator[_Block]:
    before = (-1, -1)
    for mine, theirs in [*aligned, (len(source), len(target))]:
        if (mine, theirs) != (before[0] + 1, before[1] + 1) or mine == len(source):
            yield _Block(
                (before[0] + 1, mine),
                (before[1] + 1, theirs),
                _gap_offsets(source, before[0], mine, begin.source, end.source),
                _gap_offsets(target, before[1], theirs, begin.target, end.target),
            )
        before = mine, theirs


def _gap_offsets(records: Sequence[HashedRecord], before: int, behind: int, begin: int, end: int) -> int:
    first = records[before].offset + 1 if before >= 0 else begin
    last = records[behind].offset if behind < len(records) else end
    return max(0, last - first - (behind - before - 1))


def _not_cleaned(
    one_sided: Sequence[HashedRecord],
    lasts: dict[bytes, int],
    there: tuple[int, int],
    gap_offsets: int,
    superseded: Collection[bytes],
) -> list[HashedRecord]:
    """Which records of one side were not cleaned on the other, by the other side's last records and offset gaps."""
    found: list[HashedRecord] = []
    for record in one_sided:
        last = lasts.get(record.hash.key)
        newer = last is None or last >= there[0] or record.hash.key in superseded
        if newer and gap_offsets:
            gap_offsets -= 1
        else:
            found.append(record)
    return found


def _block_differences(
    missing: Sequence[HashedRecord], extra: Sequence[HashedRecord], source: int, target: int
) -> Iterator[tuple[Difference, bytes]]:
    """The differences of records that only one side has within a block: two at the same index were changed."""
    both = min(len(missing), len(extra))
    for mine, theirs in zip(missing, extra, strict=False):
        fields = mine.hash.differs_in(theirs.hash)
        yield Difference("changed", mine.offset, theirs.offset, fields), mine.hash.key
    for record in missing[both:]:
        yield Difference("missing", record.offset, target), record.hash.key
    for record in extra[both:]:
        yield Difference("extra", source, record.offset), record.hash.key


def _offset_behind(records: Sequence[HashedRecord], span: tuple[int, int], end: int) -> int:
    return records[span[1]].offset if span[1] < len(records) else end
