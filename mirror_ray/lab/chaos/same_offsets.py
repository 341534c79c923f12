"""Whether each record of a copy is at its source's offset, as consumers of committed records see both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest

from mirror_ray.lab.judge import CopyVerdict, judge_compacted
from mirror_ray.lab.load_record import LoadRecord, PlacedRecord, record_id

_Placed = dict[int, LoadRecord]


def judge_offsets(source: Iterable[PlacedRecord], target: Iterable[PlacedRecord]) -> CopyVerdict:
    """The target holds the source's records, each at its offset, and nothing else."""
    counts = [0, 0]
    difference: str | None = None
    for wanted, found in zip_longest(source, target):
        counts[0] += wanted is not None
        counts[1] += found is not None
        if difference is None and wanted != found:
            difference = f"record {max(counts) - 1}: the source has {_named(wanted)}, the target has {_named(found)}"
    return CopyVerdict(source_records=counts[0], target_records=counts[1], difference=difference)


def judge_compacted_offsets(
    source: Iterable[PlacedRecord], target: Iterable[PlacedRecord], *, cleaned: bool
) -> CopyVerdict:
    """The target of a source that is compacted all the time; with ``cleaned`` the target is compacted, too.

    Beside what ``judge_compacted`` says: no offset has two records, the last value of each key is at the same offset,
    and what one side alone has, the other side's cleaner may have taken, since a newer record of the key, or a
    tombstone, is there. A target that is not ``cleaned`` has all that the source has.
    """
    held, copied = list(source), list(target)
    verdict = judge_compacted(held, copied, cleaned=cleaned)
    there, here = _by_offset(held), _by_offset(copied)
    problems = [
        verdict.difference,
        _at_odds(there, here),
        _last_elsewhere(held, copied),
        _not_cleaned(there, here, "the target") if cleaned else _missing(there, here),
        _not_cleaned(here, there, "the source"),
    ]
    difference = next((problem for problem in problems if problem is not None), None)
    return CopyVerdict(source_records=len(held), target_records=len(copied), difference=difference)


def _by_offset(records: Iterable[PlacedRecord]) -> _Placed:
    return {placed.offset: placed.record for placed in records}


def _at_odds(source: _Placed, target: _Placed) -> str | None:
    """The first offset at which both sides have a record, and not the same one."""
    for offset, record in target.items():
        if offset in source and source[offset] != record:
            return (
                f"the source has {_named(PlacedRecord(offset, source[offset]))}, "
                f"the target has {_named(PlacedRecord(offset, record))}"
            )
    return None


def _missing(source: _Placed, target: _Placed) -> str | None:
    for offset, record in source.items():
        if offset not in target:
            return f"the target lacks {_named(PlacedRecord(offset, record))}"
    return None


def _last_elsewhere(source: Iterable[PlacedRecord], target: Iterable[PlacedRecord]) -> str | None:
    wanted, found = _last_values(source), _last_values(target)
    for key in sorted({*wanted, *found}, key=repr):
        if wanted.get(key) != found.get(key):
            return (
                f"the last value of key {key!r}: the source has {_named(wanted.get(key))}, "
                f"the target has {_named(found.get(key))}"
            )
    return None


def _last_values(records: Iterable[PlacedRecord]) -> Mapping[bytes | None, PlacedRecord]:
    """Without keys that end with a tombstone, which a cleaner may have taken."""
    last = {placed.record.key: placed for placed in records}
    return {key: placed for key, placed in last.items() if placed.record.value is not None}


def _not_cleaned(held: _Placed, other: _Placed, side: str) -> str | None:
    """A record that ``side``, the ``other`` one, lacks, and that its cleaner has not taken.

    A cleaner takes tombstones, and records behind which one of their key comes; those of the key that are before it
    have gone with it, or earlier.
    """
    last = {record.key: offset for offset, record in held.items()}
    first_left: dict[bytes | None, int] = {}
    for offset, record in other.items():
        first_left.setdefault(record.key, offset)
    for offset, record in held.items():
        if offset in other:
            continue
        is_live = record.value is not None and last[record.key] == offset
        if is_live or first_left.get(record.key, offset) < offset:
            return f"{side} lacks {_named(PlacedRecord(offset, record))}"
    return None


def _named(placed: PlacedRecord | None) -> str:
    if placed is None:
        return "nothing"
    found = record_id(placed.record)
    written = repr(placed.record)[:200] if found is None else f"{found.writer} {found.number}"
    return f"{written} at offset {placed.offset}"
