"""Where MM2 really stands, by contents: it never says more than is on the target, and mostly all of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.takeover.mm2_progress import ENDS_EARLY, NOT_ALL_ALIKE, NOTHING_ALIKE, ProgressMatch, match

BEFORE, BEHIND = [b"n%d" % n for n in range(5)], [b"s%d" % n for n in range(20)]


def test_exactly_what_was_noted() -> None:
    """MM2 was stopped in good order: its last record is the one that it noted."""
    assert match(BEFORE, BEHIND, [b"older", *BEFORE]) == ProgressMatch(copied=0, doubtful=0)


def test_behind_its_note() -> None:
    """MM2 was killed: the records behind its note are passed over, all and no more."""
    assert match(BEFORE, BEHIND, [b"older", *BEFORE, *BEHIND[:7]]) == ProgressMatch(copied=7, doubtful=0)
    assert match(BEFORE, BEHIND, [*BEFORE[-1:], *BEHIND]) == ProgressMatch(copied=20, doubtful=0)


def test_killed_again_and_again() -> None:
    """It begins anew at its note each time; the furthest counts, though the last run was a shorter one."""
    target = [*BEFORE, *BEHIND[:9], *BEHIND[:3], *BEHIND[:5]]
    assert match(BEFORE, BEHIND, target) == ProgressMatch(copied=9, doubtful=0)


def test_a_batch_sent_again() -> None:
    """MM2's producer is not idempotent: what follows a repeated batch goes on behind it."""
    target = [*BEFORE, *BEHIND[:4], *BEHIND[2:4], *BEHIND[4:6]]
    assert match(BEFORE, BEHIND, target) == ProgressMatch(copied=6, doubtful=0)


def test_before_the_first_note() -> None:
    """Nothing was noted yet: the target must begin with the source's first record."""
    assert match([], BEHIND, BEHIND[:6]) == ProgressMatch(copied=6, doubtful=0)
    assert match([], BEHIND, BEHIND[3:6]) == ProgressMatch(copied=0, doubtful=20, reason=NOTHING_ALIKE)


def test_equal_records() -> None:
    """Records that are all alike tell nothing, unless a pair of MM2's own says which is which."""
    alike = [b"x"] * 10
    assert match(alike[:5], alike, alike[:8]) == ProgressMatch(copied=0, doubtful=10, reason=NOTHING_ALIKE)
    assert match(alike[:5], alike, alike[:8], {2: 4}) == ProgressMatch(copied=5, doubtful=0)


def test_cleaned_target() -> None:
    """Where the cleaner left out some, no more is believed than what is there without a hole."""
    target = [*BEFORE, *BEHIND[:2], BEHIND[4], BEHIND[6]]
    assert match(BEFORE, BEHIND, target) == ProgressMatch(copied=2, doubtful=2, reason=NOT_ALL_ALIKE)


def test_transformed() -> None:
    """Records that MM2 changed on the way are not known again; they may be those behind the note."""
    target = [*BEFORE, b"other", b"another"]
    assert match(BEFORE, BEHIND, target) == ProgressMatch(copied=0, doubtful=2, reason=NOT_ALL_ALIKE)
    assert match(BEFORE, BEHIND[:1], target).doubtful == 1
    assert match(BEFORE, BEHIND, [b"other"]).reason == NOTHING_ALIKE


def test_a_target_that_ends_before_the_note() -> None:
    """That is said, and nothing before the note is copied again."""
    assert match(BEFORE, BEHIND, BEFORE[:-2]) == ProgressMatch(copied=0, doubtful=0, reason=ENDS_EARLY)


def test_nothing_at_all() -> None:
    """No source, no target."""
    assert match([], [], []) == ProgressMatch(copied=0, doubtful=0, reason=NOTHING_ALIKE)


def test_contents_that_come_round_again() -> None:
    """As by sensors, where the target stamps what it appends: too few are counted, never too many."""
    source = [b"%d" % (number % 30) for number in range(200)]
    for noted, copied in ((100, 110), (100, 170), (45, 46)):
        found = match(source[noted - 10 : noted], source[noted : noted + 15], source[max(0, copied - 50) : copied])
        assert noted + found.copied <= copied
        assert not found.exact or noted + found.copied == copied or copied > noted + 15


@given(st.data())
def test_nothing_is_lost(data: st.DataObject) -> None:
    """Random records, many of them equal, random lives of MM2, random windows: every record is there, in order."""
    contents = data.draw(st.lists(st.integers(0, data.draw(st.integers(1, 60))), min_size=2, max_size=60))
    source = [b"%d" % content for content in contents]
    noted = data.draw(st.integers(0, len(source) - 1))
    ends = data.draw(st.lists(st.integers(noted, len(source)), min_size=1, max_size=4))
    target = source[:noted]
    for end in ends:
        target += source[noted:end]
    first = data.draw(st.integers(0, max(0, noted - 1)))
    last = data.draw(st.integers(max(ends), len(source)))
    found = match(source[first:noted], source[noted:last], target[-2 * (last - first) :])
    begin = noted + found.copied
    copy = iter(target + source[begin:])
    assert all(record in copy for record in source)
    if found.exact and len(ends) == 1:
        assert target + source[begin:] == source


@given(st.integers(0, 30), st.lists(st.integers(0, 30), min_size=1, max_size=4))
def test_distinct_records_are_always_told(noted: int, lives: list[int]) -> None:
    """With records that differ, and one before the note, the furthest is found exactly, whatever MM2's lives were."""
    source = [b"%d" % number for number in range(65)]
    ends = [noted + 1 + life for life in lives]
    target = source[: noted + 1]
    for end in ends:
        target += source[noted + 1 : end]
    assert match(source[: noted + 1], source[noted + 1 :], target) == ProgressMatch(copied=max(lives), doubtful=0)
