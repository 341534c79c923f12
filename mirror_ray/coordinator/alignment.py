"""Brings a flow and its routes to one source offset in every partition, before they are ended.

What transforms say of a record decides in which topic it is, so they may change only where all of these have come to
the same source offset: before it the earlier ones hold for all, behind it the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from mirror_ray.coordinator.flow import FlowController
from mirror_ray.model.names import FlowPartition, TopicPartition

#: Source offsets that one of them has reached, by partition; None: it has not begun, and can't now.
Positions = Mapping[TopicPartition, int | None]


def stops(family: Sequence[Positions]) -> list[dict[TopicPartition, int]]:
    """How far each has still to copy, by partition; one that has not begun is waited for by none.

    ``family``: the flow, and then its routes, each with those of the flow's partitions that it has, too.
    """
    furthest = _furthest(family)
    return [
        {each: furthest[each] for each, at in positions.items() if each in furthest and at != furthest[each]}
        for positions in family
    ]


def aligned(family: Sequence[Positions]) -> dict[TopicPartition, int]:
    """The partitions at the same source offset in all that have them, each with that offset."""
    return {
        each: offset
        for each, offset in _furthest(family).items()
        if all(positions.get(each, offset) == offset for positions in family)
    }


def _furthest(family: Sequence[Positions]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for each, at in family[0].items():
        known = [at, *(positions[each] for positions in family[1:] if each in positions)]
        offsets = [offset for offset in known if offset is not None]
        if len(offsets) == len(known):
            found[each] = max(offsets)
    return found


_LOOK_S: Final = 0.02


async def align(
    live: FlowController,
    routes: Sequence[FlowController],
    *,
    free: Callable[[FlowPartition], bool],
    step: Callable[[], Awaitable[None]],
    deadline_s: float,
) -> None:
    """Stop all of them, let those that are behind copy on to where the first one is, and note where that was done.

    They want nothing any more afterwards. What could not be done by the deadline is not noted, and then other
    transforms can't take effect there before they have caught up.

    Args:
        live: The flow itself.
        routes: All of its routes.
        free: Whether no replicator has a partition or may still have it.
        step: Hands out and takes back partitions.
        deadline_s: For all of it.

    Raises:
        MirrorError: The state could not be written, or the target can't be asked.
    """
    family = [live, *routes]
    if not routes or not all(each.discovered and not each.state.fenced for each in family):
        return

    async def until(reached: Callable[[], bool]) -> None:
        while not reached():
            await step()
            await asyncio.sleep(_LOOK_S)

    def all_free() -> bool:
        return all(free(partition) for each in family for partition in _partitions(each))

    def finished() -> bool:
        return all(each.state.finished(partition) for each in family for partition in each.stopping)

    for each in family:
        await each.stop_at({})
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline_s):
            await until(all_free)
            for each, ends in zip(family, stops(_positions(live, routes)), strict=True):
                await each.stop_at(ends)
            await until(finished)
    for each in family:
        await each.stop_at({})
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline_s):
            await until(all_free)
            reached = aligned(_positions(live, routes))
            for each in family:
                sure = await each.accounted(reached)
                reached = {partition: offset for partition, offset in reached.items() if partition in sure}
            # The flow's own note is the one that counts: it is written last.
            for each in (*routes, live):
                await each.state.set_aligned(reached)


def _partitions(flow: FlowController) -> list[FlowPartition]:
    return [
        FlowPartition(flow.name, topic, number)
        for topic, records in flow.state.by_topic().items()
        for number in records
    ]


def _positions(live: FlowController, routes: Sequence[FlowController]) -> list[Positions]:
    """Of the partitions that are routed; a route that has nothing of one yet stands where the routes begin."""
    own: dict[TopicPartition, int | None] = {}
    begun: dict[TopicPartition, int] = {}
    for partition in (each.source for each in _partitions(live)):
        record, anchor = live.state.record(partition), live.state.latest_pair(partition)
        if record is not None and anchor is not None and record.routes_from is not None:
            own[partition], begun[partition] = anchor.source_offset, record.routes_from
    found: list[Positions] = [own]
    for route in routes:
        positions: dict[TopicPartition, int | None] = {}
        for partition, offset in own.items():
            if partition.topic in route.topics:
                anchor = route.state.latest_pair(partition)
                at_begin = offset if begun[partition] == offset else None
                positions[partition] = anchor.source_offset if anchor is not None else at_begin
        found.append(positions)
    return found
