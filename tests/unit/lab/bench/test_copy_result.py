"""What a copy lacks, and what it has too often."""

from __future__ import annotations

from array import array

import hypothesis.strategies as st
from hypothesis import given

from mirror_ray.lab.bench.copy_result import CopyResult, judge

RECORDS = array("Q", range(10))


def prints(*numbers: int) -> array[int]:
    """Records by their checksums."""
    return array("Q", numbers)


def test_equal() -> None:
    """The same in the same order."""
    found = judge(RECORDS, array("Q", RECORDS), finished=True)
    assert found == CopyResult(copied=10)
    assert found.equal


def test_lost_doubled_and_foreign() -> None:
    """Each is counted by itself."""
    found = judge(RECORDS, prints(0, 1, 1, 2, 4, 5, 6, 7, 7, 7, 9, 99), finished=True)
    assert found == CopyResult(copied=8, lost=2, doubled=3, foreign=1)
    assert not found.equal


def test_another_order() -> None:
    """All there, and not equal."""
    assert judge(RECORDS, prints(1, 0, 2, 3, 4, 5, 6, 7, 8, 9), finished=True).reordered == 1


def test_what_was_not_reached_yet_is_not_lost() -> None:
    """Where a run was cut, only holes count."""
    found = judge(RECORDS, prints(0, 1, 3), finished=False)
    assert found == CopyResult(copied=3, lost=1)
    assert judge(RECORDS, prints(), finished=False).equal
    assert judge(RECORDS, prints(), finished=True).lost == 10


@given(st.lists(st.integers(0, 50), max_size=40), st.lists(st.integers(0, 50), max_size=40))
def test_everything_is_accounted_for(source: list[int], copy: list[int]) -> None:
    """Whatever stands on either side is copied, lost, doubled or foreign."""
    found = judge(prints(*source), prints(*copy), finished=True)
    assert found.copied + found.lost == len(source)
    assert found.copied + found.doubled + found.foreign == len(copy)
    assert found.equal == (source == copy)
