"""Compacted partitions record by record: what cleaners may take is no difference, all else is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.verification.compacted import OrderedComparison, compare_in_order
from mirror_ray.verification.difference import Difference, HashedRecord, hash_record
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
