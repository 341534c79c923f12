"""Records behind the acknowledged pair: what is not the source's next one is named, whatever is left to copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.verification.difference import Difference, HashedRecord, hash_record
from mirror_ray.verification.in_flight import compacted_in_flight_differences, in_flight_differences
from mirror_ray.verification.ranges import PositionPair

COPIED = PositionPair(20, 100)
_CONTENTS = st.lists(st.tuples(st.integers(0, 3), st.none() | st.binary(max_size=1)), max_size=25)


def one(offset: int, key: str | None, value: str | None, timestamp: int = 0) -> HashedRecord:
    """A record by what it is compared by."""
    tail = record_tail(None if key is None else key.encode(), None if value is None else value.encode())
    return hash_record(DecodedRecord(offset, timestamp, tail), timestamps=True)


def log(first: int, *texts: str) -> list[HashedRecord]:
    """Records from an offset on: a key, and a value behind it."""
    return [one(first + at, text[0], text[1:], int(text[1:] or 0)) for at, text in enumerate(texts)]


SOURCE = log(20, "a1", "b2", "c3", "a4", "b5", "c6")
Way = Callable[[Sequence[HashedRecord], Sequence[HashedRecord]], list[Difference]]


def in_order(ours: Sequence[HashedRecord], following: Sequence[HashedRecord]) -> list[Difference]:
    """Where every record counts."""
    return in_flight_differences(ours, following, COPIED)


def of_cleaned(ours: Sequence[HashedRecord], following: Sequence[HashedRecord]) -> list[Difference]:
    """Where cleaners may have taken some."""
    return compacted_in_flight_differences(ours, following, COPIED, 26, ())


@pytest.mark.parametrize("way", [in_order, of_cleaned])
def test_the_next_ones(way: Way) -> None:
    """However many they are; what is not copied yet is no difference."""
    texts = ("a1", "b2", "c3", "a4", "b5", "c6")
    for count in range(len(texts) + 1):
        assert way(log(100, *texts[:count]), SOURCE) == []


@pytest.mark.parametrize("left", [2, 6])
@pytest.mark.parametrize("way", [in_order, of_cleaned])
def test_the_last_acknowledged_once_more(way: Way, left: int) -> None:
    """Whatever the source has still to copy; newer records of its key, too."""
    for last in ("z9", "c0"):
        assert [difference.target_offset for difference in way(log(100, last), SOURCE[:left])] == [100]
        found = way(log(100, last, "a1", "b2"), SOURCE[:left])
        assert [(difference.kind, difference.target_offset) for difference in found] == [("extra", 100)]


@pytest.mark.parametrize("way", [in_order, of_cleaned])
def test_each_fault(way: Way) -> None:
    """Doubled, missing, changed, in each other's place."""
    faults = {"doubled": ("a1", "b2", "b2", "c3"), "missing": ("a1", "c3"), "swapped": ("b2", "a1", "c3")}
    kinds = {name: [difference.kind for difference in way(log(100, *texts), SOURCE)] for name, texts in faults.items()}
    assert kinds["missing"] == ["missing"]
    assert kinds["doubled"] in (["doubled"], ["extra"])
    assert kinds["swapped"] in (["swapped"], ["moved"])
    for changed in (one(102, "c", "other", 3), one(102, "x", "3", 3), one(102, "c", "3", 4)):
        assert way([*log(100, "a1", "b2"), changed], SOURCE) != []
    (found,) = in_order([*log(100, "a1", "b2"), one(102, "c", "other", 3)], SOURCE)
    assert (found.kind, found.fields) == ("changed", ("value",))


def test_records_that_are_all_alike() -> None:
    """How many of them are copied is not known, so none is missing."""
    alike = [one(at, "a", "1") for at in range(20, 60)]
    assert in_order([one(at, "a", "1") for at in range(100, 103)], alike) == []


def test_what_a_cleaner_took_of_the_source() -> None:
    """It leaves a hole, and a newer record of the key; without either, the record is too much."""
    assert of_cleaned(log(100, "a1", "b2"), [record for record in SOURCE if record.offset != 20]) == []
    assert of_cleaned(log(100, "a1", "b2", "c3"), SOURCE[3:]) == []
    alone = [record for record in SOURCE if record.offset not in (20, 23)]
    assert of_cleaned(log(100, "a1", "b2"), alone) == [Difference("extra", 20, 100)]
    # A tombstone goes by itself in the end, and what it deleted before it.
    assert of_cleaned([*log(100, "a1"), one(101, "a", None), *log(102, "c3")], SOURCE[2:]) == []


@given(_CONTENTS, st.integers(0, 25), st.data())
def test_cleaned_at_any_time(contents: list[tuple[int, bytes | None]], copied: int, data: st.DataObject) -> None:
    """Whatever was taken of both sides for newer records is no difference."""
    source = [DecodedRecord(20 + at, at, record_tail(b"%d" % key, value)) for at, (key, value) in enumerate(contents)]
    target = [record._replace(offset=record.offset + 80) for record in source[:copied]]
    later = {record.key: record.offset for record in source}
    newest = {record.key: record.offset for record in target}

    def cleaned(records: Sequence[DecodedRecord], last: dict[bytes | None, int]) -> list[HashedRecord]:
        gone = {record.offset for record in records if record.offset != last[record.key] and data.draw(st.booleans())}
        return [hash_record(record, timestamps=True) for record in records if record.offset not in gone]

    ours = cleaned(target, newest)
    assert compacted_in_flight_differences(ours, cleaned(source, later), COPIED, 20 + len(source), ()) == []
