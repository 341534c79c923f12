"""Which differences the flow knows of: by the gaps that it recorded, and no more than each one is of. Pure.

=======================  ==========================================================================================
gap, answered by skip    what differs for it
=======================  ==========================================================================================
``record_refused``,      its source offsets are missing
``transform_failed``
``target_foreign``       what is at its target offsets is extra, or there once more
``target_truncated``     at the place where the target ended, so many are missing as it lost
``source_truncated``     before the first record of the new log, so many are extra as the source lost
=======================  ==========================================================================================

All others leave nothing behind: what the source removed is on neither side, a new topic is compared from its own
beginning, and a copy that was begun anew lacks nothing.

Of a compacted topic only each key's last record counts. Where that one was refused, or is foreign, the other side has
an earlier one, or none. What was lost at an end is not accounted for there: which keys it had is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mirror_ray.model.fault import LEFT_OUT_KINDS, TOPIC_KINDS, FaultKind
from mirror_ray.state.records import SkippedRange
from mirror_ray.verification.difference import Difference, Kind
from mirror_ray.verification.ranges import PositionPair

#: Answered by resync, they had the target emptied. ``target_truncated`` may have, but may have gone on, too.
_EMPTIED: frozenset[FaultKind] = frozenset({"source_truncated", "target_foreign", "copy_lost"})
#: What is found of records that were left out, of others', and of either in a compacted topic.
_LEFT_OUT: frozenset[Kind] = frozenset({"missing"})
_ADDED: frozenset[Kind] = frozenset({"extra", "doubled"})
_OF_KEYS: frozenset[Kind] = frozenset({"missing", "changed", "extra"})


@dataclass(slots=True)
class _Allowance:
    """A gap, and how many findings it may still account for."""

    gap: SkippedRange
    left: int
    #: Where what the source lost is on the target, once the first of it was met.
    place: int | None = None


class KnownDifferences:
    """Accounts for the findings of one partition, each of them once, in order."""

    def __init__(self, gaps: Iterable[SkippedRange], end: PositionPair, *, compacted: bool = False) -> None:
        """``end``: of what is compared. A finding's place may be there, and then it is none of a gap behind it."""
        self._compacted = compacted
        self._accounts = [_allowance(_up_to(gap, end)) for gap in ranges_in_force(gaps)]

    def gap(self, finding: Difference) -> str | None:
        """The text of the gap that accounts for it; None: none does."""
        found = next((each for each in self._accounts if each.left > 0 and self._holds(each, finding)), None)
        if found is None:
            return None
        found.left -= 1
        if found.gap.kind == "source_truncated":
            found.place = finding.source_offset
        return f"{found.gap.kind}, answered by {found.gap.policy}: {found.gap.text}"

    def _holds(self, account: _Allowance, finding: Difference) -> bool:
        gap, kind = account.gap, finding.kind
        source, target = finding.source_offset, finding.target_offset
        match gap.kind:
            case "record_refused" | "transform_failed":
                kinds = _OF_KEYS if self._compacted else _LEFT_OUT
                return kind in kinds and gap.source_from <= source < gap.source_to
            case "target_foreign":
                kinds = _OF_KEYS if self._compacted else _ADDED
                return kind in kinds and gap.target_from <= target < gap.target_to
            case "target_truncated":
                return not self._compacted and kind == "missing" and target == gap.target_from
            case "source_truncated":
                there = account.place in (None, source) and gap.source_from <= source <= gap.source_to
                return not self._compacted and kind == "extra" and there
        return False


def with_explanations(findings: Iterable[Difference], known: KnownDifferences) -> list[Difference]:
    """The findings, in order, those that a recorded gap accounts for with its text."""
    return [replace(each, gap=known.gap(each)) for each in findings]


def ranges_in_force(gaps: Iterable[SkippedRange]) -> list[SkippedRange]:
    """The gaps that are of what is there now, in the order in which they came about.

    Where the copy was begun anew those before it are over. Where a log lost its end, its offsets are others' since:
    what an earlier gap says of them is over, too, and what is missing or extra behind that end is so at that end.
    """
    kept: list[SkippedRange] = []
    for gap in sorted(gaps, key=lambda each: each.time_ms):
        if gap.kind in TOPIC_KINDS or _had_it_emptied(gap):
            kept = []
            continue
        if gap.kind == "target_truncated":
            kept = [_target_lost_its_end(each, gap.target_from) for each in kept]
        if gap.kind == "source_truncated":
            kept = [_source_lost_its_end(each, gap.source_from) for each in kept]
        if gap.policy == "skip":
            kept.append(gap)
    return kept


def _had_it_emptied(gap: SkippedRange) -> bool:
    """A ``copy_lost`` that names where its doubled records end was answered without emptying the target."""
    return gap.policy == "resync" and gap.kind in _EMPTIED and not (gap.kind == "copy_lost" and gap.target_to >= 0)


def large_skipped_ranges(gaps: Iterable[SkippedRange], least: int) -> list[PositionPair]:
    """Positions at or behind which both sides go on alike, of gaps of at least so many offsets; -1 where none is known.

    Refused records that lie side by side are one gap.
    """
    found: list[PositionPair] = []
    refused: list[SkippedRange] = []
    for gap in ranges_in_force(gaps):
        if gap.kind in LEFT_OUT_KINDS:
            refused.append(gap)
        elif gap.kind == "source_truncated" and gap.source_to - gap.source_from >= least:
            found.append(PositionPair(gap.source_from, -1))
        elif gap.target_to - gap.target_from >= least:
            found.append(PositionPair(-1, gap.target_to if gap.kind == "target_foreign" else gap.target_from))
    return found + [PositionPair(end, -1) for first, end in _runs(refused) if end - first >= least]


def _runs(gaps: Sequence[SkippedRange]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for first, end in sorted((each.source_from, each.source_to) for each in gaps):
        if runs and first <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
        else:
            runs.append((first, end))
    return runs


def _allowance(gap: SkippedRange) -> _Allowance:
    on_target = gap.kind in ("target_foreign", "target_truncated")
    length = gap.target_to - gap.target_from if on_target else gap.source_to - gap.source_from
    return _Allowance(gap, length)


def _up_to(gap: SkippedRange, end: PositionPair) -> SkippedRange:
    match gap.kind:
        case "record_refused" | "transform_failed":
            return replace(gap, source_to=min(gap.source_to, end.source))
        case "target_foreign":
            return replace(gap, target_to=min(gap.target_to, end.target))
    return gap


def _target_lost_its_end(gap: SkippedRange, at: int) -> SkippedRange:
    if gap.kind == "target_foreign":
        return replace(gap, target_to=min(gap.target_to, at))
    if gap.kind == "target_truncated" and gap.target_from > at:
        return replace(gap, target_from=at, target_to=at + gap.target_to - gap.target_from)
    return gap


def _source_lost_its_end(gap: SkippedRange, at: int) -> SkippedRange:
    if gap.kind in LEFT_OUT_KINDS:
        return replace(gap, source_to=min(gap.source_to, at))
    if gap.kind == "source_truncated" and gap.source_from > at:
        return replace(gap, source_from=at, source_to=at + gap.source_to - gap.source_from)
    return gap
