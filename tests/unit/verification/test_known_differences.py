"""A recorded gap accounts for what it left out or let in, for so much of it, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap
from typing import Any, get_args

import pytest

from mirror_ray.state.records import SkippedRange
from mirror_ray.verification.difference import Difference, DifferenceKind
from mirror_ray.verification.known_differences import (
    KnownDifferences,
    large_skipped_ranges,
    ranges_in_force,
    with_explanations,
)
from mirror_ray.verification.ranges import PositionPair

END = PositionPair(10_000, 20_000)


def gap(kind: Any, time_ms: int = 1, policy: Any = "skip", **offsets: int) -> SkippedRange:
    """A recorded one."""
    return SkippedRange(kind=kind, policy=policy, text="so it was", time_ms=time_ms, **offsets)


def refused(first: int, end: int, time_ms: int = 1) -> SkippedRange:
    """Records that were left out."""
    return gap("record_refused", time_ms, source_from=first, source_to=end)


def foreign(first: int, end: int, time_ms: int = 1) -> SkippedRange:
    """Others' records that were accepted."""
    return gap("target_foreign", time_ms, target_from=first, target_to=end)


def target_lost(first: int, end: int, time_ms: int = 1, policy: Any = "skip") -> SkippedRange:
    """The target lost its end."""
    return gap("target_truncated", time_ms, policy, target_from=first, target_to=end)


def source_lost(first: int, end: int, time_ms: int = 1, policy: Any = "skip") -> SkippedRange:
    """The source lost its end."""
    return gap("source_truncated", time_ms, policy, source_from=first, source_to=end)


def explained(found: Iterable[tuple[Any, int, int]], *gaps: SkippedRange, compacted: bool = False) -> list[bool]:
    """Which findings are accounted for: their kinds, source offsets and target offsets."""
    known = KnownDifferences(gaps, END, compacted=compacted)
    return [found.gap is not None for found in with_explanations(starmap(Difference, found), known)]


def test_refused_records_are_missing() -> None:
    """At their offsets alone, and nothing else is known of them."""
    found = [("missing", at, 0) for at in range(9, 13)]
    assert explained(found, refused(10, 12)) == [False, True, True, False]
    others = [(kind, 10, 0) for kind in ("extra", "doubled", "changed", "moved")]
    assert explained(others, refused(10, 12)) == [False] * 4


def test_what_others_wrote_is_extra_or_doubled() -> None:
    """At their offsets; what is missing there is lost."""
    found = [("extra", 0, 50), ("doubled", 7, 59), ("extra", 0, 60), ("missing", 0, 50)]
    assert explained(found, foreign(50, 60)) == [True, True, False, False]


def test_what_the_target_lost_is_missing_where_it_ended() -> None:
    """So many as it lost: one more is really missing. What was written there since is like everything else."""
    found = [("missing", at, 500) for at in range(500, 504)]
    assert explained(found, target_lost(500, 503)) == [True, True, True, False]
    others = [("missing", 1, 501), ("extra", 1, 500), ("doubled", 1, 501)]
    assert explained(others, target_lost(500, 503)) == [False] * 3


def test_what_the_source_lost_is_extra_before_the_new_log() -> None:
    """At one place, and so many as it lost; a new record at such an offset may be really missing."""
    found = [("extra", 902, at) for at in range(4)]
    assert explained(found, source_lost(900, 903)) == [True, True, True, False]
    others = [("missing", 901, 5), ("doubled", 901, 5), ("extra", 899, 5), ("extra", 904, 5)]
    assert explained(others, source_lost(900, 903)) == [False] * 4
    assert explained([("extra", 900, 1), ("extra", 902, 2)], source_lost(900, 903)) == [True, False]


@pytest.mark.parametrize("kind", ["source_removed", "source_recreated", "target_missing", "copy_lost"])
def test_other_gaps_account_for_nothing(kind: str) -> None:
    """What they are of is on neither side."""
    every = gap(kind, source_from=0, source_to=1000, target_from=0, target_to=1000)
    assert explained([(kind, 500, 500) for kind in get_args(DifferenceKind)], every) == [False] * 6


@pytest.mark.parametrize("made", [target_lost, source_lost])
def test_answered_by_resync_nothing_is_left_out(made: Any) -> None:
    """What could be copied was copied."""
    assert explained([("missing", 5, 5), ("extra", 5, 5)], made(5, 10, policy="resync")) == [False, False]


def test_gaps_before_a_new_beginning_are_over() -> None:
    """Another topic, or an emptied one, has other records at those offsets."""
    earlier = [refused(10, 11, 1), foreign(5, 6, 2)]
    for anew in (
        gap("target_recreated", 3),
        gap("source_recreated", 3),
        gap("target_missing", 3, "resync"),
        gap("copy_lost", 3, "resync"),
        source_lost(0, 9, 3, "resync"),
        gap("target_foreign", 3, "resync", target_from=5, target_to=6),
    ):
        assert ranges_in_force([anew, *earlier]) == []
        later = refused(12, 13, 4)
        assert ranges_in_force([later, anew, *earlier]) == [later]


def test_gaps_before_a_place_that_was_copied_on_from_still_stand() -> None:
    """Nothing was emptied: what was left out before is not there, and what others wrote is."""
    earlier = [refused(10, 11, 1), foreign(5, 6, 2)]
    again = gap("copy_lost", 3, "resync", target_from=90, target_to=300)
    assert ranges_in_force([again, *earlier]) == earlier


def test_offsets_behind_a_lost_end_are_others_since() -> None:
    """What came before is cut there; what was missing or extra behind the end is so at the end."""
    assert explained([("extra", 1, 605)], foreign(600, 610, 1), target_lost(500, 700, 2)) == [False]
    assert explained([("extra", 1, 605)], foreign(600, 610, 1), target_lost(500, 700, 2, "resync")) == [False]
    assert explained([("missing", 905, 1)], refused(905, 906, 1), source_lost(900, 950, 2)) == [False]
    assert explained([("missing", 905, 1)], refused(905, 906, 3), source_lost(900, 950, 2)) == [True]
    twice = target_lost(500, 502, 1), target_lost(400, 500, 2)
    assert explained([("missing", at, 400) for at in range(103)], *twice) == [True] * 102 + [False]
    twice = source_lost(500, 502, 1), source_lost(400, 500, 2)
    assert explained([("extra", 400, at) for at in range(103)], *twice) == [True] * 102 + [False]


def test_keys_of_a_compacted_topic() -> None:
    """Where the last record was left out or is foreign, the other side has an earlier one, or none."""
    found = [("changed", 10, 1), ("missing", 11, 1), ("extra", 12, 3), ("changed", 9, 1)]
    assert explained(found, refused(10, 13), compacted=True) == [True, True, True, False]
    found = [("changed", 1, 50), ("extra", 1, 51), ("missing", 1, 52), ("changed", 1, 49)]
    assert explained(found, foreign(50, 53), compacted=True) == [True, True, True, False]


def test_of_a_key_the_place_at_the_end_is_none() -> None:
    """A gap that begins there is not of what was compared; nor is known which keys a lost end had."""
    assert explained([("extra", END.source, 5)], refused(END.source, END.source + 1), compacted=True) == [False]
    assert explained([("missing", 5, END.target)], foreign(END.target, END.target + 5), compacted=True) == [False]
    assert explained([("missing", 5, END.target)], target_lost(END.target, END.target + 5), compacted=True) == [False]
    assert explained([("extra", END.source, 5)], source_lost(END.source, END.source + 5), compacted=True) == [False]


def test_large_gaps() -> None:
    """By the position behind which both sides go on alike; refused records beside each other are one."""
    small = [foreign(0, 99), target_lost(5000, 5099), source_lost(7, 70), gap("source_removed", source_to=1000)]
    assert large_skipped_ranges(small, 100) == []
    side_by_side = [refused(at, at + 1) for at in range(100)]
    large = [foreign(0, 100), target_lost(5000, 5100, 3), source_lost(700, 800, 2), *side_by_side]
    assert sorted(large_skipped_ranges(large, 100)) == sorted(
        [PositionPair(-1, 100), PositionPair(-1, 5000), PositionPair(700, -1), PositionPair(100, -1)]
    )
