"""What the server needs of a running system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mirror_ray.config.difference import SettingsDifference
from mirror_ray.model.audit import AuditEntry, AuditQuery
from mirror_ray.observe.groups import GroupStatus
from mirror_ray.observe.system_snapshot import SystemSnapshot


class SystemPort(Protocol):
    """A running system. Every method raises a MirrorError: it does not answer, or refuses."""

    async def picture(self) -> SystemSnapshot:
        """All that can be seen of it now."""
        ...

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        """Every consumer group, of one flow or of all."""
        ...

    async def audit(self, wanted: AuditQuery) -> Sequence[AuditEntry]:
        """What was changed and done, oldest first."""
        ...

    def by(self, operator: str) -> SystemPort:
        """The same, for what somebody does: the audit log keeps who it was."""
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

    async def set(self, flow: str | None, changes: Mapping[str, str | None], dry_run: bool) -> SettingsDifference:
        """Change keys of a flow, or of the system; None as a value: the default. What it touches."""
        ...
