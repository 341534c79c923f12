"""Brings a running system to settings: one change at a time, agreed on, saved for a coordinator that restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from mirror_ray.config.difference import SettingsDifference
from mirror_ray.config.runtime_changes import with_changes
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.coordinator.fingerprint import fingerprint
from mirror_ray.coordinator.parts import CoordinatorParts
from mirror_ray.coordinator.saved_settings import kept_of, read_kept
from mirror_ray.coordinator.scaling import refuse_number, with_bounds
from mirror_ray.coordinator.settings_agreement import refuse_others, refuse_unresolvable, replicators_for, would_change
from mirror_ray.model.names import FlowName
from mirror_ray.model.starter import Starter


class AppliedSettings:
    """The settings of the system, its flows and its number of replicators. Changes wait for one another."""

    def __init__(self, parts: CoordinatorParts, wake: Callable[[], None]) -> None:
        """``wake`` asks for a step soon."""
        self.lock = asyncio.Lock()
        #: The system goes down: nothing is saved any more, so that a coordinator that restarts has nothing to resume.
        self.ending = False
        self._parts = parts
        self._wake = wake

    async def resume(self) -> None:
        """Go on with the work of an earlier coordinator of this name, where there was one. The lock is held."""
        blob = await self._parts.dependencies.memory.load()
        if blob is None:
            return
        parts, kept = self._parts, read_kept(blob)
        await parts.pool.adopt()
        if isinstance(kept, str):
            parts.emit("error", parts.name, kept)
            return
        parts.scaling.pinned, parts.started_ms, parts.starter = kept.pinned, kept.started_ms, kept.starter
        parts.begun.known = dict(kept.begun)
        parts.emit("info", parts.name, "coordinator restarted: adopting the replicators that live")
        await self._configure(kept.settings, kept.replicators)

    async def would_apply(self, settings: MirrorSettings, replicators: int | None) -> SettingsDifference:
        """What ``apply`` would change.

        Raises:
            ConfigError: A flow that has begun would be turned to another cluster.
            ClusterUnreachableError: Whether one would can't be found out.
        """
        before = self._parts.settings
        await self._parts.begun.check(before, settings)
        return would_change(before, settings, self._parts.scaling, replicators)

    async def apply(
        self, settings: MirrorSettings, replicators: int | None, onto: str | None, starter: Starter | None
    ) -> SettingsDifference:
        """Bring the system to ``settings``; ``CoordinatorService.apply`` says how."""
        async with self.lock:
            parts = self._parts
            difference = would_change(parts.settings, settings, parts.scaling, replicators)
            refuse_others(parts.name, onto, difference)
            parts.starter = starter if parts.settings is None else parts.starter
            return await self._bring_to(settings, replicators)

    async def change(self, flow: str | None, changes: Mapping[str, str | None], *, dry_run: bool) -> SettingsDifference:
        """Change keys of a flow, or of the system where ``flow`` is None, until the next ``apply``.

        Raises:
            ConfigError: With a sentence for each key that can't be changed so, and nothing has been changed.
        """
        async with self.lock:
            before = self._parts.running_settings()
            after = with_changes(before, flow, changes)
            if dry_run:
                return await self.would_apply(after, None)
            return await self._bring_to(after, after.replicators if after.replicators != before.replicators else None)

    async def scale(self, replicators: int) -> None:
        """Set the number of replicators."""
        refuse_number(replicators)
        self._parts.running_settings()
        self._parts.scaling.pin(replicators)
        await self.rescaled()

    async def scale_by_load(self, minimum: int | None, maximum: int | None) -> None:
        """Let the number follow load and lag, within other bounds where some are given."""
        settings = with_bounds(self._parts.running_settings(), minimum, maximum)
        async with self.lock:
            self._parts.settings = settings
            self._parts.scaling.follow(settings)
        await self.rescaled()

    async def rescaled(self) -> None:
        """Save another number of replicators, and assign partitions anew."""
        await self.save()
        self._wake()

    async def save(self) -> None:
        """Save what the system runs by."""
        parts = self._parts
        if not self.ending and parts.settings is not None:
            blob = kept_of(
                parts.settings, parts.scaling, parts.begun, started_ms=parts.started_ms, starter=parts.starter
            )
            await parts.dependencies.memory.save(blob)

    def begin_backfill(self, flow: FlowSettings) -> None:
        """Begin the flow of a backfill, unless its live flow is being ended."""
        settings, running = self._parts.settings, self._parts.running
        if settings is not None and not self.ending and flow.name.live in running:
            running.begin(settings, flow)

    async def end_backfill(self, name: FlowName) -> bool:
        """End the flow of a backfill; whether all of it was drained."""
        async with self.lock:
            return await self._parts.running.end(name) if name in self._parts.running else True

    async def _bring_to(self, settings: MirrorSettings, replicators: int | None) -> SettingsDifference:
        parts, before = self._parts, self._parts.settings
        difference = would_change(before, settings, parts.scaling, replicators)
        refuse_unresolvable(settings)
        await parts.begun.check(before, settings)
        await self._configure(settings, replicators_for(before, settings, parts.scaling, replicators))
        await self.save()
        if before is not None and not difference.nothing:
            parts.emit("info", parts.name, f"settings changed: {difference}")
        return difference

    async def _configure(self, settings: MirrorSettings, replicators: int) -> None:
        parts = self._parts

        def configure_replicators() -> None:
            parts.limits.configure(settings)
            parts.pool.configure(settings, fingerprint(settings))
            parts.scaling.configure(settings, replicators)

        await parts.running.change(settings, configure_replicators)
        if parts.settings != settings:
            parts.heartbeat = parts.dependencies.heartbeat(settings)
            parts.groups.configure(settings)
            await parts.gateway.configure(settings)
        parts.settings = settings
        self._wake()
