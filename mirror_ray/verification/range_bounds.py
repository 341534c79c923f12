"""What of a partition is compared: from its beginning up to as much of the copy as both logs still show. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from mirror_ray.model.segment import Segment
from mirror_ray.verification.compared_ranges import PositionPair
from mirror_ray.verification.job import CompareJob

#: Troubles of which an answer by ``skip`` leaves all that had been copied out of the new remote topic.
_REMOTE_ANEW = frozenset({"target_recreated", "target_missing"})


class LogLimits(NamedTuple):
    """Where one log begins and ends."""

    start: int
    #: The high watermark.
    end: int
    #: Where it ends for consumers: an open transaction holds back what is behind.
    stable: int


class RangeStart(NamedTuple):
    """Where to begin, and what is worth saying about it."""

    pair: PositionPair
    note: str | None = None
    #: Source offsets, the end not included, that were asked for, and were never copied to this very remote topic.
    not_copied: tuple[int, int] | None = None


class UnknownBounds(NamedTuple):
    """Why there is no place to begin at."""

    why: str


class RangeEnd(NamedTuple):
    """The end of what is compared."""

    pair: PositionPair
    #: How far the copy has come, without what an open transaction holds back on the target.
    reached: PositionPair
    #: Why that is less than what was copied; None: it is all of it.
    short: str | None = None
    #: Whether a log does not show any more what was copied.
    lost: bool = False


def until_of(
    reached: PositionPair, source: LogLimits, target: LogLimits, segments: Iterable[Segment]
) -> RangeEnd | str:
    """Up to where comparing can go of a copy that has come as far as ``reached``, by the map's ``segments``.

    Returns:
        The end, or why nothing can be compared.
    """
    short = []
    shown = reached
    if target.stable < reached.target <= target.end:
        held = (
            f"another writer's open transaction holds back the remote partition from target offset {target.stable} on"
        )
        pair = last_pair(segments, target.stable)
        if pair is None:
            return f"{held}: verify again when it has ended"
        shown = PositionPair(min(pair.source, reached.source), pair.target)
        short.append(f"source offsets {shown.source} to {reached.source} were not compared: {held}")
    pair = PositionPair(min(shown.source, source.stable), min(shown.target, target.end))
    if pair != shown:
        lost = [
            f"the {side} ends at {end}"
            for side, end, there in (("source", source.stable, shown.source), ("target", target.end, shown.target))
            if end < there
        ]
        was = f"source offset {shown.source} was target offset {shown.target}"
        short.append(f"a log lost its end: {was}, and {' and '.join(lost)}")
    return RangeEnd(pair, shown, "; ".join(short) or None, pair != shown)


def last_pair(segments: Iterable[Segment], target: int) -> PositionPair | None:
    """The last pair of a map that is not behind a target offset; None: it knows none."""
    found = None
    for segment in segments:
        if segment.target > target or (found is not None and segment.target == target):
            break
        length = min(segment.length, target - segment.target)
        found = PositionPair(segment.source + length, segment.target + length)
    return found


def between(job: CompareJob, begin: RangeStart | UnknownBounds, until: RangeEnd, first: int) -> CompareJob:
    """The job with where it begins and ends, and what is to be said of that.

    Nothing is left to compare where both are the same, without a reason: no copied record is on both sides.

    Args:
        job: The partition.
        begin: Where comparing can begin.
        until: Where it ends.
        first: The source offset from which on it was wanted.
    """
    notes = (*job.notes, until.short) if until.short else job.notes
    if isinstance(begin, UnknownBounds):
        return replace(job, reason=begin.why, notes=notes)
    pair, end = within(begin.pair, until.pair), until.pair
    job = _with_begin(replace(job, begin=pair, end=end, reached=until.reached, notes=notes), begin)
    if pair.source < end.source:
        return job
    # Nothing of the source is left to compare with: what the target holds or lacks would pass for equal.
    if until.short or pair != end:
        why = f"target offsets {pair.target} to {end.target} have no place on the source"
        return replace(job, reason=until.short or why)
    if first < end.source and begin.not_copied is None:
        gone = f"source offsets {first} to {end.source} were not compared: they are not on the target any more"
        return replace(job, notes=(*job.notes, gone))
    return job


def within(pair: PositionPair, end: PositionPair) -> PositionPair:
    """A pair, or as much of it as lies before an end."""
    return PositionPair(min(pair.source, end.source), min(pair.target, end.target))


def _with_begin(job: CompareJob, begin: RangeStart) -> CompareJob:
    """With what is to be said of a beginning: what was never copied is noted, or is accounted for by a gap."""
    job = replace(job, notes=(*job.notes, begin.note)) if begin.note else job
    if begin.not_copied is None:
        return job
    first, end = begin.not_copied
    gap = next((gap for gap in reversed(job.gaps) if gap.kind in _REMOTE_ANEW and gap.policy == "skip"), None)
    if gap is None:
        return replace(job, notes=(*job.notes, f"source offsets {first} to {end} were not copied: copying began there"))
    known = f"known: {gap.kind}, answered by {gap.policy}: {gap.text}"
    return replace(job, left_out=f"source offsets {first} to {end} are not on the target ({known})")
