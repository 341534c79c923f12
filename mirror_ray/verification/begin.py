"""Where comparing can begin: the first positions that are sure to belong together, and are there on both sides."""

from __future__ import annotations

import sys
from typing import NamedTuple

from mirror_ray.coordination.state import PartitionRecord
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.book import Page
from mirror_ray.offsets.translator import Translator
from mirror_ray.verification.ranges import Pair, next_pair

#: So long the source is read for a place that the map has forgotten.
_WAIT_S = 300.0
#: Behind everything that was copied: nothing is left to compare.
_NOWHERE = Pair(sys.maxsize, sys.maxsize)


class Begin(NamedTuple):
    """Where to begin, and what is worth saying about it."""

    pair: Pair
    note: str | None = None


class NotKnown(NamedTuple):
    """Why there is no place to begin at."""

    why: str


async def begin_of(
    translator: Translator,
    source: TopicPartition,
    page: Page | None,
    record: PartitionRecord | None,
    starts: tuple[int, int],
) -> Begin | NotKnown:
    """The first pair at or behind ``starts``, of the source and of the target; behind everything where there is none.

    Args:
        translator: Of the map that ``page`` is of.
        source: The partition.
        page: What the map says of it; None: nothing.
        record: What the state says of it.
        starts: Where its logs begin, or where it is wanted to begin.
    """
    if page is None:
        return _without_map(record, starts)
    places = page.places
    wanted, target = starts
    first, note = next(iter(places)).source, None
    if wanted < first:
        found = await translator.to_target(source, wanted, _WAIT_S)
        if found.exact and found.offset == next(iter(places)).target:
            note = f"source offsets {wanted} to {first} were not copied: copying began there"
            wanted = first
    if wanted >= places.head.source or target >= places.head.target:
        return Begin(_NOWHERE, note)
    found = await translator.to_target(source, wanted, _WAIT_S)
    if found.exact and found.offset is not None:
        if found.offset >= target:
            return Begin(Pair(wanted, found.offset), note)
        back = await translator.to_source(source, target, _WAIT_S)
        if back.exact and back.offset is not None:
            return Begin(Pair(back.offset, target), note)
        found = back
    pair = next_pair(places, *starts)
    if pair is None:
        return NotKnown(f"which offsets belong together is not known: {found.reason}")
    return Begin(pair, f"source offsets {starts[0]} to {pair.source} were not compared: {found.reason}")


def _without_map(record: PartitionRecord | None, starts: tuple[int, int]) -> Begin | NotKnown:
    if record is not None and starts <= (record.origin.source_offset, record.origin.target_offset):
        origin = Pair(record.origin.source_offset, record.origin.target_offset)
        if starts[1] <= origin.target:
            return Begin(origin)
    if starts == (0, 0):
        return Begin(Pair(0, 0))
    return NotKnown("which offsets belong together is not known: the segments topic on the target tells nothing of it")
