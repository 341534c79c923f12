"""Whether each record of a copy is at its source's offset, and what is said when one is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.lab.chaos.same_offsets import judge_compacted_offsets, judge_offsets
from mirror_ray.lab.load_record import PlacedRecord, make_record

FIRST = 3_000_000_000

#: Offsets between one record and the next one: markers, aborted records.
_gaps = st.lists(st.integers(1, 4), min_size=1, max_size=60)


def log(gaps: list[int], *, keys: int = 0) -> list[PlacedRecord]:
    """A log with these gaps; with ``keys`` its records have so many of them, and some are tombstones."""
    placed, offset = [], FIRST
    for number, gap in enumerate(gaps):
        record = make_record("w", number, 0, 1_800_000_000_000, keyed=bool(keys))
        if keys:
            record = record._replace(key=b"%d" % (number * 7 % keys))
        placed.append(PlacedRecord(offset, record))
        offset += gap
    return placed


def cleaned(records: list[PlacedRecord], below: int, *, tombstones: bool) -> list[PlacedRecord]:
    """What a cleaner leaves that has come to the record of that index; it may take tombstones, too."""
    last = {placed.record.key: index for index, placed in enumerate(records[:below])}
    return [
        placed
        for index, placed in enumerate(records)
        if index >= below or (last[placed.record.key] == index and not (tombstones and placed.record.value is None))
    ]


@given(_gaps)
def test_a_copy_with_the_same_offsets_has_no_difference(gaps: list[int]) -> None:
    """Both sides are counted."""
    verdict = judge_offsets(log(gaps), iter(log(gaps)))
    assert (verdict.source_records, verdict.target_records, verdict.difference) == (len(gaps), len(gaps), None)


@given(_gaps, st.data())
def test_a_record_that_is_elsewhere_is_found(gaps: list[int], data: st.DataObject) -> None:
    """Missing, twice, changed, or at another offset: each of the two records is named with its offset."""
    source = log(gaps)
    target = list(source)
    index = wrong = data.draw(st.integers(0, len(gaps) - 1))
    match data.draw(st.sampled_from(["missing", "twice", "changed", "moved"])):
        case "missing":
            del target[index]
        case "twice":
            target.insert(index, target[index])
            wrong += 1
        case "changed":
            target[index] = PlacedRecord(target[index].offset, target[index].record._replace(value=b"another"))
        case _:
            target[index] = PlacedRecord(target[index].offset + 1, target[index].record)
    expected = f"w {wrong} at offset {source[wrong].offset}" if wrong < len(gaps) else "nothing"
    difference = judge_offsets(source, target).difference
    assert difference is not None
    assert difference.startswith(f"record {wrong}: the source has {expected}, the target has ")


@given(_gaps, st.integers(1, 8), st.data())
def test_any_cleaning_of_both_sides_is_no_difference(gaps: list[int], keys: int, data: st.DataObject) -> None:
    """How far each cleaner has come, and which of them has taken tombstones."""
    written = log(gaps, keys=keys)
    held, copied = (
        cleaned(written, data.draw(st.integers(0, len(gaps))), tombstones=data.draw(st.booleans())) for _ in range(2)
    )
    assert judge_compacted_offsets(held, copied, cleaned=True).difference is None
    assert judge_compacted_offsets(held, written, cleaned=False).difference is None


@given(_gaps, st.integers(1, 8), st.data())
def test_a_record_of_a_compacted_copy_that_is_elsewhere_is_found(
    gaps: list[int], keys: int, data: st.DataObject
) -> None:
    """One that the source still has, wherever the target's cleaner is."""
    written = log(gaps, keys=keys)
    held = cleaned(written, data.draw(st.integers(0, len(gaps))), tombstones=False)
    if not held:
        return
    chosen = data.draw(st.sampled_from(held))
    target = [
        PlacedRecord(placed.offset - 1, placed.record) if placed == chosen else placed
        for placed in written
        if placed.offset != chosen.offset - 1
    ]
    is_cleaned = data.draw(st.booleans(), label="the target is cleaned")
    if is_cleaned:
        target = cleaned(target, data.draw(st.integers(0, len(target))), tombstones=False)
    if chosen.record in {placed.record for placed in target}:
        assert judge_compacted_offsets(held, target, cleaned=is_cleaned).difference is not None


@pytest.mark.parametrize("is_cleaned", [True, False])
def test_what_no_cleaner_takes_is_said_by_name(is_cleaned: bool) -> None:
    """The last value of a key, and a record that the source has lost."""
    written = log([1] * 6, keys=2)
    short = [placed for placed in written if placed.offset != FIRST + 5]
    assert judge_compacted_offsets(written, short, cleaned=is_cleaned).difference is not None
    assert judge_compacted_offsets(short, written, cleaned=is_cleaned).difference is not None
