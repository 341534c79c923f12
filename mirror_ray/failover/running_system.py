"""The running system as a plan needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from mirror_ray.mirror import Mirror
from mirror_ray.observe.status import PartitionStatus


class RunningSystem(Protocol):
    """What a plan asks of a system that runs. Raises what the coordinator raises."""

    async def partitions(self, flow: str) -> Sequence[PartitionStatus]:
        """Every partition of a flow."""
        ...

    async def pause(self, flow: str) -> None:
        """Stop copying the flow."""
        ...

    async def resume(self, flow: str) -> None:
        """Copy it again, from where it stood."""
        ...


class AttachedSystem:
    """A system that this process is attached to."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    async def partitions(self, flow: str) -> Sequence[PartitionStatus]:
        """See ``RunningSystem``."""
        return await asyncio.to_thread(self._mirror.partitions, flow)

    async def pause(self, flow: str) -> None:
        """See ``RunningSystem``."""
        await asyncio.to_thread(self._mirror.pause, flow)

    async def resume(self, flow: str) -> None:
        """See ``RunningSystem``."""
        await asyncio.to_thread(self._mirror.resume, flow)
