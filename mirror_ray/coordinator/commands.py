"""What operators have a running system do; ``audited_commands`` keeps each command in the audit log."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_ray.config.difference import SettingsDifference
from mirror_ray.coordinator.audited_commands import scope
from mirror_ray.coordinator.parts import CoordinatorParts
from mirror_ray.coordinator.running_flows import resolve_all
from mirror_ray.coordinator.scaling import refuse_number, with_bounds
from mirror_ray.model.backfill import BackfillRequest
from mirror_ray.model.fault import FaultPolicy
from mirror_ray.observe.backfills import BackfillStatus
from mirror_ray.state.records import Pause


class CoordinatorCommands:
    """The commands of ``CoordinatorService``; its own are ``apply`` and ``down``.

    ``flow`` is the name of a running flow: another one is a ConfigError, a system without flows a NotRunningError.
    """

    parts: CoordinatorParts

    async def scale(self, replicators: int) -> None:
        """Set the number of replicators. Few partitions move, the others never stop."""
        refuse_number(replicators)
        self.parts.running_settings()
        self.parts.scaling.pin(replicators)
        await self.parts.applied.rescaled()

    async def scale_by_load(self, minimum: int | None = None, maximum: int | None = None) -> None:
        """Let the number of replicators follow load and lag again, within other bounds where some are given."""
        settings = with_bounds(self.parts.running_settings(), minimum, maximum)
        async with self.parts.applied.lock:
            self.parts.settings = settings
            self.parts.scaling.follow(settings)
        await self.parts.applied.rescaled()

    async def set(
        self, flow: str | None, changes: Mapping[str, str | None], dry_run: bool = False
    ) -> SettingsDifference:
        """Change keys of a flow, or of the system where ``flow`` is None, until the next ``apply``.

        The difference is applied as by ``apply``; with ``dry_run`` it is only returned.

        Raises:
            ConfigError: With a sentence for each key that can't be changed so, and nothing has been changed.
        """
        return await self.parts.applied.change(flow, changes, dry_run=dry_run)

    async def pause(self, flow: str, topic: str | None = None, partition: int | None = None) -> None:
        """Stop copying a flow, a topic or a partition until ``resume``; outlives restarts."""
        await self.parts.flow(flow).pause(Pause(topic, partition))
        await self.parts.schemas.follow()
        self.parts.emit("info", flow, f"paused {scope(Pause(topic, partition))}")

    async def resume(self, flow: str, topic: str | None = None, partition: int | None = None) -> None:
        """Lift the pause of the same scope."""
        await self.parts.flow(flow).resume(Pause(topic, partition))
        await self.parts.schemas.follow()
        self.parts.emit("info", flow, f"resumed {scope(Pause(topic, partition))}")

    async def backfill(self, flow: str, request: BackfillRequest, dry_run: bool = False) -> BackfillStatus:
        """Begin a backfill beside a flow, or go on with the same one; ``dry_run`` changes nothing."""
        return await self.parts.backfills.ask(self.parts.flow(flow), request, dry_run=dry_run)

    async def cancel_backfill(self, flow: str, topic: str, into: str | None = None) -> BackfillStatus:
        """Stop a backfill; what it has copied stays."""
        return await self.parts.backfills.cancel(self.parts.flow(flow), topic, into)

    async def resolve(
        self, flow: str, topic: str, partition: int | None, by: FaultPolicy, *, operator: str = ""
    ) -> tuple[str, ...]:
        """Resolve the fault of a topic or of one partition, once; returns the partitions that go on by it."""
        return await resolve_all(self.parts.with_routes(flow), topic, partition, by, operator)

    async def settle_groups(self, deadline_s: float = 20.0) -> bool:
        """Sync consumer groups at once, as far as the copy has come; whether that was done by the deadline."""
        return await self.parts.groups.actors.settle(deadline_s)
