"""Keeps the schema sync up, hands it what partitions wait for, and has settings say how it copies schema ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import SchemaPort
from mirror_ray.coordinator.supervision import ReportWatch
from mirror_ray.model.errors import NotRunningError
from mirror_ray.model.names import FlowName
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.observe.schemas import FlowSchemas, SchemaReport, SchemaStatus
from mirror_ray.records.schema_id_records import IdsWay

#: How flows copy schema ids whose settings leave it to the target.
DecidedIds = Mapping[FlowName, IdsWay]


class SchemaWatch(ReportWatch[SchemaPort, FlowSchemas]):
    """Polls the schema sync, which runs where a flow has a registry on both sides."""

    def __init__(
        self,
        make: Callable[[MirrorSettings], SchemaPort],
        emit: Callable[[str, str, str, int], None],
        *,
        needs: Callable[[], Collection[SchemaNeed]],
        running: Callable[[], Collection[FlowName]],
        decided: Callable[[DecidedIds], Awaitable[None]],
    ) -> None:
        """Nothing is started before ``configure``.

        Args:
            make: The actor's client for some settings.
            emit: Writes an event that happened at a time (ms).
            needs: What partitions wait for now.
            running: Flows that mirror: their state has been read, and they are not paused as a whole.
            decided: Takes how flows copy schema ids.
        """
        super().__init__("schema sync", make, emit)
        self._needs, self._running, self._decided = needs, running, decided

    async def configure(self, settings: MirrorSettings) -> None:
        """Mirror by these settings from now on; what mirrors by others has stopped when this returns."""
        if any(flow.enabled and flow.syncs_schemas for flow in settings.flows):
            was_up = self._port is not None
            await super().configure(settings)
            if was_up:
                await self.follow()
        else:
            self.flows, self.audit = {}, {}
            await self.stop()

    async def schemas(self, flow: str | None) -> tuple[SchemaStatus, ...]:
        """Every version of every subject, of one flow or of all.

        Raises:
            NotRunningError: No flow has a registry on both sides.
        """
        if self._port is None:
            raise NotRunningError("no flow mirrors schemas: set A.schema.registry.url of both its clusters")
        return tuple(await self._port.schemas(flow))

    async def follow(self) -> None:
        """Have flows that were paused mirror nothing when this returns, and those that were resumed go on."""
        if self._port is not None:
            await super()._poll(self._port)

    async def _poll(self, port: SchemaPort) -> None:
        await super()._poll(port)
        await self._decided({FlowName.parse(name): one.ids for name, one in self.flows.items() if one.ids})

    async def _ask(self, port: SchemaPort) -> SchemaReport:
        return await port.report(self._needs(), self._running())


def with_decided_ids(settings: MirrorSettings, decided: DecidedIds) -> MirrorSettings:
    """The settings with ``schemas.ids`` as it was decided, where they leave it to the target."""
    flows = tuple(
        flow.model_copy(update={"schemas": flow.schemas.model_copy(update={"ids": decided[flow.name]})})
        if flow.schemas.ids == "auto" and flow.syncs_schemas and flow.name in decided
        else flow
        for flow in settings.flows
    )
    return settings if flows == settings.flows else settings.model_copy(update={"flows": flows})


def decided_ids(settings: MirrorSettings | None) -> DecidedIds:
    """What settings say of how flows copy schema ids."""
    if settings is None:
        return {}
    found: dict[FlowName, IdsWay] = {}
    for flow in settings.flows:
        if flow.syncs_schemas and flow.schemas.ids != "auto":
            found[flow.name] = flow.schemas.ids
    return found
