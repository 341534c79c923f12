"""Brings a running system to settings: one change at a time, agreed on, saved for a coordinator that restarts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mirror_ray.config.difference import SettingsDifference, changed, rescaled
from mirror_ray.config.runtime_changes import with_changes
from mirror_ray.config.secrets import secrets_in
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.coordinator.saved_settings import fingerprint, kept_of, read_kept
from mirror_ray.coordinator.scaling import ScalingController, refuse_number
from mirror_ray.coordinator.schemas import DecidedIds, decided_ids, with_decided_ids
from mirror_ray.model.errors import ConfigError, NotReadyError
from mirror_ray.model.names import FlowName
from mirror_ray.model.starter import Starter

if TYPE_CHECKING:
    from mirror_ray.coordinator.parts import CoordinatorParts


def replicators_for(
    before: MirrorSettings | None, after: MirrorSettings, scaling: ScalingController, asked: int | None
) -> int:
    """How many replicators a system is brought to; ``asked`` None: it keeps its number, unless the settings' differs.

    A number that an operator has set by `scale` stays, though load and lag would ask for another one.

    Raises:
        ConfigError: There can't be as many as are asked for.
    """
    if asked is not None:
        refuse_number(asked)
        return asked
    if before is None or (before.replicators != after.replicators and not scaling.pinned):
        return after.replicators
    return scaling.wanted or after.replicators


def would_change(
    before: MirrorSettings | None, after: MirrorSettings, scaling: ScalingController, asked: int | None = None
) -> SettingsDifference:
    """What is touched when a system that runs by ``before`` is brought to ``after``, and a mark of what runs now."""
    found = changed(before, after)
    if before is None:
        return found
    wanted = scaling.would_be(after, replicators_for(before, after, scaling, asked))
    found = rescaled(found, scaling.wanted, wanted)
    number = next((change.before for change in found.system if change.key == "replicators"), "")
    return replace(found, onto=f"{fingerprint(before)}/{number}")


def refuse_unresolvable(settings: MirrorSettings) -> None:
    """Raise ConfigError, with a sentence for each, where secrets can't be resolved here: nothing was started yet."""
    problems = []
    for key, secret in secrets_in(settings):
        try:
            secret.reveal()
        except LookupError as error:
            problems.append(f"{key}: {error.args[0]}")
    if problems:
        node = f"secrets are looked up on every node where the system runs, and this is {socket.gethostname()}"
        raise ConfigError(*problems, f"{node}; nothing has been changed")


def refuse_others(name: str, agreed: str | None, found: SettingsDifference) -> None:
    """Raise NotReadyError where what runs is not what a caller has agreed to change, and not what it wants, either.

    ``agreed``: ``SettingsDifference.onto`` of what the caller was shown, None: whatever runs; ``found``: the same now.
    """
    if agreed is None or agreed == found.onto or found.nothing:
        return
    if not agreed:
        raise NotReadyError(f"{name} has been started by somebody else meanwhile: give the command again")
    raise NotReadyError(f"{name} was changed by somebody else since: give the command again to see what it changes")


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
        blob = await self._parts.dependencies.settings_store.load()
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
        """What ``apply`` would change. Raises as ``BegunFlows.check``."""
        before = self._parts.settings
        settings = with_decided_ids(settings, decided_ids(before))
        await self._parts.begun.check(before, settings)
        return would_change(before, settings, self._parts.scaling, replicators)

    async def apply(
        self, settings: MirrorSettings, replicators: int | None, onto: str | None, starter: Starter | None
    ) -> SettingsDifference:
        """Bring the system to ``settings``, as ``CoordinatorService.apply``."""
        async with self.lock:
            parts = self._parts
            settings = with_decided_ids(settings, decided_ids(parts.settings))
            difference = would_change(parts.settings, settings, parts.scaling, replicators)
            refuse_others(parts.name, onto, difference)
            parts.starter = starter if parts.settings is None else parts.starter
            return await self._bring_to(settings, replicators)

    async def change(self, flow: str | None, changes: Mapping[str, str | None], *, dry_run: bool) -> SettingsDifference:
        """Change keys of a flow, or of the system, as ``CoordinatorCommands.set``."""
        async with self.lock:
            before = self._parts.running_settings()
            after = with_changes(before, flow, changes)
            if dry_run:
                return await self.would_apply(after, None)
            return await self._bring_to(after, after.replicators if after.replicators != before.replicators else None)

    async def decide_ids(self, decided: DecidedIds) -> None:
        """Have flows copy schema ids so, whose settings leave it to the target."""
        running = self._parts.settings
        if running is None or with_decided_ids(running, decided) is running:
            return
        async with self.lock:
            if self._parts.settings is not None and not self.ending:
                await self._bring_to(with_decided_ids(self._parts.settings, decided), None)

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
            await parts.dependencies.settings_store.save(blob)

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
            for helper in (parts.heartbeat, parts.groups, parts.schemas, parts.gateway):
                await helper.configure(settings)
        parts.settings = settings
        self._wake()
