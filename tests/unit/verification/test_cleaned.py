"""The record kernel calls cleaned what its reference finds to be cleaned, of what one side alone has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.records import kernel
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import records_of
from mirror_ray.verification.compacted import RecordHashes, compare_in_order
from mirror_ray.verification.ranges import PositionPair
from tests.support.kernels import needs_kernel
from tests.unit.records.strategies import Plain
from tests.unit.verification.logged import batch_of

pytestmark = needs_kernel

SIDES: tuple[Literal[0, 1], Literal[0, 1]] = (0, 1)
KEYS = st.none() | st.sampled_from((b"a", b"b", b"c", b""))


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Plain], list[Plain], int]:
    """What may be left of one log on two sides, mostly; and where it ends."""
    contents = draw(st.lists(st.tuples(KEYS, st.sampled_from((None, b"x", b"y"))), max_size=14))
    every, offset = [], 0
    for key, value in contents:
        every.append(Plain(offset=offset, timestamp=5, key=key, value=value))
        offset += draw(st.sampled_from((1, 1, 1, 2)))
    sides = []
    for _ in SIDES:
        rare = draw(st.sampled_from((0, 0, 3)))
        last = {record.key: record.offset for record in every}
        kept = [
            record
            for record in every
            if not draw(st.booleans()) or (last[record.key] == record.offset and draw(st.integers(0, 9)) >= rare)
        ]
        sides.append(kept)
    mine, theirs = sides
    if len(theirs) > 1 and draw(st.integers(0, 5)) == 0:
        at = draw(st.integers(1, len(theirs) - 1))
        theirs[at - 1], theirs[at] = (
            Plain(offset=before.offset, timestamp=5, key=after.key, value=after.value)
            for before, after in ((theirs[at - 1], theirs[at]), (theirs[at], theirs[at - 1]))
        )
    return mine, theirs, offset


def batches(records: Sequence[Plain]) -> list[RecordBatch]:
    """In batches of three."""
    return [batch_of(records[at : at + 3], codec="zstd") for at in range(0, len(records), 3)]


def by_kernel(
    sides: Sequence[Sequence[RecordBatch]], begin: int, end: int, superseded: Sequence[bytes]
) -> tuple[int, int] | None:
    """How many records were cleaned on either side."""
    comparison = kernel.CleanedComparison(timestamps=True)
    for side, log in zip(SIDES, sides, strict=True):
        comparison.take(side, log, (0, end))
    return comparison.cleaned((begin, end), (begin, end), superseded)


def by_reference(
    sides: Sequence[Sequence[RecordBatch]], begin: int, end: int, superseded: Sequence[bytes]
) -> tuple[int, int] | None:
    """The same."""
    mine, theirs = RecordHashes(timestamps=True), RecordHashes(timestamps=True)
    for side, log in zip((mine, theirs), sides, strict=True):
        for batch in log:
            side.take(record for record in records_of(batch) if record.offset < end)
        side.drop_before(begin)
    keys = mine.keys | theirs.keys
    newer = {hashed for hashed, key in keys.items() if key in superseded}
    found = compare_in_order(mine.found, theirs.found, PositionPair(begin, begin), PositionPair(end, end), newer)
    return None if found.differences else (found.cleaned_on_source, found.cleaned_on_target)


@settings(max_examples=400)
@given(logs(), st.integers(0, 4), st.integers(0, 2), st.lists(st.sampled_from((b"a", b"b", b"zz")), max_size=2))
def test_it_says_what_the_reference_says(
    log: tuple[list[Plain], list[Plain], int], begin: int, behind: int, superseded: list[bytes]
) -> None:
    """No more and no less, of equal records as well, and whatever lies before the beginning."""
    mine, theirs, end = log
    sides = batches(mine), batches(theirs)
    end = max(begin, end - behind)
    assert by_kernel(sides, begin, end, superseded) == by_reference(sides, begin, end, superseded)


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        # The earlier of two equal ones went.
        ([(0, b"a", b"x"), (1, b"b", b"x"), (2, b"a", b"x")], [(1, b"b", b"x"), (2, b"a", b"x")], (0, 1)),
        # Nothing newer of the key is there.
        ([(0, b"a", b"x"), (1, b"b", b"x"), (2, b"c", b"x")], [(0, b"a", b"x"), (2, b"c", b"x")], (0, 1)),
        ([(0, b"a", b"x"), (1, b"a", b"y"), (2, b"c", b"x")], [(0, b"a", b"x"), (2, b"c", b"x")], None),
        # No offset is missing where it should be.
        ([(0, b"b", b"x"), (1, b"b", b"y")], [(0, b"b", b"y")], None),
        # In another order.
        ([(0, b"a", b"x"), (1, b"b", b"x")], [(0, b"b", b"x"), (1, b"a", b"x")], None),
    ],
)
def test_what_may_be_gone(
    mine: list[tuple[int, bytes, bytes]], theirs: list[tuple[int, bytes, bytes]], expected: tuple[int, int] | None
) -> None:
    """By the rule: a gap, and a newer record of the key or none at all."""
    sides = [
        batches([Plain(offset=offset, timestamp=5, key=key, value=value) for offset, key, value in side])
        for side in (mine, theirs)
    ]
    end = mine[-1][0] + 1
    ends = (end, theirs[-1][0] + 1)
    comparison = kernel.CleanedComparison(timestamps=True)
    for side, log in zip(SIDES, sides, strict=True):
        comparison.take(side, log, (0, 9))
    assert comparison.cleaned((0, ends[0]), (0, ends[1]), ()) == expected


def test_a_record_that_does_not_parse_is_told() -> None:
    """As the reference does."""
    broken = bytearray(batch_of([Plain(offset=0, timestamp=5, key=b"k")]).view)
    # The number of its headers.
    broken[-1] = 2
    (batch,) = [batch_of([Plain(offset=0, timestamp=5, key=b"k")])._replace(view=memoryview(broken))]
    with pytest.raises(CorruptBatchError):
        kernel.CleanedComparison(timestamps=True).take(0, [batch], (0, 9))
