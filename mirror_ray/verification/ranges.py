"""Which offsets of the source are compared with which of the target.

A *range* lies between two pairs of positions that the flow's offset map knows exactly, so it can be read and compared
by itself: in this process or in a task of Spark, all of them or a sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from mirror_ray.model.segment import Segment

#: Source offsets of a range: few enough to be read again at once, and so many that a partition has not too many ranges.
RANGE_OFFSETS = 10_000
_MAX_RANGES = 10_000


#: Offsets of one side; the end is not included.
Span = tuple[int, int]


class PositionPair(NamedTuple):
    """Positions that belong together: records from ``source`` on are copied to the target from ``target`` on."""

    source: int
    target: int


class ComparedRange(NamedTuple):
    """The offsets between two pairs of positions; the ends are not included."""

    source: int
    source_end: int
    target: int
    target_end: int

    @property
    def begin(self) -> PositionPair:
        """The pair of positions at which it begins."""
        return PositionPair(self.source, self.target)

    @property
    def end(self) -> PositionPair:
        """The pair of positions at which it ends."""
        return PositionPair(self.source_end, self.target_end)


def ranges_between(pairs: Iterable[PositionPair]) -> list[ComparedRange]:
    """The ranges from each pair to the next."""
    return [
        ComparedRange(here.source, there.source, here.target, there.target) for here, there in itertools.pairwise(pairs)
    ]


def range_offsets(begin: PositionPair, end: PositionPair, least: int = RANGE_OFFSETS) -> int:
    """The number of source offsets in each range of a partition."""
    return max(least, (end.source - begin.source) // _MAX_RANGES)


def cut(segments: Iterable[Segment], begin: PositionPair, end: PositionPair, size: int) -> list[ComparedRange]:
    """Cut what lies between two pairs into ranges of about ``size`` source offsets; larger where no pair is known.

    The ranges are contiguous; there is none if nothing lies between the pairs.
    """
    if begin.source >= end.source and begin.target >= end.target:
        return []
    cuts = [begin]
    for segment in segments:
        behind = min(segment.source + segment.length, end.source)
        while (at := max(cuts[-1].source + size, segment.source)) < behind:
            target = segment.target + at - segment.source
            if not cuts[-1].target <= target <= end.target:
                break
            cuts.append(PositionPair(at, target))
    return ranges_between([*cuts, end])


def cut_shared(
    segments: Iterable[Segment], begin: PositionPair, end: PositionPair, size: int
) -> list[ComparedRange] | str:
    """Cut as ``cut`` does, where others write to the target, too: their records lie between the ranges.

    Returns:
        The ranges, or why it is unknown which records of the target are this flow's.
    """
    every = list(segments)
    mine = _within(every, begin, end)
    if not mine and begin.source < end.source:
        if begin.target != end.target:
            return _unknown_text(begin.target, end.target)
        return [ComparedRange(begin.source, end.source, begin.target, begin.target)]
    ranges: list[ComparedRange] = []
    if mine and mine[0].target != begin.target:
        found = _to_first(every, begin, mine[0])
        if isinstance(found, str):
            return found
        ranges += found
    at = ranges[-1].source_end if ranges else begin.source
    run: list[Segment] = []
    for segment in [*mine, None]:
        if segment is not None and run:
            last = run[-1]
            if segment.number != last.number + last.length:
                return _unknown_text(last.target + last.length, segment.target)
        if run and (segment is None or segment.target != run[-1].target + run[-1].length):
            last = run[-1]
            behind = PositionPair(end.source if segment is None else segment.source, last.target + last.length)
            ranges += cut(run, PositionPair(at, run[0].target), behind, size)
            at = behind.source
            run = []
        if segment is not None:
            run.append(segment)
    return ranges


def _to_first(segments: Sequence[Segment], begin: PositionPair, first: Segment) -> list[ComparedRange] | str:
    """The offsets between a beginning and the first segment behind it: one range of our records, or nothing."""
    before = next((segment for segment in reversed(segments) if segment.source + segment.length <= begin.source), None)
    if before is not None:
        ours = first.number - before.number - before.length
        if ours == 0:
            return []
        if ours == first.target - before.target - before.length and begin.target < first.target:
            return [ComparedRange(begin.source, first.source, begin.target, first.target)]
    return _unknown_text(begin.target, first.target)


def _unknown_text(target: int, target_end: int) -> str:
    return (
        f"others write to the remote topic, and which records between target offsets {target} and {target_end} are "
        "this flow's is not known"
    )


def _within(segments: Iterable[Segment], begin: PositionPair, end: PositionPair) -> list[Segment]:
    """The parts of segments between two source positions."""
    found: list[Segment] = []
    for segment in segments:
        first = max(segment.source, begin.source)
        length = min(segment.source + segment.length, end.source) - first
        if length > 0:
            ahead = first - segment.source
            found.append(Segment(first, segment.target + ahead, length, segment.number + ahead))
    return found


def next_pair(segments: Iterable[Segment], source: int, target: int) -> PositionPair | None:
    """The first pair that an offset map knows at or behind both positions; None: it knows none."""
    for segment in segments:
        ahead = max(source - segment.source, target - segment.target, 0)
        if ahead <= segment.length:
            return PositionPair(segment.source + ahead, segment.target + ahead)
    return None


def sample_ranges(count: int, fraction: float, seed: str) -> list[int]:
    """Choose a fraction of ``count`` ranges, spread over them: one of each run of equal size, chosen by a hash.

    Returns:
        Indexes, ascending; at least one if there is any range, and the same ones for the same seed.
    """
    if fraction >= 1:
        return list(range(count))
    wanted = min(count, max(1, round(count * fraction))) if count else 0
    chosen: list[int] = []
    for number in range(wanted):
        first, end = number * count // wanted, (number + 1) * count // wanted
        hashed = int.from_bytes(blake2b(f"{seed}/{number}".encode(), digest_size=8).digest())
        chosen.append(first + hashed % (end - first))
    return chosen


def join_ranges(ranges: Iterable[ComparedRange]) -> list[ComparedRange]:
    """Join ranges that are contiguous on both sides."""
    found: list[ComparedRange] = []
    for span in ranges:
        if found and found[-1].end == span.begin:
            found += ranges_between([found.pop().begin, span.end])
        else:
            found.append(span)
    return found


def merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans of one side, and join those that touch or overlap."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if first >= end:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def mapped_spans(segments: Iterable[Segment]) -> list[Span]:
    """Target offsets that a map accounts for: segments, and what lies between two if all of it was copied."""
    found: list[Span] = []
    before: Segment | None = None
    for segment in segments:
        if before is not None:
            end = before.target + before.length
            if segment.target - end == segment.number - before.number - before.length:
                found.append((end, segment.target))
        found.append((segment.target, segment.target + segment.length))
        before = segment
    return merge_spans(found)


def subtract_spans(span: Span, covered: Iterable[Span]) -> list[Span]:
    """The parts of a span that are not covered."""
    first, end = span
    found: list[Span] = []
    for begin, behind in merge_spans(covered):
        if behind <= first:
            continue
        if begin >= end:
            break
        if begin > first:
            found.append((first, begin))
        first = max(first, behind)
    return [*found, (first, end)] if first < end else found
