"""The coordinator: holds desired and observed state, and brings the one to the other.

A plain class; its Ray options are in ``actors.system``. ``step()`` = observe, decide, act, publish; idempotent. The
flows, the replicators and the heartbeats each run in tasks of their own and can't hold up one another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from mirror_ray.config.difference import SettingsDifference
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.audited_commands import AuditedCommands, CommandState, paused_of
from mirror_ray.coordinator.commands import CoordinatorCommands
from mirror_ray.coordinator.dependencies import Dependencies
from mirror_ray.coordinator.parts import CoordinatorParts
from mirror_ray.coordinator.queries import CoordinatorQueries
from mirror_ray.model.starter import Starter

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

#: What replicators get to end in when their partitions have been drained already, or will not be any more.
_END_S = 1.0


async def within(timeout_s: float, work: Awaitable[_T]) -> _T | None:
    """What ``work`` returns; None when it fails or the time is over: then it is cancelled, and not waited for."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=timeout_s)
    task.cancel()
    if not done:
        return None
    if (error := task.exception()) is not None:
        _log.warning("while going down: %s", error)
        return None
    return task.result()


class CoordinatorService(CoordinatorQueries, CoordinatorCommands):
    """One per system. All methods may be called again after a call whose outcome is not known."""

    def __init__(self, name: str, dependencies: Dependencies) -> None:
        """``name``: the system's. Nothing happens before ``begin``."""
        self._wake = asyncio.Event()
        #: Everything that should be copying does.
        self._settled = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._dependencies = dependencies
        self._rebalanced_s = dependencies.clock()
        parts = CoordinatorParts(
            name,
            dependencies,
            wake=self._wake.set,
            until_settled=self._until_settled,
            partitions=self._partition_rows,
            refused=self._refused,
        )
        super().__init__(parts)
        self._audited = AuditedCommands(self, name, self._command_state, parts.emit, dependencies.audit_logs)

    async def _refused(self, why: str) -> None:
        await self._audited.refused(why)

    async def begin(self) -> None:
        """Go on with the work of an earlier coordinator of this name, where there was one; idempotent."""
        async with self.parts.applied.lock:
            if self._tasks:
                return
            parts = self.parts
            loops = [
                self._loop(),
                parts.scaling.watch(),
                parts.heartbeat.watch(self._until_settled),
                parts.groups.watch(self._until_settled),
                parts.schemas.watch(),
                parts.gateway.watch(self._until_settled),
            ]
            self._tasks = [asyncio.create_task(loop) for loop in loops]
            await self.parts.applied.resume()

    async def apply(
        self,
        settings: MirrorSettings,
        replicators: int | None = None,
        dry_run: bool = False,
        onto: str | None = None,
        starter: Starter | None = None,
    ) -> SettingsDifference:
        """Start the flows of ``settings``, or update a running system to them, as ``CoordinatorClient.apply`` says.

        Only partitions that the difference touches stop (``config.difference``); where this raises, nothing has been
        changed. ``replicators``: how many are wanted, None: as ``replicators_for`` finds.
        """
        if dry_run:
            return await self.parts.applied.would_apply(settings, replicators)
        self.parts.applied.ending = False
        await self.begin()
        return await self.parts.applied.apply(settings, replicators, onto, starter)

    async def act(self, operator: str, name: str, args: Sequence[object]) -> Any:
        """Do the command ``name`` for ``operator``; the audit log keeps it."""
        return await self._audited.do(operator, name, args)

    def _command_state(self) -> CommandState:
        parts = self.parts
        return CommandState(settings=parts.settings, replicators=parts.scaling.wanted, paused=paused_of(parts.flows))

    async def _loop(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._dependencies.timing.step_s):
                    await self._wake.wait()
            self._wake.clear()
            began_s = self._dependencies.clock()
            try:
                await self.step()
            except Exception:  # noqa: BLE001
                _log.exception("a step of the coordinator failed; the next one tries again")
            # With 100,000 partitions a step takes a good part of a second: replicators are listened to in between.
            if (took_s := self._dependencies.clock() - began_s) > 0:
                await asyncio.sleep(took_s)

    async def step(self) -> None:
        """Observe, decide, act, publish. Does not wait for what it starts."""
        parts, now_s = self.parts, self._dependencies.clock()
        parts.observed.sample(now_s, parts.flows)
        parts.problems.sample(now_s, parts.settings)
        parts.limits.step(now_s)
        parts.throttled.sample(now_s, parts.pool.context.throttled.by_flow())
        loads = {}
        if now_s - self._rebalanced_s >= self._dependencies.timing.rebalance_load_s:
            self._rebalanced_s = now_s
            loads = parts.observed.loads(now_s)
            parts.observed.forget(lambda partition: partition.flow not in parts.flows)
        for flow in parts.flows.values():
            flow.settled = flow.settled or self._all_copying(flow)
            flow.recheck()
        if parts.settings is not None and all(flow.settled for flow in parts.flows.values()):
            self._settled.set()
        if parts.begun.learn({name: flow.state.records.flow for name, flow in parts.flows.items()}):
            await self.parts.applied.save()
        parts.backfills.step()
        await parts.assigner.step(parts.pool, loads)

    async def _until_settled(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._dependencies.timing.helpers_most_s):
                await self._settled.wait()

    async def down(self, deadline_s: float = 30.0) -> bool:
        """Drain everything, persist the last pairs, stop every other actor; whether everything was drained.

        Returns by the deadline, and a moment in which the actors are ended, whatever hangs; the caller then ends this
        one. A second call with a shorter deadline cuts the first one short.
        """
        parts = self.parts
        self.parts.applied.ending = True
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        await within(_END_S, self._dependencies.settings_store.save(None))
        drained = bool(await within(deadline_s, self._drain_all()))
        if not drained:
            _log.warning("not everything was drained in %s s; nothing is lost: the next start reads on", deadline_s)
        parts.settings, parts.begun.known = None, {}
        stopping = [parts.pool.shut_down(_END_S), parts.scaling.stop()]
        stopping += [helper.stop() for helper in (parts.heartbeat, parts.groups, parts.schemas, parts.gateway)]
        await within(2 * _END_S, asyncio.gather(*stopping))
        return drained

    async def _drain_all(self) -> bool:
        async with self.parts.applied.lock:
            return await self.parts.running.end_all()
