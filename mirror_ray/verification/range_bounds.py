"""What of a partition is compared: from its beginning up to as much of the copy as both logs still hold.

Where transforms changed the records, the source's records go through the same transforms again, and what comes out is
compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from mirror_ray.model.segment import Segment
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.transforms.chain import TransformChain
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.known_differences import resolved_text
from mirror_ray.verification.ranges import PositionPair

#: Faults whose resolution by ``skip`` leaves all that had been copied out of the new remote topic.
_REMOTE_ANEW = frozenset({"target_recreated", "target_missing"})


class LogBounds(NamedTuple):
    """Where one log begins and ends."""

    start: int
    #: The high watermark.
    end: int
    #: The last stable offset: an open transaction holds back what is behind.
    stable: int


class RangeStart(NamedTuple):
    """Where comparing begins, and what the report says about it."""

    pair: PositionPair
    note: str | None = None
    #: Source offsets that were asked for and were never copied to exactly this remote topic; the end is not included.
    not_copied: tuple[int, int] | None = None


class UnknownStart(NamedTuple):
    """Why no positions are known from which on comparing could begin."""

    why: str


class RangeEnd(NamedTuple):
    """Where comparing ends."""

    pair: PositionPair
    #: How far the copy has come, without what an open transaction holds back on the target.
    reached: PositionPair
    #: Why that is less than what was copied; None: it is everything.
    short: str | None = None
    #: Whether a log no longer holds what was copied.
    lost: bool = False


def range_end(
    reached: PositionPair, source: LogBounds, target: LogBounds, segments: Iterable[Segment]
) -> RangeEnd | str:
    """Find how far a copy that has come as far as ``reached`` can be compared, by the offset map's ``segments``.

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
    """The last pair of an offset map that is not behind a target offset; None: it knows none."""
    found = None
    for segment in segments:
        if segment.target > target or (found is not None and segment.target == target):
            break
        length = min(segment.length, target - segment.target)
        found = PositionPair(segment.source + length, segment.target + length)
    return found


def with_bounds(job: CompareJob, begin: RangeStart | UnknownStart, until: RangeEnd, first: int) -> CompareJob:
    """Add to a job where it begins and ends, and what the report says about that; ``first`` is what was asked for.

    Where both are the same and no reason is given, nothing is left to compare: no copied record is on both sides.
    """
    notes = (*job.notes, until.short) if until.short else job.notes
    if isinstance(begin, UnknownStart):
        return replace(job, reason=begin.why, notes=notes)
    pair, end = clipped(begin.pair, until.pair), until.pair
    job = _with_begin(replace(job, begin=pair, end=end, reached=until.reached, notes=notes), begin)
    if pair.source < end.source:
        return job
    # The source has nothing left to compare with: whatever the target holds or lacks would pass for equal.
    if until.short or pair != end:
        why = f"target offsets {pair.target} to {end.target} have no place on the source"
        return replace(job, reason=until.short or why)
    if first < end.source and begin.not_copied is None:
        gone = f"source offsets {first} to {end.source} were not compared: they are not on the target any more"
        return replace(job, notes=(*job.notes, gone))
    return job


def clipped(pair: PositionPair, end: PositionPair) -> PositionPair:
    """The pair, each position at most that of the end."""
    return PositionPair(min(pair.source, end.source), min(pair.target, end.target))


def _with_begin(job: CompareJob, begin: RangeStart) -> CompareJob:
    """Add what the report says about a beginning: what was never copied is noted, or explained by a skipped range."""
    job = replace(job, notes=(*job.notes, begin.note)) if begin.note else job
    if begin.not_copied is None:
        return job
    first, end = begin.not_copied
    for skipped in reversed(job.skipped_ranges):
        if skipped.kind in _REMOTE_ANEW and skipped.policy == "skip":
            known = f"known: {resolved_text(skipped)}"
            return replace(job, left_out=f"source offsets {first} to {end} are not on the target ({known})")
    return replace(job, notes=(*job.notes, f"source offsets {first} to {end} were not copied: copying began there"))


def why_not_comparable(chain: TransformChain | None, record: PartitionRecord | None, *, compacted: bool) -> str | None:
    """Say why transforms keep a partition from being compared; None: they do not.

    ``chain`` is the configuration's, ``record`` is what it was copied by; ``compacted``: the topic is, on either side.
    """
    identity = "" if chain is None else chain.identity
    if record is None:
        return (
            None if chain is None else "by which transforms it was copied is not known: the state has nothing about it"
        )
    if record.transforms != identity:
        return (
            f"it is copied by the transforms {record.transforms or 'none'}, and the configuration has "
            f"{identity or 'none'}: compare it with the configuration that it is copied by"
        )
    if chain is not None and not chain.pure:
        return "its transforms are not pure: what they made of the source's records they do not tell again"
    if chain is not None and compacted:
        return "it is compacted, and its transforms may have kept records that the source has not any more"
    return None


def transformed_starts(record: PartitionRecord | None, starts: tuple[int, int]) -> tuple[tuple[int, int], str | None]:
    """Where comparing may begin, at or behind ``starts`` on both sides, and a note on what is left out."""
    if record is None or record.transforms_source_offset is None or record.transforms_target_offset is None:
        return starts, None
    source, target = record.transforms_source_offset, record.transforms_target_offset
    note = f"source offsets {starts[0]} to {source} were not compared: they were copied by other transforms"
    return (max(starts[0], source), max(starts[1], target)), note if starts[0] < source else None
