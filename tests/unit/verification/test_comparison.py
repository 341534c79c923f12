"""One fault is planted into a copy: what is said of it, and where."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.verification.difference import Difference, HashedRecord, hash_record
from mirror_ray.verification.ranges import PositionPair
from mirror_ray.verification.record_comparison import MAX_DIFFERENCES, RecordComparison

#: Enough for a record to be told from its neighbours.
_CONTENT = st.tuples(
    st.none() | st.binary(max_size=3),
    st.none() | st.binary(max_size=3),
    st.lists(st.tuples(st.binary(max_size=2), st.none() | st.binary(max_size=2)), max_size=2),
    st.integers(0, 3),
)
_HOLES = st.lists(st.integers(1, 3), min_size=60, max_size=60)


def record(number: int, offset: int) -> DecodedRecord:
    """A record unlike any other number's."""
    return DecodedRecord(offset, number, record_tail(b"key %d" % number, b"value", [(b"name", None), (b"name", b"")]))


def source_of(count: int, steps: list[int]) -> list[DecodedRecord]:
    """Records at ascending offsets, with holes."""
    offsets = [sum(steps[:number]) for number in range(count)]
    return [record(number, offset) for number, offset in enumerate(offsets)]


def copy_of(source: list[DecodedRecord]) -> list[DecodedRecord]:
    """The same without holes, from offset 100 on."""
    return [record._replace(offset=100 + number) for number, record in enumerate(source)]


def compared(
    source: list[DecodedRecord], target: list[DecodedRecord], piece: int = 7, lookahead: int = 32
) -> list[Difference]:
    """Feed both in pieces, and end with what was found."""
    comparison = RecordComparison(PositionPair(1_000_000, 2_000_000), lookahead)
    sides = ((comparison.source, _pieces(source, piece)), (comparison.target, _pieces(target, piece + 3)))
    while not comparison.done:
        for side, pieces in sides:
            if side.wants:
                side.feed(pieces.pop(0) if pieces else None)
        comparison.step()
    return comparison.differences()


def _pieces(records: list[DecodedRecord], size: int) -> list[list[HashedRecord]]:
    hashes = [hash_record(record, timestamps=True) for record in records]
    return [hashes[at : at + size] for at in range(0, len(hashes), size)]


@given(st.lists(_CONTENT, max_size=80), st.integers(1, 20))
def test_equal_records_differ_in_nothing(contents: list[tuple[object, ...]], piece: int) -> None:
    """Whatever they are, repeated ones too."""
    records = [
        DecodedRecord(number, timestamp, record_tail(key, value, headers))  # type: ignore[arg-type]
        for number, (key, value, headers, timestamp) in enumerate(contents)
    ]
    assert compared(records, copy_of(records), piece) == []


@given(st.integers(1, 50), st.data(), _HOLES)
def test_missing(count: int, data: st.DataObject, steps: list[int]) -> None:
    """A run of records that the target lacks: each is named, at the place where the next one is."""
    source = source_of(count, steps)
    first = data.draw(st.integers(0, count - 1))
    length = data.draw(st.integers(1, min(5, count - first)))
    target = copy_of(source[:first] + source[first + length :])
    place = target[first].offset if first < len(target) else 2_000_000
    wanted = [Difference("missing", record.offset, place) for record in source[first : first + length]]
    assert compared(source, target) == wanted


@given(st.integers(1, 50), st.data(), _HOLES)
def test_doubled(count: int, data: st.DataObject, steps: list[int]) -> None:
    """A batch that was written twice: each of its records is named, by both offsets."""
    source = source_of(count, steps)
    first = data.draw(st.integers(0, count - 1))
    length = data.draw(st.integers(1, min(5, count - first)))
    twice = source[: first + length] + source[first:]
    wanted = [
        Difference("doubled", source[first + number].offset, 100 + first + length + number) for number in range(length)
    ]
    assert compared(source, copy_of(twice)) == wanted


@given(st.integers(1, 50), st.data(), _HOLES)
def test_a_record_that_is_not_on_the_source(count: int, data: st.DataObject, steps: list[int]) -> None:
    """Somebody else's."""
    source = source_of(count, steps)
    at = data.draw(st.integers(0, count))
    target = copy_of([*source[:at], record(77, 0), *source[at:]])
    place = source[at].offset if at < count else 1_000_000
    assert compared(source, target) == [Difference("extra", place, 100 + at)]


@given(st.integers(2, 50), st.data(), _HOLES)
def test_swapped(count: int, data: st.DataObject, steps: list[int]) -> None:
    """Two records in each other's place, beside each other or not."""
    source = source_of(count, steps)
    first = data.draw(st.integers(0, count - 2))
    second = data.draw(st.integers(first + 1, min(count - 1, first + 3)))
    target = list(source)
    target[first], target[second] = target[second], target[first]
    found = compared(source, copy_of(target))
    assert found[0] == Difference("swapped", source[first].offset, 100 + first)


def test_out_of_order() -> None:
    """One record that comes later than it should."""
    source = source_of(20, [1] * 60)
    target = copy_of([*source[:5], *source[6:12], source[5], *source[12:]])
    assert compared(source, target) == [Difference("moved", 5, 111)]


@given(st.integers(1, 50), st.data(), st.sampled_from(["key", "value", "headers", "timestamp"]), _HOLES)
def test_changed(count: int, data: st.DataObject, field: str, steps: list[int]) -> None:
    """One byte of one field."""
    source = source_of(count, steps)
    at = data.draw(st.integers(0, count - 1))
    number = source[at].timestamp
    fields = {
        "key": (b"Key %d" % number, b"value", [(b"name", None), (b"name", b"")], number),
        "value": (b"key %d" % number, b"valuE", [(b"name", None), (b"name", b"")], number),
        # In another order, with the null and the empty one for each other.
        "headers": (b"key %d" % number, b"value", [(b"name", b""), (b"name", None)], number),
        "timestamp": (b"key %d" % number, b"value", [(b"name", None), (b"name", b"")], number + 1),
    }
    key, value, headers, timestamp = fields[field]
    target = copy_of(source)
    target[at] = DecodedRecord(100 + at, timestamp, record_tail(key, value, headers))
    assert compared(source, target) == [
        Difference("changed", source[at].offset, 100 + at, (field,))  # type: ignore[arg-type]
    ]


def test_several_faults_are_told_apart() -> None:
    """Each by itself, in order."""
    source = source_of(400, [1] * 400)
    target = copy_of(source)
    target[300] = target[300]._replace(timestamp=9999)
    target.insert(200, target[199])
    del target[100]
    target = [record._replace(offset=100 + number) for number, record in enumerate(target)]
    assert compared(source, target) == [
        Difference("missing", 100, 200),
        Difference("doubled", 199, 299),
        Difference("changed", 300, 400, ("timestamp",)),
    ]


def test_what_has_nothing_in_common_is_given_up() -> None:
    """Some are named, and not all are read."""
    comparison = RecordComparison(PositionPair(5000, 5000))
    hashes = [hash_record(record(number, number), timestamps=True) for number in range(5000)]
    others = [hashed._replace(hash=hashed.hash._replace(key=b"other")) for hashed in hashes]
    while not comparison.done:
        comparison.source.feed(hashes)
        comparison.target.feed(others)
        comparison.step()
    assert comparison.gave_up
    assert len(comparison.differences()) >= MAX_DIFFERENCES


def test_words() -> None:
    """A finding names both offsets, the field, and a gap that accounts for it."""
    finding = Difference("changed", 5, 7, ("value", "timestamp"))
    assert (
        str(finding)
        == "the record at source offset 5 has another value and timestamp on the target, at target offset 7"
    )
    assert str(replace(finding, gap="somebody")).endswith(" (known: somebody)")
