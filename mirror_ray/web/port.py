"""What the server needs of a running system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mirror_ray.observe.groups import GroupStatus
from mirror_ray.observe.picture import Picture


class System(Protocol):
    """A running system. Every method raises a MirrorError: it does not answer, or refuses."""

    async def picture(self) -> Picture:
        """All that can be seen of it now."""
        ...

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        """Every consumer group, of one flow or of all."""
        ...

    async def pause(self, flow: str, topic: str | None, partition: int | None) -> None:
        """Stop copying a flow, a topic or a partition."""
        ...

    async def resume(self, flow: str, topic: str | None, partition: int | None) -> None:
        """Lift the pause of the same scope."""
        ...

    async def scale(self, replicators: int) -> None:
        """Set the number of replicators."""
        ...
