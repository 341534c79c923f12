"""Compacted partitions, record by record: both sides hold what the cleaners left of one sequence, in its order.

Cleaning leaves a hole in the offsets, and a newer record of the key. So a record that only one side has was cleaned on
the other one only if that has a hole there and a newer record of the key, or none of it at all; else it is missing, or
too much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror_ray.records.decode import DecodedRecord
from mirror_ray.verification.compared_ranges import PositionPair
from mirror_ray.verification.difference import Difference
from mirror_ray.verification.record_hashes import HashedRecord, RecordHash, printed


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
            content = printed(record, timestamps=self.timestamps)
            self.found.append(content)
            if (key := record.key) is not None:
                self.keys[content.print.key] = key

    def forget_before(self, offset: int) -> None:
        """Without what lies before an offset."""
        self.found = [record for record in self.found if record.offset >= offset]


class CompactedRecords(NamedTuple):
    """What the comparison came to."""

    #: Each with its record's key, by its hash as in ``RecordHash``.
    findings: list[tuple[Difference, bytes]]
    cleaned_on_source: int
    cleaned_on_target: int

    @property
    def keys(self) -> set[bytes]:
        """Keys of what differs, by their hashes."""
        return {key for _, key in self.findings}


class _Stretch(NamedTuple):
    """What lies between two records that both sides have; positions in each side's records, the ends not included."""

    source: tuple[int, int]
    target: tuple[int, int]
    #: Offsets without a record.
    source_holes: int
    target_holes: int


def in_order(
    source: Sequence[HashedRecord],
    target: Sequence[HashedRecord],
    begin: PositionPair,
    end: PositionPair,
    superseded: Collection[bytes] = (),
) -> CompactedRecords:
    """What differs between both sides that is not the cleaners' doing.

    Args:
        source: Records between ``begin`` and ``end``.
        target: As ``source``.
        begin: Where both sides begin.
        end: Where both end.
        superseded: Hashes of keys that have newer records behind the end.
    """
    pairs = _twins(source, target)
    kept = set(_rising([mine for mine, _ in pairs]))
    aligned = [pair for at, pair in enumerate(pairs) if at in kept]
    moved = [pair for at, pair in enumerate(pairs) if at not in kept]
    findings = [
        (Difference("moved", source[mine].offset, target[theirs].offset), source[mine].print.key)
        for mine, theirs in moved
    ]
    paired = {mine for mine, _ in pairs}, {theirs for _, theirs in pairs}
    lasts = _lasts(source), _lasts(target)
    cleaned_on_source = cleaned_on_target = 0
    for stretch in _stretches(source, target, aligned, begin, end):
        mine = [at for at in range(*stretch.source) if at not in paired[0]]
        theirs = [at for at in range(*stretch.target) if at not in paired[1]]
        missing = _unexcused([source[at] for at in mine], lasts[1], stretch.target, stretch.target_holes, superseded)
        extra = _unexcused([target[at] for at in theirs], lasts[0], stretch.source, stretch.source_holes, superseded)
        cleaned_on_target += len(mine) - len(missing)
        cleaned_on_source += len(theirs) - len(extra)
        findings += _told(
            missing, extra, _place(source, stretch.source, end[0]), _place(target, stretch.target, end[1])
        )
    return CompactedRecords(findings, cleaned_on_source, cleaned_on_target)


def _twins(source: Sequence[HashedRecord], target: Sequence[HashedRecord]) -> list[tuple[int, int]]:
    """Positions of equal records, ascending on the target; of several the last ones: the first are cleaned first."""
    places: dict[RecordHash, list[int]] = defaultdict(list)
    for at, record in enumerate(source):
        places[record.print].append(at)
    found = [
        (left.pop(), at)
        for at in range(len(target) - 1, -1, -1)
        if (left := places.get(target[at].print)) is not None and left
    ]
    return found[::-1]


def _rising(numbers: Sequence[int]) -> list[int]:
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


def _lasts(records: Sequence[HashedRecord]) -> dict[bytes, int]:
    """The position of each key's last record."""
    return {record.print.key: at for at, record in enumerate(records)}


def _stretches(
    source: Sequence[HashedRecord],
    target: Sequence[HashedRecord],
    aligned: Sequence[tuple[int, int]],
    begin: PositionPair,
    end: PositionPair,
) -> Iterator[_Stretch]:
    before = (-1, -1)
    for mine, theirs in [*aligned, (len(source), len(target))]:
        if (mine, theirs) != (before[0] + 1, before[1] + 1) or mine == len(source):
            yield _Stretch(
                (before[0] + 1, mine),
                (before[1] + 1, theirs),
                _holes(source, before[0], mine, begin.source, end.source),
                _holes(target, before[1], theirs, begin.target, end.target),
            )
        before = mine, theirs


def _holes(records: Sequence[HashedRecord], before: int, behind: int, begin: int, end: int) -> int:
    first = records[before].offset + 1 if before >= 0 else begin
    last = records[behind].offset if behind < len(records) else end
    return max(0, last - first - (behind - before - 1))


def _unexcused(
    alone: Sequence[HashedRecord],
    lasts: dict[bytes, int],
    there: tuple[int, int],
    holes: int,
    superseded: Collection[bytes],
) -> list[HashedRecord]:
    """Which records of one side were not cleaned on the other: whose last records by key, and holes, are given."""
    found: list[HashedRecord] = []
    for record in alone:
        last = lasts.get(record.print.key)
        newer = last is None or last >= there[0] or record.print.key in superseded
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
        fields = mine.print.differs_in(theirs.print)
        yield Difference("changed", mine.offset, theirs.offset, fields), mine.print.key
    for record in missing[both:]:
        yield Difference("missing", record.offset, target), record.print.key
    for record in extra[both:]:
        yield Difference("extra", source, record.offset), record.print.key


def _place(records: Sequence[HashedRecord], span: tuple[int, int], end: int) -> int:
    return records[span[1]].offset if span[1] < len(records) else end
