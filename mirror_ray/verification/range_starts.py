"""Where comparing can begin: the first positions that are sure to belong together, and are there on both sides."""

from __future__ import annotations

import asyncio
import sys

from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.map import PartitionOffsetMap, SegmentMap
from mirror_ray.offsets.translation import Translation
from mirror_ray.offsets.translator import Translator
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.verification.range_bounds import RangeStart, UnknownStart
from mirror_ray.verification.ranges import PositionPair, next_pair

#: How long the source may be read for positions of one partition that the offset map has dropped.
_TIMEOUT_S = 300.0
#: Behind everything that was copied: nothing is left to compare.
_BEHIND_EVERYTHING = PositionPair(sys.maxsize, sys.maxsize)
_UNKNOWN = "which offsets belong together is not known"


async def find_range_start(
    translator: Translator,
    source: TopicPartition,
    offset_map: PartitionOffsetMap | None,
    record: PartitionRecord | None,
    *,
    starts: tuple[int, int],
    reached: PositionPair,
) -> RangeStart | UnknownStart:
    """Find the first exact pair at or behind ``starts`` of both sides; behind everything if there is none.

    ``translator`` translates by the map of which ``offset_map`` is a part. ``starts`` are where the logs begin, or the
    later position that was asked for; ``reached`` is how far the copy has come: the map may end before.
    """
    if starts[0] >= reached.source:
        return RangeStart(_BEHIND_EVERYTHING)
    origin = _origin(record)
    if origin is not None and record is not None and not record.shared and starts == origin:
        # Records of others in front of the first record that was copied are in front of the map's first pair, too.
        return RangeStart(origin)
    if offset_map is None:
        return _without_map(record, starts, reached)
    queries = _Queries(translator, source)
    places = offset_map.segments
    wanted, target = starts
    not_copied = None
    first = next(iter(places))
    if wanted < first.source and (first.target == 0 or await queries.translates_to(wanted, first.target)):
        not_copied = wanted, first.source
        wanted = first.source
    # Behind the map's head there may be nothing but transaction markers.
    nothing = wanted > places.head.source and places.head.target >= reached.target
    if nothing or wanted >= reached.source or target >= reached.target:
        return RangeStart(_BEHIND_EVERYTHING, None, not_copied)
    found = await _find(queries, places, wanted, target)
    return found._replace(not_copied=not_copied) if isinstance(found, RangeStart) else found


class _Queries:
    """Translates offsets of one partition; all queries share one timeout."""

    def __init__(self, translator: Translator, source: TopicPartition) -> None:
        self._translator, self._source = translator, source
        self._until_s = asyncio.get_running_loop().time() + _TIMEOUT_S

    async def to_target(self, offset: int) -> Translation:
        return await self._translator.to_target(self._source, offset, self._left_s)

    async def to_source(self, offset: int) -> Translation:
        return await self._translator.to_source(self._source, offset, self._left_s)

    async def translates_to(self, offset: int, target: int) -> bool:
        found = await self.to_target(offset)
        return found.exact and found.offset == target

    @property
    def _left_s(self) -> float:
        return max(0.0, self._until_s - asyncio.get_running_loop().time())


async def _find(queries: _Queries, places: SegmentMap, wanted: int, target: int) -> RangeStart | UnknownStart:
    head = places.head
    if wanted > head.source or target > head.target:
        return UnknownStart(
            f"{_UNKNOWN}: the segments topic on the target covers source offsets up to {head.source} and target "
            f"offsets up to {head.target}, and comparing is to begin at {wanted} and {target}"
        )
    found = await queries.to_target(wanted)
    if found.exact and found.offset is not None:
        if found.offset >= target:
            return RangeStart(PositionPair(wanted, found.offset))
        found = await queries.to_source(target)
        if found.exact and found.offset is not None:
            return RangeStart(PositionPair(found.offset, target))
    pair = next_pair(places, wanted, target)
    if pair is None:
        return UnknownStart(f"{_UNKNOWN}: {found.reason}")
    if pair.source == wanted:
        return RangeStart(pair)
    return RangeStart(pair, f"source offsets {wanted} to {pair.source} were not compared: {found.reason}")


def _without_map(
    record: PartitionRecord | None, starts: tuple[int, int], reached: PositionPair
) -> RangeStart | UnknownStart:
    origin = _origin(record)
    if origin is not None and (starts[0] > origin.source or starts[1] > origin.target):
        origin = None
    if origin is not None and origin.target == 0 and starts[0] < origin.source:
        return RangeStart(origin, None, (starts[0], origin.source))
    if starts[1] >= reached.target:
        return RangeStart(_BEHIND_EVERYTHING)
    if origin is not None and starts[0] < origin.source:
        why = "the segments topic on the target has nothing about them, and the flow's state only of what is behind"
        return RangeStart(origin, f"source offsets {starts[0]} to {origin.source} were not compared: {why}")
    if origin is not None:
        return RangeStart(origin)
    if starts == (0, 0):
        return RangeStart(PositionPair(0, 0))
    return UnknownStart(f"{_UNKNOWN}: the segments topic on the target has nothing about it")


def _origin(record: PartitionRecord | None) -> PositionPair | None:
    """Where copying began, by the state; records of older versions do not say it."""
    if record is None or record.origin_source_offset is None or record.origin_target_offset is None:
        return None
    return PositionPair(record.origin_source_offset, record.origin_target_offset)
