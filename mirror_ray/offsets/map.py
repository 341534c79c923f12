"""The offset map of a flow: which source offset is which target offset, partition by partition.

A *segment* is a run of records without an offset gap on either side. The next one begins behind a gap: of the source
(control batches, aborted or cleaned records), or of the target (records of other writers in a shared topic). A segment
knows how many records were copied before it. Where that is more than its predecessor accounts for, segments are missing
in between: a replicator died before it published them, or they were dropped to save memory. What lies there is found by
reading the source (``gap_scan``).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.model.segment import BlockKey, Segment, SegmentBlock

#: Segments kept of a partition in memory, of 32 bytes each.
DEFAULT_LIMIT = 1 << 14
#: One of so many of the kept segments is the newest part, of which nothing is left out.
_DENSE = 4
#: Blocks kept of a partition in the topic, together twice as many segments as the map keeps in memory.
_BLOCKS = 1024


class CountedPair(NamedTuple):
    """A source and a target offset that belong together, and how many records were copied before them."""

    source: int
    target: int
    number: int


@dataclass(frozen=True, slots=True)
class ExactOffset:
    """The offset on the other side: of the same record, or of the next one that is there."""

    offset: int


@dataclass(frozen=True, slots=True)
class SegmentGap:
    """The offset is not before ``after`` and not behind ``before``: reading the source in between tells which it is."""

    after: CountedPair
    before: CountedPair


class BeyondMap:
    """The offset is behind everything that is known."""


MapLookup = ExactOffset | SegmentGap | BeyondMap

_BEGINNING = CountedPair(0, 0, 0)


class MapTail(NamedTuple):
    """The offsets behind the last known record on both sides, and the source offset up to which was read."""

    source: int
    target: int
    reached: int


class SegmentMap:
    """The segments of one partition in order; at most ``limit`` of them, all of the newest and fewer of the old ones.

    Guarantees: an ``ExactOffset`` is that of the very record. The same lookup gives it again later, or a
    ``SegmentGap``, whatever is added, unless the target was truncated or the source is copied anew.
    """

    __slots__ = ("_head", "_lengths", "_limit", "_numbers", "_origin", "_share", "_sources", "_targets")

    def __init__(self, limit: int = DEFAULT_LIMIT, origin: CountedPair = _BEGINNING) -> None:
        """Nothing lies before ``origin``."""
        self._limit = limit
        self._sources, self._targets = array("q"), array("q")
        self._lengths, self._numbers = array("q"), array("q")
        self._origin = origin
        #: The source was read up to here: behind the last record there may be offset gaps.
        self._head = 0
        #: The share that ``thinned`` returned last.
        self._share = 0.0

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[Segment]:
        return map(Segment, self._sources, self._targets, self._lengths, self._numbers)

    @property
    def last_source(self) -> int | None:
        """Source offset of the last segment."""
        return self._sources[-1] if len(self) else None

    @property
    def empty(self) -> bool:
        """Whether no record was copied yet."""
        return not len(self) or self._numbers[-1] + self._lengths[-1] == 0

    @property
    def head(self) -> CountedPair:
        """How far copying has come on both sides; all 0 while nothing is known."""
        end = self._last_end
        return _BEGINNING if end is None else CountedPair(self._head, end.target, end.number)

    @property
    def tail(self) -> MapTail | None:
        """The end of the map; None: nothing was published, not even where copying began."""
        end = self._last_end
        return None if end is None else MapTail(end.source, end.target, max(self._head, end.source))

    @property
    def _last_end(self) -> CountedPair | None:
        return self._end(-1) if self._sources else None

    def kept_by(self, segment: Segment) -> int | None:
        """The source offset up to which ``add(segment)`` would keep the map; None: it would keep all of it."""
        end = self._last_end
        if end is None or (segment.source >= end.source and segment.target >= end.target):
            return None
        keep = self._before(segment)
        return self._end(keep - 1).source if keep else self._sources[0]

    def add(self, segment: Segment, source_next: int) -> None:
        """Add what was acknowledged next; the source was read up to ``source_next``.

        Segments at or behind it on either side are dropped: the target lost them, or the source is copied anew.
        """
        end = self._last_end
        if end is not None and (segment.source < end.source or segment.target < end.target):
            copied_anew = segment.target >= end.target
            self._cut(segment)
            end = self._last_end
            if end is None and copied_anew:
                # The source is copied anew behind all that the target has: nothing before that is of use.
                self._origin = CountedPair(segment.source, segment.target, segment.number)
        source, target, length, number = segment
        if end is not None:
            # Numbers are published as sequences, which wrap.
            records = (number - end.number) % SEQUENCE_MODULUS
            number = end.number + records
        self._head = max(source_next, source + length)
        if end is not None and source - end.source == records == target - end.target:
            # Every offset up to the segment is a record on both sides: there is no gap, published or not.
            self._lengths[-1] += records + length
            return
        self._sources.append(source)
        self._targets.append(target)
        self._lengths.append(length)
        self._numbers.append(number)
        if len(self._sources) > self._limit:
            self._thin()

    def reached(self, source_next: int) -> None:
        """The source was read up to ``source_next``, and held no more records to copy."""
        self._head = max(self._head, source_next)

    def to_target(self, offset: int) -> MapLookup:
        """The target offset of the first record at or behind a source offset."""
        at = bisect_right(self._sources, offset) - 1
        if at < 0:
            return self._before_all(ExactOffset(self._targets[0])) if len(self) else BeyondMap()
        end = self._end(at)
        if offset < end.source:
            return ExactOffset(self._targets[at] + offset - self._sources[at])
        if at + 1 < len(self):
            # The first record of what is not known is the next one on the target, too, unless others write there.
            return self._behind(at, self._targets[at + 1], at_once=offset == end.source)
        return ExactOffset(end.target) if offset <= self._head else BeyondMap()

    def to_source(self, offset: int) -> MapLookup:
        """The source offset of the first record at or behind a target offset."""
        at = bisect_right(self._targets, offset) - 1
        if at < 0:
            return self._before_all(ExactOffset(self._sources[0])) if len(self) else BeyondMap()
        end = self._end(at)
        if offset < end.target:
            return ExactOffset(self._sources[at] + offset - self._targets[at])
        if at + 1 < len(self):
            return self._behind(at, self._sources[at + 1], at_once=False)
        return ExactOffset(self._head) if offset == end.target else BeyondMap()

    def _before_all(self, first: ExactOffset) -> MapLookup:
        begin = self._begin(0)
        nothing = begin.number == self._origin.number or begin.target == self._origin.target
        return first if nothing else SegmentGap(self._origin, begin)

    def _behind(self, at: int, following: int, *, at_once: bool) -> MapLookup:
        """Look up between the end of segment number ``at`` and the next one, which begins at ``following``."""
        end, begin = self._end(at), self._begin(at + 1)
        if begin.number == end.number or begin.target == end.target:
            return ExactOffset(following)
        if at_once and begin.target - end.target == begin.number - end.number:
            return ExactOffset(end.target)
        return SegmentGap(end, begin)

    def _begin(self, at: int) -> CountedPair:
        return CountedPair(self._sources[at], self._targets[at], self._numbers[at])

    def _end(self, at: int) -> CountedPair:
        length = self._lengths[at]
        return CountedPair(self._sources[at] + length, self._targets[at] + length, self._numbers[at] + length)

    def _before(self, segment: Segment) -> int:
        """How many segments begin before ``segment`` on both sides."""
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
    """Which of more than ``limit`` ascending source offsets to keep, by index: three quarters of the limit at most.

    The first one and the newest ones are kept. What is left out between two others is less than a fixed share of its
    distance to the end: whoever asks for an old offset reads more of the source than one who asks for a new one. The
    share is as small as the limit allows; it is returned, too, as the next call need not try a smaller one.
    """
    newest = range(len(sources) - limit // _DENSE, len(sources))
    share = share or 1 / limit
    while len(kept := [*_apart(sources, newest[0], share), *newest]) > limit - len(newest):
        share *= 1.25
    return kept, share


def _apart(sources: Sequence[int], newest: int, share: float) -> list[int]:
    """What to keep before index ``newest``, so that no more is left out than ``share`` of the way to the end."""
    end, following, kept = sources[-1], sources[newest], list[int]()
    for at in range(newest - 1, 0, -1):
        # Without it, all behind its predecessor is unknown.
        if following - sources[at - 1] > (end - following) * share:
            kept.append(at)
            following = sources[at]
    return [0, *reversed(kept)]


class AppliedTransforms(NamedTuple):
    """The transforms that the target's records went through, from source offset ``since`` on; empty: none."""

    transforms: str = ""
    since: int = 0


NO_TRANSFORMS: Final = AppliedTransforms()


@dataclass(slots=True)
class PartitionOffsetMap:
    """The map of one partition, and the topics that it is of."""

    source_topic_id: TopicId
    target_topic_id: TopicId
    epoch: int
    segments: SegmentMap
    #: Blocks in the topic, oldest first; the last one may grow.
    blocks: dict[BlockKey, None] = field(default_factory=dict)
    #: Grows with every change of the store, so that what was derived from the map can be kept until then.
    version: int = 0
    transforms: AppliedTransforms = NO_TRANSFORMS
    offsets_preserved: bool = False


class OffsetMapStore:
    """The maps of all partitions of a flow, from the blocks of its segments topic.

    Guarantees: what a replicator publishes late, after the partition was assigned to another one, changes nothing.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT, blocks: int = _BLOCKS) -> None:
        """Of each partition, ``limit`` segments are kept in memory, and ``blocks`` in the topic."""
        self._limit, self._blocks = limit, blocks
        self._maps: dict[TopicPartition, PartitionOffsetMap] = {}
        self._obsolete: list[BlockKey] = []
        self._changes = 0

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._maps)

    def find(self, source: TopicPartition) -> PartitionOffsetMap | None:
        """The map of a source partition; None: nothing was published."""
        return self._maps.get(source)

    def clear(self) -> None:
        """Forget all: the segments topic was created anew."""
        self._maps.clear()
        self._obsolete.clear()

    def apply(self, block: SegmentBlock) -> None:
        """Take the next block of the topic."""
        found = self._maps.get(block.source)
        if found is not None and block.epoch < found.epoch:
            self._obsolete.append(block.key)
            return
        ids = (block.source_topic_id, block.target_topic_id)
        if found is None or (found.source_topic_id, found.target_topic_id) != ids:
            if found is not None:
                self._obsolete += found.blocks
            found = self._maps[block.source] = PartitionOffsetMap(*ids, block.epoch, SegmentMap(self._limit))
        # A block that has grown adds only its new segments, and the one that may have grown.
        known = found.segments.last_source if block.key in found.blocks else None
        if known is None:
            self._drop_cut(found, block.segments[0])
        found.transforms = AppliedTransforms(block.transforms, block.transforms_since)
        found.epoch, found.offsets_preserved = block.epoch, block.preserved
        self._changes += 1
        found.version = self._changes
        found.blocks[block.key] = None
        for segment in block.segments:
            if known is None or segment.source >= known:
                found.segments.add(segment, segment.source)
        found.segments.reached(block.source_next)

    def _drop_cut(self, partition_map: PartitionOffsetMap, begin: Segment) -> None:
        """Drop blocks of records that are copied anew, or were lost by the target, as the block ``begin`` says."""
        kept = partition_map.segments.kept_by(begin)
        if kept is None:
            return
        keys = [key for key in partition_map.blocks if key.first < kept]
        # The last of these has records on both sides of the cut, or nothing that could not be read again.
        self._obsolete += [key for key in partition_map.blocks if key not in keys[:-1]]
        partition_map.blocks = dict.fromkeys(keys[:-1])

    def obsolete_blocks(self) -> list[BlockKey]:
        """Blocks to delete from the topic, each returned once: replaced ones, and old ones beyond the limit."""
        for partition_map in self._maps.values():
            if len(partition_map.blocks) > self._blocks:
                keys = list(partition_map.blocks)
                kept, _ = thinned([key.first for key in keys], self._blocks)
                partition_map.blocks = dict.fromkeys(keys[at] for at in kept)
                self._obsolete += [key for key in keys if key not in partition_map.blocks]
        obsolete, self._obsolete = self._obsolete, []
        return obsolete
