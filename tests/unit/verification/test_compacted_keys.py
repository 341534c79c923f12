"""Compacted copies: whatever the cleaners took on either side is no difference, and what else differs is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.verification.compacted import (
    LastRecordHashes,
    LastRecords,
    differing_keys,
    key_differences,
    key_is_sampled,
)
from mirror_ray.verification.difference import Difference

_LOG = st.lists(st.tuples(st.integers(0, 6), st.none() | st.binary(max_size=2)), max_size=60)


def log_of(contents: list[tuple[int, bytes | None]], first: int = 0) -> list[DecodedRecord]:
    """Records with keys; a value of None is a tombstone."""
    return [
        DecodedRecord(first + number, number, record_tail(b"%d" % key, value))
        for number, (key, value) in enumerate(contents)
    ]


def cleaned(log: list[DecodedRecord], data: st.DataObject) -> list[DecodedRecord]:
    """What a cleaner may leave: up to some offset any record that is not its key's last, or is a tombstone, may go."""
    dirty_from = data.draw(st.integers(0, len(log)))
    last = {record.key: record.offset for record in log}
    gone = {
        record.offset
        for record in log[:dirty_from]
        if (record.offset != last[record.key] or record.value is None) and data.draw(st.booleans())
    }
    return [record for record in log if record.offset not in gone or keeps_order(record, log, gone)]


def keeps_order(record: DecodedRecord, log: list[DecodedRecord], gone: set[int]) -> bool:
    """A tombstone goes only after all that it deletes."""
    before = [other for other in log if other.key == record.key and other.offset < record.offset]
    return record.value is None and any(other.offset not in gone for other in before)


def compared(source: list[DecodedRecord], target: list[DecodedRecord]) -> list[Difference]:
    """Both looks after each other; the second one tells no more and no less than the first."""
    mine, theirs = LastRecords(timestamps=True), LastRecords(timestamps=True)
    mine.take(source)
    theirs.take(target)
    keys = differing_keys(mine.found, theirs.found)
    hashes = LastRecordHashes(True, keys), LastRecordHashes(True, keys)
    for side, log in zip(hashes, (source, target), strict=True):
        side.take(log)
    findings = key_differences(*hashes, (500, 600))
    assert len(findings) == len(keys)
    return findings


@given(_LOG, st.data())
def test_cleaned_at_different_times_is_equal(contents: list[tuple[int, bytes | None]], data: st.DataObject) -> None:
    """Of one log, whatever each side's cleaner has done to it."""
    source, target = log_of(contents), log_of(contents, first=100)
    assert compared(cleaned(source, data), list(cleaned_copy(target, data))) == []


def cleaned_copy(target: list[DecodedRecord], data: st.DataObject) -> list[DecodedRecord]:
    """The same of a log that begins elsewhere."""
    moved = [record._replace(offset=number) for number, record in enumerate(target)]
    return [record._replace(offset=100 + record.offset) for record in cleaned(moved, data)]


def test_each_difference_is_named() -> None:
    """By the offsets of the last records, in the order of the source; a tombstone is the place of what is missing."""
    source = log_of([(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d"), (1, b"e"), (5, None)])
    target = log_of([(1, b"x"), (2, b"b"), (3, None), (4, b"D"), (1, b"e"), (5, b"f")], first=100)
    assert compared(source, target) == [
        Difference("missing", 2, 102),
        Difference("changed", 3, 103, ("value",)),
        Difference("extra", 5, 105),
    ]


def test_without_a_tombstone_the_place_is_the_end() -> None:
    """Nothing there says that the key was deleted."""
    assert compared(log_of([(1, b"a")]), []) == [Difference("missing", 0, 600)]
    assert compared([], log_of([(1, b"a")])) == [Difference("extra", 500, 0)]


def test_records_without_a_key_are_passed_over() -> None:
    """The cleaner drops them."""
    assert compared([DecodedRecord(0, 0, record_tail(None, b"a"))], []) == []


def test_a_fraction_of_the_keys() -> None:
    """About so many, the same ones on both sides."""
    keys = [b"key %d" % number for number in range(2000)]
    assert 300 < sum(key_is_sampled(key, 0.2) for key in keys) < 500
    assert all(key_is_sampled(key, 1.0) for key in keys)


def test_records_without_a_key_are_not_passed_over() -> None:
    """A side that is not compacted keeps them: where one is there alone both sides are not the same."""
    mine, theirs, sample = LastRecords(timestamps=True), LastRecords(timestamps=True), LastRecords(True, 0.5)
    log, foreign = log_of([(1, b"a"), (2, b"b")]), DecodedRecord(2, 0, record_tail(None, b"foreign"))
    mine.take(log)
    theirs.take([*log, foreign])
    assert mine.digest != theirs.digest
    assert (mine.records, theirs.records, set(theirs.found)) == (2, 2, {b"1", b"2"})
    nothing = sample.digest
    sample.take([foreign])
    assert sample.digest == nothing
