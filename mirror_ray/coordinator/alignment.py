"""Brings a flow and its routes to one source offset in every partition, before they are ended.

Transforms decide which topic a record is in, so they may change only where the flow and all its routes have come to the
same source offset: the former ones hold before it for all of them, the new ones behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from mirror_ray.coordinator.flow import FlowController
from mirror_ray.model.names import FlowPartition, TopicPartition

#: Source offsets that one flow has reached, by partition; None: it has not begun there, and can't now.
Positions = Mapping[TopicPartition, int | None]

_POLL_S: Final = 0.02


def stops(family: Sequence[Positions]) -> list[dict[TopicPartition, int]]:
    """How far each flow has still to copy, by partition; nobody waits for one that has not begun.

    ``family``: the flow, and then its routes, each with those of the flow's partitions that it has, too.
    """
    furthest = _furthest(family)
    return [
        {
            partition: furthest[partition]
            for partition, offset in positions.items()
            if partition in furthest and offset != furthest[partition]
        }
        for positions in family
    ]


def aligned(family: Sequence[Positions]) -> dict[TopicPartition, int]:
    """The partitions at the same source offset in every flow that has them, each with that offset."""
    return {
        partition: offset
        for partition, offset in _furthest(family).items()
        if all(positions.get(partition, offset) == offset for positions in family)
    }


def _furthest(family: Sequence[Positions]) -> dict[TopicPartition, int]:
    furthest: dict[TopicPartition, int] = {}
    for partition, own in family[0].items():
        reached = [own, *(positions[partition] for positions in family[1:] if partition in positions)]
        offsets = [offset for offset in reached if offset is not None]
        if len(offsets) == len(reached):
            furthest[partition] = max(offsets)
    return furthest


async def align(
    live: FlowController,
    routes: Sequence[FlowController],
    *,
    is_unassigned: Callable[[FlowPartition], bool],
    step: Callable[[], Awaitable[None]],
    deadline_s: float,
) -> None:
    """Stop a flow and its routes, let the slower ones copy on to where the first one is, and persist where they met.

    They want nothing any more afterwards. Partitions that did not meet by the deadline, which is that of each of the
    two phases, are not marked, and other transforms can't take effect there before they have caught up. ``step`` hands
    out and takes back partitions. Raises as a flow does.
    """
    family = [live, *routes]
    if not routes or not all(flow.discovered and not flow.state.fenced for flow in family):
        return

    async def until(reached: Callable[[], bool]) -> None:
        while not reached():
            await step()
            await asyncio.sleep(_POLL_S)

    def all_unassigned() -> bool:
        return all(is_unassigned(partition) for flow in family for partition in _partitions(flow))

    def finished() -> bool:
        return all(flow.state.finished(partition) for flow in family for partition in flow.stopping)

    for flow in family:
        await flow.stop_at({})
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline_s):
            await until(all_unassigned)
            for flow, ends in zip(family, stops(_positions(live, routes)), strict=True):
                await flow.stop_at(ends)
            await until(finished)
    for flow in family:
        await flow.stop_at({})
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline_s):
            await until(all_unassigned)
            met = aligned(_positions(live, routes))
            for flow in family:
                caught_up = await flow.caught_up_partitions(met)
                met = {partition: offset for partition, offset in met.items() if partition in caught_up}
            # The flow's own mark is the one that counts: it is written last.
            for flow in (*routes, live):
                await flow.state.set_aligned(met)


def _partitions(flow: FlowController) -> list[FlowPartition]:
    return [FlowPartition(flow.name, *partition) for partition in flow.state.records.partitions]


def _positions(live: FlowController, routes: Sequence[FlowController]) -> list[Positions]:
    """Positions in partitions that are routed; a route without a record is where the flow's routing began."""
    own: dict[TopicPartition, int | None] = {}
    begun: dict[TopicPartition, int] = {}
    for partition, record in live.state.records.partitions.items():
        pair = live.state.latest_pair(partition)
        if pair is not None and record.routes_from is not None:
            own[partition], begun[partition] = pair.source_offset, record.routes_from
    family: list[Positions] = [own]
    for route in routes:
        positions: dict[TopicPartition, int | None] = {}
        for partition, offset in own.items():
            if partition.topic in route.topics:
                pair = route.state.latest_pair(partition)
                at_begin = offset if begun[partition] == offset else None
                positions[partition] = pair.source_offset if pair is not None else at_begin
        family.append(positions)
    return family
