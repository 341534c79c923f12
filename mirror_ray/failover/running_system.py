"""The running system as a plan needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.observe.status import PartitionStatus


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
