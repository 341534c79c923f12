"""Whether two copies are equal, what is said when they are not, and how much a copy lacks or has too often."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.lab.judge import (
    AcknowledgedIds,
    CopyResult,
    SourceVerdict,
    count_differences,
    judge_compacted,
    judge_copy,
    judge_merged,
    judge_source,
)
from mirror_ray.lab.load_record import LoadRecord, PlacedRecord, RecordId, make_record, record_id

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


def record(number: int, *, writer: str = "w", keyed: bool = False) -> LoadRecord:
    """Record ``number`` of a writer, to partition 0."""
    return make_record(writer, number, 0, NOW_MS, keyed=keyed)


def records(*numbers: int, keyed: bool = False) -> list[LoadRecord]:
    """Records of one writer."""
    return [record(number, keyed=keyed) for number in numbers]


def placed(found: list[LoadRecord], written: list[LoadRecord] | None = None) -> list[PlacedRecord]:
    """Each at its offset among those that were ``written``, of which it is what is left."""
    if written is None:
        return [PlacedRecord(offset, record) for offset, record in enumerate(found)]
    return [PlacedRecord(written.index(record), record) for record in found]


def known(*written: int, aborted: tuple[int, ...] = ()) -> AcknowledgedIds:
    """What writer ``w`` knows."""
    return AcknowledgedIds(
        written={RecordId("w", number) for number in written}, aborted={RecordId("w", number) for number in aborted}
    )


def test_a_record_says_who_it_is() -> None:
    """A tombstone, too; what others wrote says nothing."""
    for number in range(50):
        assert record_id(record(number, keyed=True)) == RecordId("w", number)
    assert record_id(LoadRecord(None, b"x", (), 0)) is None
    assert record_id(LoadRecord(None, b"x", (("writer", b"w"), ("number", b"many")), 0)) is None


def test_half_of_the_records_are_older_than_a_week() -> None:
    """In long stretches, on every partition; the others are of now."""
    for partition in range(4):
        ages = [
            (NOW_MS - make_record("w", n, partition, NOW_MS, keyed=False).timestamp_ms) / DAY_MS for n in range(8000)
        ]
        assert sum(age > 7 for age in ages) == 4000
        assert all(age == 0 or 8 <= age <= 30 for age in ages)


@given(st.lists(st.integers(0, 1000), unique=True).map(sorted))
def test_a_copy_that_is_equal_has_no_difference(numbers: list[int]) -> None:
    """Both sides are counted."""
    verdict = judge_copy(records(*numbers), iter(records(*numbers)))
    assert (verdict.source_records, verdict.target_records, verdict.difference) == (len(numbers), len(numbers), None)


@pytest.mark.parametrize(
    ("copied", "begins"),
    [
        ((0, 1, 1, 2, 3), "record 2: twice or late: the source has w 2 of"),
        ((0, 1, 3), "record 2: missing before it, or never committed: the source has w 2 of"),
        ((0, 2, 1, 3), "record 1: missing before it"),
        ((0, 1, 2), "record 3: missing: the source has w 3 of"),
        ((0, 1, 2, 3, 3), "record 4: twice or late: the source has nothing, the target has w 3 of"),
        ((0, 1, 2, 3, 4), "record 4: missing before it, or never committed: the source has nothing"),
    ],
)
def test_the_first_difference_is_named(copied: tuple[int, ...], begins: str) -> None:
    """With its position, the record that was to be there, and the one that is."""
    verdict = judge_copy(records(0, 1, 2, 3), records(*copied))
    assert verdict.difference is not None
    assert verdict.difference.startswith(begins)
    assert verdict.target_records == len(copied)


def test_a_changed_record_is_a_difference() -> None:
    """Key, value, headers or timestamp."""
    original = record(0)
    for changed in (
        original._replace(key=b"k"),
        original._replace(value=b"v"),
        original._replace(headers=(*original.headers, ("more", None))),
        original._replace(timestamp_ms=1),
    ):
        difference = judge_copy([original], [changed]).difference
        assert difference is not None
        assert difference.startswith("record 0: changed")


def test_the_copy_of_a_compacted_topic_may_have_more() -> None:
    """What the source has dropped since, and tombstones that it has forgotten."""
    every = records(*range(1000), keyed=True)
    last = {record.key: record for record in every}
    kept = sorted((record for record in last.values() if record.value is not None), key=every.index)
    some, all_of_them = placed(kept, every), placed(every)
    assert judge_compacted(some, all_of_them, cleaned=False).difference is None
    assert judge_compacted(some, some, cleaned=True).difference is None
    assert judge_compacted(all_of_them, some, cleaned=True).difference is None


@pytest.mark.parametrize(
    ("copied", "says"),
    [
        ((1, 2, 2, 3), "offset 1: the source lacks w 2"),
        ((1, 3, 2), "offset 1: out of order: the source has w 2"),
        ((1, 3), "1 keys end with another record"),
    ],
)
def test_the_copy_of_a_compacted_topic_has_all_once_in_order(copied: tuple[int, ...], says: str) -> None:
    """Whether or not the copy is compacted itself, where no cleaner has taken anything."""
    for cleaned in (False, True):
        source, target = placed(records(1, 2, 3, keyed=True)), placed(records(*copied, keyed=True))
        difference = judge_compacted(source, target, cleaned=cleaned).difference
        assert difference is not None
        assert says in difference


def test_older_records_of_a_key_are_compared_as_well() -> None:
    """Where the cleaners have left no offset gap; where they have, no more records may be missing than offsets are."""
    first, second, third = (LoadRecord(b"k", value, (), number) for number, value in enumerate((b"a", b"b", b"c")))
    other = second._replace(value=b"other")
    every = [first, second, third]
    for copied in ([first, other, third], [first, third], [second, first, third], [first, second, second, third]):
        assert judge_compacted(placed(every), placed(copied), cleaned=True).difference is not None, copied
    assert judge_compacted(placed(every), placed([first, third], every), cleaned=True).difference is None
    assert judge_compacted(placed(every), placed([third], every), cleaned=True).difference is None


def test_the_copies_of_several_sources_in_one() -> None:
    """Each in its order, and nothing else."""
    left, right = (
        [record(number, writer="l") for number in range(3)],
        [record(number, writer="r") for number in range(2)],
    )
    a, b, c = left
    x, y = right
    for copied in ([a, x, b, y, c], [x, y, a, b, c], [a, b, c, x, y]):
        assert judge_merged([left, right], copied).difference is None
    for copied in ([a, x, c, y, b], [a, x, b, c], [a, x, x, b, y, c], [a, x, b, y, c, record(9)], [a, x, b, y, b]):
        verdict = judge_merged([left, right], copied)
        assert verdict.difference is not None, copied
        assert (verdict.source_records, verdict.target_records) == (5, len(copied))


def test_the_last_record_of_each_key_agrees() -> None:
    """One that is missing at the end, and a tombstone that never came."""
    lost = judge_compacted(placed(records(1, 2, keyed=True)), placed(records(1, keyed=True)), cleaned=True).difference
    assert lost is not None
    assert lost.startswith("1 keys end with another record, the first is b'key-38': the source has w 2")
    alive = judge_compacted([], placed(records(1, keyed=True)), cleaned=True).difference
    assert alive is not None
    assert "the source has nothing, the target has w 1" in alive


def test_a_source_is_what_its_writers_know() -> None:
    """An acknowledged record that is missing, or one that nobody wrote, is the run's own fault."""
    assert source(records(1, 2, 3), known(1, 2)) == SourceVerdict(twice=0)
    assert source(records(1, 2, 1, 2, 3), known(1, 2, 3)) == SourceVerdict(twice=2)
    assert source(records(3), known(1, 2, 3), compacted=True) == SourceVerdict(twice=0)
    missing = source(records(1, 3), known(1, 2, 3)).problem
    assert missing == "1 acknowledged records are not there, the first is w 2"
    foreign = source([LoadRecord(None, b"x", (), 0)], known()).problem
    assert foreign is not None
    assert foreign.startswith("a record that nobody wrote here")


def test_transactions_may_have_been_ended_otherwise_by_the_source() -> None:
    """Told apart: a copy can't be better than its source."""
    writers = known(1, 2, 3, aborted=(4, 5))
    assert source(records(1, 2, 3), writers, transactions=True) == SourceVerdict(twice=0)
    assert source(records(1, 3, 4), writers, transactions=True) == SourceVerdict(twice=0, ended_otherwise=2)


def source(
    found: list[LoadRecord], known_ids: AcknowledgedIds, *, compacted: bool = False, transactions: bool = False
) -> SourceVerdict:
    """What is said of a source."""
    return judge_source(found, known_ids, compacted=compacted, transactions=transactions)


RECORDS = array("Q", range(10))


def hashes(*numbers: int) -> array[int]:
    """Records by their hashes."""
    return array("Q", numbers)


def test_equal() -> None:
    """The same in the same order."""
    found = count_differences(RECORDS, array("Q", RECORDS), finished=True)
    assert found == CopyResult(copied=10)
    assert found.equal


def test_lost_doubled_and_foreign() -> None:
    """Each is counted by itself."""
    found = count_differences(RECORDS, hashes(0, 1, 1, 2, 4, 5, 6, 7, 7, 7, 9, 99), finished=True)
    assert found == CopyResult(copied=8, lost=2, doubled=3, foreign=1)
    assert not found.equal


def test_another_order() -> None:
    """All there, and not equal."""
    assert count_differences(RECORDS, hashes(1, 0, 2, 3, 4, 5, 6, 7, 8, 9), finished=True).reordered == 1


def test_what_was_not_reached_yet_is_not_lost() -> None:
    """Where a run was cut, only records before the last copied one count."""
    found = count_differences(RECORDS, hashes(0, 1, 3), finished=False)
    assert found == CopyResult(copied=3, lost=1)
    assert count_differences(RECORDS, hashes(), finished=False).equal
    assert count_differences(RECORDS, hashes(), finished=True).lost == 10


@given(st.lists(st.integers(0, 50), max_size=40), st.lists(st.integers(0, 50), max_size=40))
def test_everything_is_accounted_for(source: list[int], copy: list[int]) -> None:
    """Whatever is on either side is copied, lost, doubled or foreign."""
    found = count_differences(hashes(*source), hashes(*copy), finished=True)
    assert found.copied + found.lost == len(source)
    assert found.copied + found.doubled + found.foreign == len(copy)
    assert found.equal == (source == copy)
