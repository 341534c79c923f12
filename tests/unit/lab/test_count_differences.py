"""What a copy lacks, and what it has too often."""

from __future__ import annotations

from array import array

import hypothesis.strategies as st
from hypothesis import given

from mirror_ray.lab.judge import CopyResult, count_differences

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
