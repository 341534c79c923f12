"""The actors beside the replicators, as the coordinator uses them: heartbeats, groups, schemas, the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from actors import spawn
from actors.calls import SupervisedActor, named_actors, stop_actor
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.model.names import FlowName
from mirror_ray.model.notice import Notice
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.observe.groups import CheckpointReport, FlowGroups, GroupStatus
from mirror_ray.observe.schemas import SchemaReport, SchemaStatus
from mirror_ray.offsets.translation import Translation
from mirror_ray.state.actor_names import (
    checkpoint_name,
    checkpoint_number,
    gateway_name,
    heartbeat_name,
    schema_sync_name,
)


class RayHeartbeat:
    """The heartbeat actor."""

    def __init__(self, name: str, settings: MirrorSettings) -> None:
        """``name``: the system's."""
        spawn_it = partial(spawn.spawn_heartbeat, name, settings)
        self._actor = SupervisedActor(heartbeat_name(name), spawn_it, settings)

    async def ages_s(self) -> Mapping[str, float | None]:
        """Seconds since the last acknowledged heartbeat, by flow; None before the first."""
        return dict(await self._actor.call("ages_s"))

    async def stop(self) -> None:
        """Stop emitting and end the process."""
        await self._actor.stop()


class RayGateway:
    """The gateway actor."""

    def __init__(self, name: str, settings: MirrorSettings) -> None:
        """``name``: the system's."""
        self._settings = settings.gateway
        self._actor = SupervisedActor(gateway_name(name), partial(spawn.spawn_gateway, name))
        self._notices: list[Notice] = []

    async def address(self) -> str:
        """Where it serves."""
        address, notices = await self._actor.call("configure", self._settings)
        self._notices += notices
        return str(address)

    def notices(self) -> Sequence[Notice]:
        """What it reported when its address was asked for, each once."""
        reported, self._notices = self._notices, []
        return reported

    async def stop(self) -> None:
        """End the process."""
        await self._actor.stop()


class RaySchemaSync:
    """The schema sync actor."""

    def __init__(self, name: str, settings: MirrorSettings) -> None:
        """``name``: the system's."""
        self._actor = SupervisedActor(schema_sync_name(name), partial(spawn.spawn_schema_sync, name), settings)

    async def report(self, needs: Collection[SchemaNeed], running: Collection[FlowName]) -> SchemaReport:
        """What happened since the last report; ``needs``: what partitions wait for; ``running``: flows that mirror."""
        report: SchemaReport = await self._actor.call("report", tuple(needs), tuple(running))
        return report

    async def schemas(self, flow: str | None) -> Sequence[SchemaStatus]:
        """Every version of every subject, of one flow or of all."""
        statuses: Sequence[SchemaStatus] = await self._actor.call("schemas", flow)
        return statuses

    async def stop(self) -> None:
        """End the process."""
        await self._actor.stop()


class RayCheckpoint:
    """The checkpoint actors as one: each has a share of the groups."""

    def __init__(self, name: str, settings: MirrorSettings) -> None:
        """``name``: the system's."""
        self._name = name
        self._actors = [
            SupervisedActor(checkpoint_name(name, number), partial(spawn.spawn_checkpoint, name, number), settings)
            for number in range(settings.checkpoint_actors)
        ]
        self._ending_surplus = asyncio.Lock()
        self._surplus_ended = False

    async def report(self) -> CheckpointReport:
        """What happened since the last report."""
        reports: list[CheckpointReport] = await self._ask_all("report")
        events = sorted(event for report in reports for event in report.events)
        flows = {
            name: _sum([report.flows[name] for report in reports if name in report.flows]) for name in reports[0].flows
        }
        audit = {name: why for report in reports for name, why in report.audit.items()}
        return CheckpointReport(events=tuple(events), flows=flows, audit=audit)

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        """Every group, of one flow or of all, by flow and name."""
        shares: list[Sequence[GroupStatus]] = await self._ask_all("groups", flow)
        return sorted((group for share in shares for group in share), key=lambda group: (group.flow, group.group))

    async def settle(self, deadline_s: float) -> bool:
        """Sync at once what can be; whether that was done by the deadline."""
        return all(await self._ask_all("settle", deadline_s))

    async def translate(self, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> Translation:
        """The offset on the other side."""
        await self._end_surplus()
        found: Translation = await self._actors[0].call("translate", flow, topic, partition, offset, back=back)
        return found

    async def stop(self) -> None:
        """End the processes, also those that another coordinator has started."""
        await self._end_from(0)

    async def _ask_all(self, method: str, *args: object) -> list[Any]:
        await self._end_surplus()
        return await asyncio.gather(*(actor.call(method, *args) for actor in self._actors))

    async def _end_surplus(self) -> None:
        """Actors of earlier settings, which had more of them, would sync groups that are others' now."""
        async with self._ending_surplus:
            if not self._surplus_ended:
                await self._end_from(len(self._actors))
                self._surplus_ended = True

    async def _end_from(self, first: int) -> None:
        living = await asyncio.to_thread(named_actors, partial(checkpoint_number, self._name))
        await asyncio.gather(*(stop_actor(handle) for number, handle in living.items() if number >= first))


def _sum(parts: Sequence[FlowGroups]) -> FlowGroups:
    rounds = [part.round_s for part in parts if part.round_s is not None]
    return FlowGroups(
        groups=sum(part.groups for part in parts),
        untranslated=sum(part.untranslated for part in parts),
        unsynced=sum(part.unsynced for part in parts),
        round_s=max(rounds, default=None),
        problem=next((part.problem for part in parts if part.problem), None),
        age_s=max((part.age_s for part in parts if part.age_s is not None), default=None),
    )
