"""Compacted partitions: of every key, the last record on both sides. Pure.

Either side may have been cleaned at any time: of what lies between two pairs, only each key's last record is sure to be
there, and not even that where it is a tombstone, or where a newer record of the key lies behind the pair.


Compacted partitions, record by record: both sides hold what the cleaners left of one sequence, in its order.

Cleaning leaves a hole in the offsets, and a newer record of the key. So a record that only one side has was cleaned on
the other one only if that has a hole there and a newer record of the key, or none of it at all; else it is missing, or
too much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from mirror_ray.records.decode import DecodedRecord
from mirror_ray.verification.difference import Difference, HashedRecord, RecordHash, hash_record, record_digest
from mirror_ray.verification.ranges import PositionPair


class LastRecord(NamedTuple):
    """The last record of a key, by its hash; an empty one is a tombstone."""

    offset: int
    digest: bytes


@dataclass(slots=True)
class LastRecords:
    """Takes the records of one side, in order.

    Attributes:
        found: By key.
        records: How many there were that have a key.
        digest: Over all of them, in their order, and but for a sample over those without a key: a cleaner drops these,
            but not where it does not run.
    """

    timestamps: bool
    fraction: float = 1.0
    found: dict[bytes, LastRecord] = field(default_factory=dict)
    records: int = 0
    _all: blake2b = field(default_factory=lambda: blake2b(digest_size=16))

    @property
    def digest(self) -> bytes:
        """See above."""
        return self._all.digest()

    def take(self, records: Iterable[DecodedRecord]) -> None:
        """Take the next records."""
        for record in records:
            key, value, _ = record.fields()
            if not (self.fraction >= 1 if key is None else key_is_sampled(key, self.fraction)):
                continue
            digest = record_digest(record, timestamps=self.timestamps)
            self._all.update(digest)
            if key is not None:
                self.records += 1
                self.found[key] = LastRecord(record.offset, b"" if value is None else digest)


@dataclass(slots=True)
class LastRecordHashes:
    """As ``LastRecords``, for these keys alone and field by field. A tombstone is as no record; its offset is kept."""

    timestamps: bool
    keys: Collection[bytes]
    found: dict[bytes, HashedRecord] = field(default_factory=dict)
    dead: dict[bytes, int] = field(default_factory=dict)

    def take(self, records: Iterable[DecodedRecord]) -> None:
        """Take the next records."""
        for record in records:
            key, value, _ = record.fields()
            if key is None or key not in self.keys:
                continue
            if value is None:
                self.found.pop(key, None)
                self.dead[key] = record.offset
            else:
                self.found[key] = hash_record(record, timestamps=self.timestamps)
                self.dead.pop(key, None)

    def forget(self, keys: Collection[bytes]) -> None:
        """Without these keys."""
        for key in keys:
            self.found.pop(key, None)
            self.dead.pop(key, None)

    def forget_before(self, offset: int) -> None:
        """Without what lies before an offset."""
        self.found = {key: each for key, each in self.found.items() if each.offset >= offset}
        self.dead = {key: each for key, each in self.dead.items() if each >= offset}


def key_is_sampled(key: bytes, fraction: float) -> bool:
    """Whether a key is one of that fraction of all keys: the same ones every time."""
    return fraction >= 1 or crc32(key) < fraction * (1 << 32)


def differing_keys(source: Mapping[bytes, LastRecord], target: Mapping[bytes, LastRecord]) -> set[bytes]:
    """The keys whose last records differ; a tombstone is as no record."""
    nothing = LastRecord(-1, b"")
    return {
        key
        for key in source.keys() | target.keys()
        if source.get(key, nothing).digest != target.get(key, nothing).digest
    }


def key_differences(source: LastRecordHashes, target: LastRecordHashes, ends: tuple[int, int]) -> list[Difference]:
    """What differs between the last records of the same keys.

    One that is missing has its place at the tombstone that is there instead, or at the other side's end.
    """
    found: list[Difference] = []
    for key in source.found.keys() | target.found.keys():
        mine, theirs = source.found.get(key), target.found.get(key)
        if mine is None and theirs is not None:
            found.append(Difference("extra", source.dead.get(key, ends[0]), theirs.offset))
        elif mine is not None and theirs is None:
            found.append(Difference("missing", mine.offset, target.dead.get(key, ends[1])))
        elif mine is not None and theirs is not None and mine.hash != theirs.hash:
            found.append(Difference("changed", mine.offset, theirs.offset, mine.hash.differs_in(theirs.hash)))
    return sorted(found, key=lambda each: (each.source_offset, each.target_offset))


@dataclass(slots=True)
class RecordHashes:
    """Takes the records of one side, in order."""

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

    def forget_before(self, offset: int) -> None:
        """Without what lies before an offset."""
        self.found = [record for record in self.found if record.offset >= offset]


class OrderedComparison(NamedTuple):
    """What the comparison came to."""

    #: Each with its record's key, by its hash as in ``RecordHash``.
    differences: list[tuple[Difference, bytes]]
    cleaned_on_source: int
    cleaned_on_target: int

    @property
    def keys(self) -> set[bytes]:
        """Keys of what differs, by their hashes."""
        return {key for _, key in self.differences}


class _Block(NamedTuple):
    """What lies between two records that both sides have; positions in each side's records, the ends not included."""

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
    """What differs between both sides that is not the cleaners' doing.

    Args:
        source: Records between ``begin`` and ``end``.
        target: As ``source``.
        begin: Where both sides begin.
        end: Where both end.
        superseded: Hashes of keys that have newer records behind the end.
    """
    pairs = _equal_records(source, target)
    kept = set(_longest_increasing([mine for mine, _ in pairs]))
    aligned = [pair for at, pair in enumerate(pairs) if at in kept]
    moved = [pair for at, pair in enumerate(pairs) if at not in kept]
    findings = [
        (Difference("moved", source[mine].offset, target[theirs].offset), source[mine].hash.key)
        for mine, theirs in moved
    ]
    paired = {mine for mine, _ in pairs}, {theirs for _, theirs in pairs}
    lasts = _last_by_key(source), _last_by_key(target)
    cleaned_on_source = cleaned_on_target = 0
    for stretch in _blocks(source, target, aligned, begin, end):
        mine = [at for at in range(*stretch.source) if at not in paired[0]]
        theirs = [at for at in range(*stretch.target) if at not in paired[1]]
        missing = _not_cleaned(
            [source[at] for at in mine], lasts[1], stretch.target, stretch.target_gap_offsets, superseded
        )
        extra = _not_cleaned(
            [target[at] for at in theirs], lasts[0], stretch.source, stretch.source_gap_offsets, superseded
        )
        cleaned_on_target += len(mine) - len(missing)
        cleaned_on_source += len(theirs) - len(extra)
        findings += _told(
            missing, extra, _place(source, stretch.source, end[0]), _place(target, stretch.target, end[1])
        )
    return OrderedComparison(findings, cleaned_on_source, cleaned_on_target)


def _equal_records(source: Sequence[HashedRecord], target: Sequence[HashedRecord]) -> list[tuple[int, int]]:
    """Positions of equal records, ascending on the target; of several the last ones: the first are cleaned first."""
    places: dict[RecordHash, list[int]] = defaultdict(list)
    for at, record in enumerate(source):
        places[record.hash].append(at)
    found = [
        (left.pop(), at)
        for at in range(len(target) - 1, -1, -1)
        if (left := places.get(target[at].hash)) is not None and left
    ]
    return found[::-1]


def _longest_increasing(numbers: Sequence[int]) -> list[int]:
    """Positions of a longest rising subsequence."""
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
    """The position of each key's last record."""
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
    alone: Sequence[HashedRecord],
    lasts: dict[bytes, int],
    there: tuple[int, int],
    holes: int,
    superseded: Collection[bytes],
) -> list[HashedRecord]:
    """Which records of one side were not cleaned on the other: whose last records by key, and holes, are given."""
    found: list[HashedRecord] = []
    for record in alone:
        last = lasts.get(record.hash.key)
        newer = last is None or last >= there[0] or record.hash.key in superseded
        if newer and holes:
            holes -= 1
        else:
            found.append(record)
    return found


def _told(
    missing: Sequence[HashedRecord], extra: Sequence[HashedRecord], source: int, target: int
) -> Iterator[tuple[Difference, bytes]]:
    """Records of one stretch that only one side has: two at the same place were changed."""
    both = min(len(missing), len(extra))
    for mine, theirs in zip(missing, extra, strict=False):
        fields = mine.hash.differs_in(theirs.hash)
        yield Difference("changed", mine.offset, theirs.offset, fields), mine.hash.key
    for record in missing[both:]:
        yield Difference("missing", record.offset, target), record.hash.key
    for record in extra[both:]:
        yield Difference("extra", source, record.offset), record.hash.key


def _place(records: Sequence[HashedRecord], span: tuple[int, int], end: int) -> int:
    return records[span[1]].offset if span[1] < len(records) else end
