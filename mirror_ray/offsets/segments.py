"""Which source offset is which target offset, for one partition. Pure.

A *segment* is a run of records without a hole on either side. The next one begins behind a hole: of the source
(markers, aborted or cleaned records), or of the target (other writers' records in a shared topic). Each knows how many
records were copied before it; where that is more than the one before it accounts for, segments are missing in between:
a process died before it told them, or they were given up to save room. What lies there is found by walking the source.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.model.segment import Segment

#: Segments kept of a partition, of 32 bytes each.
DEFAULT_LIMIT = 1 << 14
#: Of what is kept, so much is the newest of all, without an omission.
_DENSE = 4


class MapPosition(NamedTuple):
    """Source and target positions that belong together, and how many records lie before them."""

    source: int
    target: int
    number: int


@dataclass(frozen=True, slots=True)
class ExactPosition:
    """The offset asked for, on the other side: of the same record, or of the next one that is there."""

    offset: int


@dataclass(frozen=True, slots=True)
class BetweenSegments:
    """Not before ``after`` and not behind ``before``: to be found by walking the records in between."""

    after: MapPosition
    before: MapPosition


class BeyondMap:
    """Behind everything that is known: to be asked again when more has been copied."""


Place = ExactPosition | BetweenSegments | BeyondMap

_BEGINNING = MapPosition(0, 0, 0)


class MapTail(NamedTuple):
    """Behind the last record that is known, on both sides, and the source position that was reached with it."""

    source: int
    target: int
    reached: int


class SegmentMap:
    """The segments of one partition in their order; at most ``limit`` of them, dense at the head and sparse behind.

    Guarantees: an ``ExactPosition`` answer is the position of the very record. It stays so, or becomes
    ``BetweenSegments``, whatever is added, unless the target was truncated or the source is copied anew.
    """

    __slots__ = ("_head", "_lengths", "_limit", "_numbers", "_origin", "_share", "_sources", "_targets")

    def __init__(self, limit: int = DEFAULT_LIMIT, origin: MapPosition = _BEGINNING) -> None:
        """Nothing lies before ``origin``."""
        self._limit = limit
        self._sources, self._targets = array("q"), array("q")
        self._lengths, self._numbers = array("q"), array("q")
        #: Records before this are not there any more, or never were.
        self._origin = origin
        #: Source position that has been reached: behind the last record there may be holes.
        self._head = 0
        #: See ``thinned``.
        self._share = 0.0

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[Segment]:
        return map(Segment, self._sources, self._targets, self._lengths, self._numbers)

    @property
    def first_source(self) -> int | None:
        """Source offset of the first segment."""
        return self._sources[0] if len(self) else None

    @property
    def last_source(self) -> int | None:
        """Source offset of the last segment."""
        return self._sources[-1] if len(self) else None

    @property
    def empty(self) -> bool:
        """Whether no record was copied yet."""
        return not len(self) or self._numbers[-1] + self._lengths[-1] == 0

    @property
    def head(self) -> MapPosition:
        """What has been reached on both sides; all 0 while nothing is known."""
        end = self._last_end
        return _BEGINNING if end is None else MapPosition(self._head, end.target, end.number)

    @property
    def tail(self) -> MapTail | None:
        """Behind what is known; None: nothing was told, not even where copying began."""
        end = self._last_end
        return None if end is None else MapTail(end.source, end.target, max(self._head, end.source))

    @property
    def _last_end(self) -> MapPosition | None:
        return self._end(-1) if self._sources else None

    def survives(self, segment: Segment) -> int | None:
        """The source position up to which ``add`` would keep what is known; None: it would keep all of it."""
        end = self._last_end
        if end is None or (segment.source >= end.source and segment.target >= end.target):
            return None
        keep = self._before(segment)
        return self._end(keep - 1).source if keep else self._sources[0]

    def add(self, segment: Segment, source_next: int) -> None:
        """What was acknowledged next, and the source position that was reached with it.

        What lies at or behind it on either side was lost by the target, or is copied anew, and is forgotten.
        """
        end = self._last_end
        if end is not None and (segment.source < end.source or segment.target < end.target):
            again = segment.target >= end.target
            self._cut(segment)
            end = self._last_end
            if end is None and again:
                # The source is copied anew behind all that the target has: nothing before that is of use.
                self._origin = MapPosition(segment.source, segment.target, segment.number)
        source, target, length, number = segment
        if end is not None:
            # Numbers are told as sequences, which wrap.
            records = (number - end.number) % SEQUENCE_MODULUS
            number = end.number + records
        self._head = max(source_next, source + length)
        if end is not None and source - end.source == records == target - end.target:
            # Every offset up to it, on both sides, is a record: there is no hole, told or not.
            self._lengths[-1] += records + length
            return
        self._sources.append(source)
        self._targets.append(target)
        self._lengths.append(length)
        self._numbers.append(number)
        if len(self._sources) > self._limit:
            self._thin()

    def reached(self, source_next: int) -> None:
        """The source was read on to there, and held nothing more to copy."""
        self._head = max(self._head, source_next)

    def to_target(self, offset: int) -> Place:
        """The target position of a source position: of the first record that is not before it."""
        at = bisect_right(self._sources, offset) - 1
        if at < 0:
            return self._before_all(ExactPosition(self._targets[0])) if len(self) else BeyondMap()
        end = self._end(at)
        if offset < end.source:
            return ExactPosition(self._targets[at] + offset - self._sources[at])
        if at + 1 < len(self):
            # The first record of what is not known is the next one on the target, too, unless others write there.
            return self._behind(at, self._targets[at + 1], at_once=offset == end.source)
        return ExactPosition(end.target) if offset <= self._head else BeyondMap()

    def to_source(self, offset: int) -> Place:
        """The source position of a target position: of the first record that is not before it."""
        at = bisect_right(self._targets, offset) - 1
        if at < 0:
            return self._before_all(ExactPosition(self._sources[0])) if len(self) else BeyondMap()
        end = self._end(at)
        if offset < end.target:
            return ExactPosition(self._sources[at] + offset - self._targets[at])
        if at + 1 < len(self):
            return self._behind(at, self._sources[at + 1], at_once=False)
        return ExactPosition(self._head) if offset == end.target else BeyondMap()

    def _before_all(self, first: ExactPosition) -> Place:
        begin = self._begin(0)
        nothing = begin.number == self._origin.number or begin.target == self._origin.target
        return first if nothing else BetweenSegments(self._origin, begin)

    def _behind(self, at: int, following: int, *, at_once: bool) -> Place:
        """The place of what lies between a segment's end and the next one's begin, where ``following`` is."""
        end, begin = self._end(at), self._begin(at + 1)
        if begin.number == end.number or begin.target == end.target:
            return ExactPosition(following)
        if at_once and begin.target - end.target == begin.number - end.number:
            return ExactPosition(end.target)
        return BetweenSegments(end, begin)

    def _begin(self, at: int) -> MapPosition:
        return MapPosition(self._sources[at], self._targets[at], self._numbers[at])

    def _end(self, at: int) -> MapPosition:
        length = self._lengths[at]
        return MapPosition(self._sources[at] + length, self._targets[at] + length, self._numbers[at] + length)

    def _before(self, segment: Segment) -> int:
        """How many segments begin before it on both sides."""
        return min(bisect_left(self._sources, segment.source), bisect_left(self._targets, segment.target))

    def _cut(self, segment: Segment) -> None:
        keep = self._before(segment)
        for column in (self._sources, self._targets, self._lengths, self._numbers):
            del column[keep:]
        if keep:
            room = min(segment.source - self._sources[-1], segment.target - self._targets[-1])
            self._lengths[-1] = min(self._lengths[-1], room)

    def _thin(self) -> None:
        keep, self._share = thinned(self._sources, self._limit, self._share)
        self._sources, self._targets, self._lengths, self._numbers = (
            array("q", [column[at] for at in keep])
            for column in (self._sources, self._targets, self._lengths, self._numbers)
        )


def thinned(sources: Sequence[int], limit: int, share: float = 0.0) -> tuple[list[int], float]:
    """Which of more than ``limit`` ascending source offsets to keep, by number: three quarters of the limit at most.

    The first one and the newest ones are kept. What is left out between two others is less than a fixed share of its
    distance to the end: who asks for an old offset reads more of the source than who asks for a new one, and the share
    is as small as the limit allows. It is returned, too: the next time no smaller one is to be tried.
    """
    newest = range(len(sources) - limit // _DENSE, len(sources))
    share = share or 1 / limit
    while len(kept := [*_apart(sources, newest[0], share), *newest]) > limit - len(newest):
        share *= 1.25
    return kept, share


def _apart(sources: Sequence[int], newest: int, share: float) -> list[int]:
    """What to keep in front of number ``newest``, so that only a ``share`` of the way from there to the end is lost."""
    end, following, kept = sources[-1], sources[newest], list[int]()
    for at in range(newest - 1, 0, -1):
        # Without it, all behind the one before it is unknown.
        if following - sources[at - 1] > (end - following) * share:
            kept.append(at)
            following = sources[at]
    return [0, *reversed(kept)]
