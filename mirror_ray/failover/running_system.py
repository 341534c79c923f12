"""The running system as a plan needs it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.failover.copy_progress import POLL_S
from mirror_ray.observe.status import PartitionStatus

_RELEASED_WITHIN_S: Final = 30.0


class RunningSystem(Protocol):
    """The commands of a running system that a plan uses. They raise what the coordinator raises."""

    async def partitions(self, flow: str) -> Sequence[PartitionStatus]:
        """Every partition of a flow."""

    async def pause(self, flow: str, topic: str | None = None) -> None:
        """Stop copying the flow, or one topic."""

    async def resume(self, flow: str, topic: str | None = None) -> None:
        """Copy it again, from its position on."""

    async def configuration(self) -> MirrorSettings:
        """The settings that it runs by."""

    async def apply(self, settings: MirrorSettings) -> object:
        """Bring it to other settings."""


async def until_released(held: Callable[[], Awaitable[list[PartitionStatus]]]) -> list[PartitionStatus]:
    """Wait until replicators have let go of partitions; returns those that are ``held`` after half a minute."""
    deadline_s = time.monotonic() + _RELEASED_WITHIN_S
    while True:
        found = await held()
        if not found or time.monotonic() > deadline_s:
            return found
        await asyncio.sleep(POLL_S)
