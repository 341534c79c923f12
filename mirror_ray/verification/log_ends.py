"""How far a flow had come when a command began: the target's log ends first, then what was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.observe.status import PartitionStatus

#: Asks the running system for the partitions of its flows; nothing where there is none, or where it does not answer.
Ask = Callable[[], Awaitable[Sequence[PartitionStatus]]]

#: So long a running partition may take to have acknowledged what the target held when the command began: a report is
#: up to a second old.
_PATIENCE_S = 5.0
_AGAIN_S = 0.2


async def acknowledged(
    ask: Ask, flow: FlowName, ends: Mapping[TopicPartition, int], shared: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, PartitionStatus], bool]:
    """What the running system says of the flow's partitions, once it has come to ``ends``; or after a few seconds.

    Args:
        ask: See there.
        flow: Which one.
        ends: Where the remote partitions ended when the command began, by source partition.
        shared: Source partitions whose remote partitions others write, too: their ends need not be the flow's.

    Returns:
        By source partition; and whether it had to be waited for.
    """
    until_s = asyncio.get_running_loop().time() + _PATIENCE_S
    waited = False
    while True:
        lines = {TopicPartition(line.topic, line.partition): line for line in await ask() if line.flow == str(flow)}
        behind = any(
            source not in shared and line.state in ("copying", "establishing") and line.target_end < ends.get(source, 0)
            for source, line in lines.items()
        )
        if not behind or asyncio.get_running_loop().time() > until_s:
            return lines, waited
        waited = True
        await asyncio.sleep(_AGAIN_S)


async def no_system() -> Sequence[PartitionStatus]:
    """An ``Ask`` where no system runs."""
    return ()
