"""Which differences the flow's skipped ranges explain, and no more of them than each range covers.

========================  =========================================================================================
fault, resolved by skip   what differs because of it
========================  =========================================================================================
``record_refused``,       its source offsets are missing
``transform_failed``
``target_foreign``        what is at its target offsets is extra, or there once more
``target_truncated``      at the offset where the target ended, as many are missing as it lost
``source_truncated``      before the first record of the new log, as many are extra as the source lost
========================  =========================================================================================

Other faults leave no difference: what the source removed is on neither side, a new topic is compared from its own
beginning, and a copy that was started anew lacks nothing.

Of a compacted topic only the last record of each key is compared. If that one was refused, or is foreign, the other
side has an earlier one, or none. What was lost at an end explains nothing there: its keys are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mirror_ray.model.fault import LEFT_OUT_KINDS, TOPIC_KINDS, FaultKind
from mirror_ray.state.records import SkippedRange
from mirror_ray.verification.difference import Difference, DifferenceKind
from mirror_ray.verification.ranges import PositionPair, Span, merge_spans

#: Resolved by resync, they emptied the target. ``target_truncated`` may have emptied it, but may also have gone on.
_EMPTIED: frozenset[FaultKind] = frozenset({"source_truncated", "target_foreign", "copy_lost"})
#: Differences because of records that were left out, of foreign records, and of either in a compacted topic.
_LEFT_OUT: frozenset[DifferenceKind] = frozenset({"missing"})
_ADDED: frozenset[DifferenceKind] = frozenset({"extra", "doubled"})
_OF_KEYS: frozenset[DifferenceKind] = frozenset({"missing", "changed", "extra"})


@dataclass(slots=True)
class _Allowance:
    """A skipped range, and how many differences it may still explain."""

    skipped: SkippedRange
    left: int
    #: The source offset of the first difference that was explained by what the source lost.
    source_offset: int | None = None


class KnownDifferences:
    """Explains the differences of one partition, each of them once, in order."""

    def __init__(self, skipped_ranges: Iterable[SkippedRange], end: PositionPair, *, compacted: bool = False) -> None:
        """``end``: of what is compared. A difference at the end is not explained by a range behind it."""
        self._compacted = compacted
        self._allowances = [_allowance(_up_to(skipped, end)) for skipped in ranges_in_force(skipped_ranges)]

    def explain(self, difference: Difference) -> str | None:
        """The text of the skipped range that explains a difference; None: none does."""
        for allowance in self._allowances:
            if allowance.left > 0 and self._explains(allowance, difference):
                allowance.left -= 1
                if allowance.skipped.kind == "source_truncated":
                    allowance.source_offset = difference.source_offset
                return resolved_text(allowance.skipped)
        return None

    def _explains(self, allowance: _Allowance, difference: Difference) -> bool:
        skipped, kind = allowance.skipped, difference.kind
        source, target = difference.source_offset, difference.target_offset
        match skipped.kind:
            case "record_refused" | "transform_failed":
                kinds = _OF_KEYS if self._compacted else _LEFT_OUT
                return kind in kinds and skipped.source_from <= source < skipped.source_to
            case "target_foreign":
                kinds = _OF_KEYS if self._compacted else _ADDED
                return kind in kinds and skipped.target_from <= target < skipped.target_to
            case "target_truncated":
                return not self._compacted and kind == "missing" and target == skipped.target_from
            case "source_truncated":
                there = allowance.source_offset in (None, source) and skipped.source_from <= source <= skipped.source_to
                return not self._compacted and kind == "extra" and there
        return False


def resolved_text(skipped: SkippedRange) -> str:
    """What a difference says of the skipped range that explains it."""
    return f"{skipped.kind}, answered by {skipped.policy}: {skipped.text}"


def with_explanations(differences: Iterable[Difference], known: KnownDifferences) -> list[Difference]:
    """The differences, in order; those that a skipped range explains carry its text."""
    return [replace(found, gap=known.explain(found)) for found in differences]


def ranges_in_force(skipped_ranges: Iterable[SkippedRange]) -> list[SkippedRange]:
    """The skipped ranges that concern what is there now, in the order in which they came about.

    Ranges from before the copy was started anew no longer count. If a log lost its end, its offsets belong to other
    records since then: an earlier range no longer covers them, and what it explains behind that end is at that end.
    """
    kept: list[SkippedRange] = []
    for skipped in sorted(skipped_ranges, key=lambda skipped: skipped.time_ms):
        if skipped.kind in TOPIC_KINDS or _had_it_emptied(skipped):
            kept = []
            continue
        if skipped.kind == "target_truncated":
            kept = [_target_lost_its_end(earlier, skipped.target_from) for earlier in kept]
        if skipped.kind == "source_truncated":
            kept = [_source_lost_its_end(earlier, skipped.source_from) for earlier in kept]
        if skipped.policy == "skip":
            kept.append(skipped)
    return kept


def _had_it_emptied(skipped: SkippedRange) -> bool:
    """A ``copy_lost`` that names where its doubled records end was resolved without emptying the target."""
    return (
        skipped.policy == "resync"
        and skipped.kind in _EMPTIED
        and not (skipped.kind == "copy_lost" and skipped.target_to >= 0)
    )


def large_skipped_ranges(skipped_ranges: Iterable[SkippedRange], least: int) -> list[PositionPair]:
    """Positions at or behind which both sides are the same again, of ranges of at least so many offsets; -1: unknown.

    Refused records side by side count as one range.
    """
    found: list[PositionPair] = []
    refused: list[Span] = []
    for skipped in ranges_in_force(skipped_ranges):
        if skipped.kind in LEFT_OUT_KINDS:
            refused.append((skipped.source_from, skipped.source_to))
        elif skipped.kind == "source_truncated" and skipped.source_to - skipped.source_from >= least:
            found.append(PositionPair(skipped.source_from, -1))
        elif skipped.target_to - skipped.target_from >= least:
            behind = skipped.target_to if skipped.kind == "target_foreign" else skipped.target_from
            found.append(PositionPair(-1, behind))
    return found + [PositionPair(end, -1) for first, end in merge_spans(refused) if end - first >= least]


def _allowance(skipped: SkippedRange) -> _Allowance:
    on_target = skipped.kind in ("target_foreign", "target_truncated")
    length = skipped.target_to - skipped.target_from if on_target else skipped.source_to - skipped.source_from
    return _Allowance(skipped, length)


def _up_to(skipped: SkippedRange, end: PositionPair) -> SkippedRange:
    match skipped.kind:
        case "record_refused" | "transform_failed":
            return replace(skipped, source_to=min(skipped.source_to, end.source))
        case "target_foreign":
            return replace(skipped, target_to=min(skipped.target_to, end.target))
    return skipped


def _target_lost_its_end(skipped: SkippedRange, at: int) -> SkippedRange:
    if skipped.kind == "target_foreign":
        return replace(skipped, target_to=min(skipped.target_to, at))
    if skipped.kind == "target_truncated" and skipped.target_from > at:
        return replace(skipped, target_from=at, target_to=at + skipped.target_to - skipped.target_from)
    return skipped


def _source_lost_its_end(skipped: SkippedRange, at: int) -> SkippedRange:
    if skipped.kind in LEFT_OUT_KINDS:
        return replace(skipped, source_to=min(skipped.source_to, at))
    if skipped.kind == "source_truncated" and skipped.source_from > at:
        return replace(skipped, source_from=at, source_to=at + skipped.source_to - skipped.source_from)
    return skipped
