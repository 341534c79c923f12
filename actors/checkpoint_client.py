"""The checkpoint actors over Ray: brought up when they are first asked, and again when one has died."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import ray
from ray.actor import ActorHandle

from actors import spawn
from actors.actor_clients import call
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import ReplicatorGoneError
from mirror_ray.model.errors import MirrorError
from mirror_ray.observe.groups import CheckpointReport, FlowGroups, GroupStatus
from mirror_ray.offsets.translation import Translation
from mirror_ray.state.actor_names import NAMESPACE, checkpoint_number

_STOP_S = 5.0


class RayCheckpoint:
    """See ``CheckpointPort``."""

    def __init__(self, name: str, settings: MirrorSettings) -> None:
        """``name``: the system's."""
        self._name = name
        self._settings = settings
        self._handles: list[ActorHandle[Any]] | None = None
        self._starting = asyncio.Lock()

    async def report(self) -> CheckpointReport:
        """See ``CheckpointPort``."""
        reports: list[CheckpointReport] = await self._ask_all("report")
        events = sorted(event for each in reports for event in each.events)
        flows = {name: _sum([each.flows[name] for each in reports if name in each.flows]) for name in reports[0].flows}
        audit = {name: why for each in reports for name, why in each.audit.items()}
        return CheckpointReport(events=tuple(events), flows=flows, audit=audit)

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        """See ``CheckpointPort``."""
        found: list[Sequence[GroupStatus]] = await self._ask_all("groups", flow)
        return sorted((status for each in found for status in each), key=lambda each: (each.flow, each.group))

    async def settle(self, deadline_s: float) -> bool:
        """See ``CheckpointPort``."""
        return all(await self._ask_all("settle", deadline_s))

    async def translate(self, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> Translation:
        """See ``CheckpointPort``."""
        first = (await self._started())[0]
        found: Translation = await self._call(first.translate.remote(flow, topic, partition, offset, back=back))
        return found

    async def stop(self) -> None:
        """See ``CheckpointPort``. Also those that another coordinator started."""
        handles = await asyncio.to_thread(self._living)
        await asyncio.gather(*(self._end(handle) for handle in handles))

    async def _ask_all(self, method: str, *args: object) -> list[Any]:
        handles = await self._started()
        return await asyncio.gather(*(self._call(getattr(handle, method).remote(*args)) for handle in handles))

    async def _call(self, ref: Any) -> Any:
        try:
            return await call(ref)
        except ReplicatorGoneError:
            self._handles = None
            raise

    async def _started(self) -> list[ActorHandle[Any]]:
        async with self._starting:
            if self._handles is None:
                count = self._settings.checkpoint_actors
                await asyncio.gather(*(self._end(handle) for handle in await asyncio.to_thread(self._living, count)))
                handles = [
                    await asyncio.to_thread(spawn.spawn_checkpoint, self._name, number) for number in range(count)
                ]
                await asyncio.gather(*(call(handle.configure.remote(self._settings)) for handle in handles))
                self._handles = handles
            return self._handles

    def _living(self, first: int = 0) -> list[ActorHandle[Any]]:
        """From number ``first`` on."""
        handles: list[ActorHandle[Any]] = []
        for actor in ray.util.list_named_actors(all_namespaces=True):
            name = str(actor["name"])
            number = checkpoint_number(self._name, name) if actor["namespace"] == NAMESPACE else None
            if number is not None and number >= first:
                try:
                    handles.append(ray.get_actor(name, namespace=NAMESPACE))
                except ValueError:  # it has ended by itself
                    continue
        return handles

    @staticmethod
    async def _end(handle: ActorHandle[Any]) -> None:
        with contextlib.suppress(TimeoutError, MirrorError):
            await asyncio.wait_for(call(handle.stop.remote()), _STOP_S)
        await asyncio.to_thread(ray.kill, handle)


def _sum(parts: Sequence[FlowGroups]) -> FlowGroups:
    rounds = [each.round_s for each in parts if each.round_s is not None]
    return FlowGroups(
        groups=sum(each.groups for each in parts),
        untranslated=sum(each.untranslated for each in parts),
        unsynced=sum(each.unsynced for each in parts),
        round_s=max(rounds, default=None),
        problem=next((each.problem for each in parts if each.problem), None),
        age_s=max((each.age_s for each in parts if each.age_s is not None), default=None),
    )
