"""Ranges lie side by side between exact pairs; samples are spread."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.segment import Segment
from mirror_ray.verification.ranges import (
    ComparedRange,
    PositionPair,
    cut,
    cut_shared,
    join_ranges,
    merge_spans,
    next_pair,
    sample_ranges,
)

_RUNS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=20)


def segments_of(runs: list[tuple[int, int, int]]) -> list[Segment]:
    """Runs of (length, hole on the source behind it, hole on the target behind it)."""
    segments: list[Segment] = []
    source, target, number = 3, 7, 0
    for length, hole, foreign in runs:
        segments.append(Segment(source, target, length, number))
        source, target, number = source + length + hole, target + length + foreign, number + length
    return segments


def end_of(segments: list[Segment]) -> PositionPair:
    """Behind the last one."""
    last = segments[-1]
    return PositionPair(last.source + last.length, last.target + last.length)


@given(_RUNS, st.integers(1, 50))
def test_ranges_lie_side_by_side_between_exact_pairs(runs: list[tuple[int, int, int]], size: int) -> None:
    """From the beginning to the end, without a hole, each of them at least so large but the last."""
    segments = segments_of([(length, hole, 0) for length, hole, _ in runs])
    begin, end = PositionPair(segments[0].source, segments[0].target), end_of(segments)
    ranges = cut(segments, begin, end, size)
    assert join_ranges(ranges) == [ComparedRange(*[begin.source, end.source, begin.target, end.target])]
    exact = {(segment.source + n, segment.target + n) for segment in segments for n in range(segment.length)}
    assert all(span.begin in exact for span in ranges)
    assert all(span.source_end - span.source >= size for span in ranges[:-1])


@given(_RUNS, st.integers(1, 50))
def test_ranges_of_a_shared_topic_hold_what_is_ours(runs: list[tuple[int, int, int]], size: int) -> None:
    """All of the source, and of the target no offset that a segment does not name."""
    segments = segments_of(runs)
    begin, end = PositionPair(segments[0].source, segments[0].target), end_of(segments)
    ranges = cut_shared(segments, begin, end, size)
    assert not isinstance(ranges, str)
    ours = {segment.target + n for segment in segments for n in range(segment.length)}
    assert {at for span in ranges for at in range(span.target, span.target_end)} == ours
    assert [span.source_end for span in ranges[:-1]] == [span.source for span in ranges[1:]]


@pytest.mark.parametrize(
    ("segments", "begin", "end", "ranges"),
    [
        # Only records of ours can lie in the hole: they are compared, from that very place.
        ([Segment(0, 0, 10, 0), Segment(20, 20, 10, 20)], (15, 15), (30, 30), [(15, 20, 15, 20), (20, 30, 20, 30)]),
        ([Segment(0, 0, 10, 0), Segment(20, 20, 10, 20)], (10, 10), (30, 30), [(10, 20, 10, 20), (20, 30, 20, 30)]),
        ([Segment(0, 0, 10, 0), Segment(20, 20, 10, 20)], (25, 25), (30, 30), [(25, 30, 25, 30)]),
        # Between the segments lie others' records alone.
        ([Segment(0, 0, 10, 0), Segment(20, 40, 10, 10)], (10, 10), (30, 50), [(10, 30, 40, 50)]),
    ],
)
def test_a_beginning_in_a_hole_of_the_map_of_a_shared_topic(
    segments: list[Segment], begin: tuple[int, int], end: tuple[int, int], ranges: list[tuple[int, int, int, int]]
) -> None:
    """Whose records lie in it is known by how many of ours were copied."""
    assert cut_shared(segments, PositionPair(*begin), PositionPair(*end), 100) == ranges


@pytest.mark.parametrize(
    ("segments", "begin", "end", "hole"),
    [
        # Records were copied that no segment tells of.
        ([Segment(0, 0, 10, 0), Segment(20, 25, 5, 15)], (0, 0), (25, 30), "10 and 25"),
        # The beginning is in a hole with records of others, behind a segment and before all of them.
        ([Segment(0, 5, 10, 0), Segment(20, 40, 10, 20)], (10, 15), (30, 50), "15 and 40"),
        ([Segment(0, 5, 10, 0), Segment(20, 40, 10, 20)], (0, 3), (9, 14), "3 and 5"),
    ],
)
def test_what_is_ours_in_a_shared_topic_may_not_be_known(
    segments: list[Segment], begin: tuple[int, int], end: tuple[int, int], hole: str
) -> None:
    """It says where."""
    found = cut_shared(segments, PositionPair(*begin), PositionPair(*end), 100)
    assert f"between target offsets {hole}" in str(found)


def test_without_a_map_there_is_one_range() -> None:
    """And none where there is nothing."""
    assert cut([], PositionPair(0, 0), PositionPair(100, 90), 10) == [ComparedRange(0, 100, 0, 90)]
    assert cut([], PositionPair(5, 5), PositionPair(5, 5), 10) == []


def test_the_next_pair_is_at_or_behind_both() -> None:
    """Inside a segment, or where the next one begins."""
    segments = [Segment(0, 0, 10, 0), Segment(20, 12, 5, 12)]
    assert next_pair(segments, 4, 6) == PositionPair(6, 6)
    assert next_pair(segments, 12, 0) == PositionPair(20, 12)
    assert next_pair(segments, 12, 14) == PositionPair(22, 14)
    assert next_pair(segments, 26, 0) is None


@given(st.integers(0, 500), st.floats(0.001, 1))
def test_a_sample_is_spread(count: int, fraction: float) -> None:
    """So many of all, ascending, one of each stretch; the same ones again for the same seed."""
    chosen = sample_ranges(count, fraction, "topic-0")
    assert len(chosen) == (min(count, max(1, round(count * fraction))) if count else 0)
    assert chosen == sorted(set(chosen)) == sample_ranges(count, fraction, "topic-0")
    assert all(0 <= number < count for number in chosen)
    stretch = count / len(chosen) if chosen else 0
    assert all(later - earlier < 2 * stretch + 1 for earlier, later in itertools.pairwise(chosen))


def test_stretches_are_read_at_once() -> None:
    """Spans that touch or overlap; empty ones are nothing to read."""
    assert merge_spans([(0, 5), (5, 5), (5, 9), (12, 13), (0, 3)]) == [(0, 9), (12, 13)]
