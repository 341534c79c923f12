"""Compacted copies, by their last records and in order: what cleaners may take is no difference, all else is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.verification.compacted import LastRecordHashes, OrderedComparison, compare_in_order, key_differences
from mirror_ray.verification.difference import Difference, HashedRecord, hash_record
from mirror_ray.verification.last_records import LastRecords, differing_keys, key_slice
from mirror_ray.verification.ranges import PositionPair

KEYS = st.lists(st.integers(0, 6), min_size=1, max_size=40)


def copied(keys: list[int]) -> list[HashedRecord]:
    """A record of each key; all differ. Every seventh is a tombstone."""
    return [
        hash_record(
            DecodedRecord(at, at, record_tail(b"%d" % key, None if at % 7 == 6 else b"value %d" % at)), timestamps=True
        )
        for at, key in enumerate(keys)
    ]


def cleaned(records: list[HashedRecord], up_to: int, *, forgotten: bool) -> list[HashedRecord]:
    """What the cleaner leaves that has come ``up_to`` an offset; of tombstones nothing, if they are ``forgotten``."""
    last = {record.hash.key: record.offset for record in records[:up_to]}
    kept = {offset for offset in last.values() if not (forgotten and offset % 7 == 6)}
    return [record for record in records if record.offset >= up_to or record.offset in kept]


def differences(source: list[HashedRecord], target: list[HashedRecord], length: int) -> OrderedComparison:
    """Between both, of so many offsets."""
    return compare_in_order(source, target, PositionPair(0, 0), PositionPair(length, length))


@given(keys=KEYS, mine=st.integers(0, 40), theirs=st.integers(0, 40), forgotten=st.booleans())
def test_cleaning_is_no_difference(keys: list[int], mine: int, theirs: int, *, forgotten: bool) -> None:
    """Whatever each side's cleaner has taken; records on one side alone are counted."""
    every = copied(keys)
    source = cleaned(every, min(mine, len(keys)), forgotten=forgotten)
    target = cleaned(every, min(theirs, len(keys)), forgotten=forgotten)
    found = differences(source, target, len(keys))
    assert found.differences == []
    on_source, on_target = ({record.offset for record in side} for side in (source, target))
    assert (found.cleaned_on_source, found.cleaned_on_target) == (
        len(on_target - on_source),
        len(on_source - on_target),
    )


def faulty(records: list[HashedRecord], fault: str, at: int) -> list[HashedRecord]:
    """A copy with a fault, at offsets without a hole."""
    found = [record.hash for record in records]
    match fault:
        case "missing":
            del found[at]
        case "doubled":
            found.insert(at, found[at])
        case "foreign":
            found.insert(at, found[at]._replace(value=b"nobody's"))
        case "changed":
            found[at] = found[at]._replace(value=b"other")
        case "moved":
            found.insert(len(found) if at < len(found) // 2 else 0, found.pop(at))
    return [HashedRecord(offset, content) for offset, content in enumerate(found)]


@given(
    keys=KEYS.filter(lambda keys: len(keys) > 3),
    fault=st.sampled_from(["missing", "doubled", "foreign", "changed", "moved"]),
    place=st.floats(0, 1, exclude_max=True),
)
def test_a_fault_is_found_wherever_it_is(keys: list[int], fault: str, place: float) -> None:
    """Also of a record of which a newer one of its key is there, where no cleaner was at work."""
    every = copied(keys)
    target = faulty(every, fault, int(place * len(keys)))
    found = compare_in_order(every, target, PositionPair(0, 0), PositionPair(len(every), len(target)))
    kinds = {"missing": "missing", "doubled": "extra", "foreign": "extra", "changed": "changed", "moved": "moved"}
    assert [difference.kind for difference, _ in found.differences] == [kinds[fault]]


def test_superseded_behind_the_end() -> None:
    """A hole, and a key with a newer record behind the end: that is the cleaner's doing, without one it is not."""
    every = copied([2, 1, 2, 3])
    target = [every[0], every[1], every[3]]
    (found,) = differences(every, target, 4).differences
    assert found == (Difference("missing", 2, 3), every[2].hash.key)
    spared = compare_in_order(every, target, PositionPair(0, 0), PositionPair(4, 4), {every[2].hash.key})
    assert (spared.differences, spared.cleaned_on_target) == ([], 1)


_LOG = st.lists(st.tuples(st.integers(0, 6), st.none() | st.binary(max_size=2)), max_size=60)


def log_of(contents: list[tuple[int, bytes | None]], first: int = 0) -> list[DecodedRecord]:
    """Records with keys; a value of None is a tombstone."""
    return [
        DecodedRecord(first + number, number, record_tail(b"%d" % key, value))
        for number, (key, value) in enumerate(contents)
    ]


def cleaned_keys(log: list[DecodedRecord], data: st.DataObject) -> list[DecodedRecord]:
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
    assert compared(cleaned_keys(source, data), list(cleaned_copy(target, data))) == []


def cleaned_copy(target: list[DecodedRecord], data: st.DataObject) -> list[DecodedRecord]:
    """The same of a log that begins elsewhere."""
    moved = [record._replace(offset=number) for number, record in enumerate(target)]
    return [record._replace(offset=100 + record.offset) for record in cleaned_keys(moved, data)]


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
    log = log_of([(number, b"") for number in range(2000)])
    some, every = LastRecords(True, key_slice(0.2)), LastRecords(True, key_slice(1.0))
    some.take(log)
    every.take(log)
    assert 300 < len(some.found) < 500
    assert len(every.found) == 2000


def test_records_without_a_key_are_not_passed_over() -> None:
    """A side that is not compacted keeps them: where one is there alone both sides are not the same."""
    mine, theirs, sample = LastRecords(timestamps=True), LastRecords(timestamps=True), LastRecords(True, key_slice(0.5))
    log, foreign = log_of([(1, b"a"), (2, b"b")]), DecodedRecord(2, 0, record_tail(None, b"foreign"))
    mine.take(log)
    theirs.take([*log, foreign])
    assert mine.digest != theirs.digest
    assert (mine.records, theirs.records, set(theirs.found)) == (2, 2, {b"1", b"2"})
    nothing = sample.digest
    sample.take([foreign])
    assert sample.digest == nothing
