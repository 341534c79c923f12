"""The flows that run: begun, changed while they run, aligned with their routes, ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirror_ray.config.difference import data_path
from mirror_ray.config.flow_rules import config_filter, replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.coordinator.alignment import align
from mirror_ray.coordinator.assignment import PartitionAssigner
from mirror_ray.coordinator.begun_flows import BegunFlows
from mirror_ray.coordinator.dependencies import Dependencies
from mirror_ray.coordinator.fault_rules import SOURCE_KINDS
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.flow_context import FlowContext
from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.coordinator.ports import Emit, FlowClusters
from mirror_ray.coordinator.remote_topic_writers import RemoteTopicWriters
from mirror_ray.coordinator.replicator_pool import ReplicatorPool
from mirror_ray.coordinator.topic_sync import TopicSync
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.fault import FAULT_KINDS, FaultPolicy
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition


async def open_ports(
    settings: MirrorSettings,
    flows: Collection[FlowSettings],
    coming: Collection[FlowName],
    make: Callable[[MirrorSettings, FlowSettings], FlowClusters],
) -> dict[FlowName, FlowClusters]:
    """The ports of the flows that are to be begun; nothing has been sent by them.

    A transform that can't be loaded on this node, as after a restart elsewhere, stops its flow alone, not the system.
    ``flows``: all that are to run; ``coming``: names of those that are to be begun.

    Raises:
        ConfigError: With a sentence for each flow that can't run by its settings.
    """
    ports: dict[FlowName, FlowClusters] = {}
    problems: list[str] = []
    for flow in flows:
        try:
            replication_rules(flow)
            config_filter(flow)
            if flow.name in coming:
                ports[flow.name] = make(settings, flow)
        except (ValueError, ConfigError) as error:
            problems.append(f"{flow.name}: {error}")
    if problems:
        await asyncio.gather(*(port.close() for port in ports.values()))
        raise ConfigError(*problems, "nothing has been changed")
    return ports


_log = logging.getLogger(__name__)

#: A flow that ends may take at most twice that to be aligned with its routes.
_ALIGN_S = 5.0


@dataclass(slots=True)
class _RunningFlow:
    controller: FlowController
    topics: TopicSync
    syncing: asyncio.Task[None]
    settings: FlowSettings
    #: When this changes, the flow has to be begun anew.
    data_path: tuple[object, ...] | None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class RunningFlows:
    """Begins and ends flows. It alone changes ``controllers``; the other parts read it."""

    def __init__(
        self,
        controllers: dict[FlowName, FlowController],
        dependencies: Dependencies,
        assigner: PartitionAssigner,
        pool: ReplicatorPool,
        begun: BegunFlows,
        *,
        emit: Emit,
        wake: Callable[[], None],
        until_settled: Callable[[], Awaitable[None]],
    ) -> None:
        """``wake`` asks for a step soon; ``until_settled`` returns when everything copies, or after a while."""
        self._controllers, self._dependencies, self._begun = controllers, dependencies, begun
        self._assigner, self._pool = assigner, pool
        self._emit, self._wake, self._until_settled = emit, wake, until_settled
        self._writers = RemoteTopicWriters(wake)
        self._running: dict[FlowName, _RunningFlow] = {}

    def __contains__(self, name: FlowName) -> bool:
        return name in self._running

    def syncs(self) -> Mapping[FlowName, TopicSync]:
        """The sync of configs and ACLs of each flow."""
        return {name: running.topics for name, running in self._running.items()}

    def routes_of(self, flow: FlowName) -> list[FlowController]:
        """The routes of a flow."""
        return [route for name, route in self._controllers.items() if name.route and name.live == flow]

    async def change(self, settings: MirrorSettings, configure_replicators: Callable[[], None]) -> None:
        """End, begin and change flows, so that those of ``settings`` run. Flows with the same data path never stop.

        ``configure_replicators`` is called when the flows that change are aligned with their routes, and before any of
        them is ended.

        Raises:
            ConfigError: The settings can't be used, and nothing has been changed.
        """
        enabled = {flow.name: flow for flow in settings.flows if flow.enabled}
        ending = [name for name, running in self._running.items() if running.data_path != data_path(settings, name)]
        coming = (enabled.keys() - self._running.keys()) | (enabled.keys() & set(ending))
        ports = await open_ports(settings, enabled.values(), coming, self._dependencies.flow_port)
        # By the former transforms, which the replicators have until they are configured.
        await self.align(ending)
        configure_replicators()
        await asyncio.gather(*(self.end(name) for name in ending))
        for name, flow in enabled.items():
            if name not in self._running:
                self._begin(settings, flow, ports[name])
            elif self._running[name].settings != flow:
                self._adjust(settings, flow)

    def begin(self, settings: MirrorSettings, flow: FlowSettings) -> None:
        """Begin the flow of a backfill, which is not in the configuration."""
        self._begin(settings, flow, self._dependencies.flow_port(settings, flow))

    def _begin(self, settings: MirrorSettings, flow: FlowSettings, port: FlowClusters) -> None:
        context = FlowContext(
            name=flow.name,
            port=port,
            state=FlowState(port, settings.lease_ms),
            live_state=self._controllers[flow.name.live].state if flow.route is not None else None,
            begun=self._begun.known.get(flow.name.live),
            timing=self._dependencies.timing,
            writers=self._writers,
            emit=self._emit,
            wall_ms=self._dependencies.wall_ms,
            changed=self._wake,
            is_free=self._is_unassigned,
        )
        controller = FlowController(flow, context)
        topics, syncing = self._begin_topics(settings, flow, controller)
        tasks = [asyncio.create_task(loop) for loop in (controller.run(), controller.keep_flushing())]
        path = data_path(settings, flow.name)
        self._running[flow.name] = _RunningFlow(controller, topics, syncing, flow, path, tasks)
        self._controllers[flow.name] = controller
        self._emit("info", str(flow.name), "flow started")

    def _adjust(self, settings: MirrorSettings, flow: FlowSettings) -> None:
        """Apply settings that no copy depends on."""
        running = self._running[flow.name]
        running.settings = flow
        running.controller.configure(flow)
        running.syncing.cancel()
        running.topics, running.syncing = self._begin_topics(settings, flow, running.controller)

    def _begin_topics(
        self, settings: MirrorSettings, flow: FlowSettings, controller: FlowController
    ) -> tuple[TopicSync, asyncio.Task[None]]:
        port = self._dependencies.topic_port(settings, flow)
        topics = TopicSync(controller, flow, port, emit=self._emit)
        return topics, asyncio.create_task(topics.run(self._until_settled))

    async def align(self, names: Collection[FlowName]) -> None:
        """Align flows that are about to be ended with their routes; they end all the same where that fails."""

        async def step() -> None:
            await self._assigner.step(self._pool, {})

        async def align_one(live: FlowController) -> None:
            try:
                await align(
                    live, self.routes_of(live.name), is_unassigned=self._is_unassigned, step=step, deadline_s=_ALIGN_S
                )
            except MirrorError as error:
                self._emit("warning", str(live.name), f"its routes could not be brought to one place with it: {error}")

        await asyncio.gather(
            *(align_one(flow) for name, flow in self._controllers.items() if name.is_live and name in names)
        )

    async def end(self, name: FlowName) -> bool:
        """Take back the flow's partitions, persist the last pairs, and close; whether all of it worked."""
        running = self._running.pop(name)
        tasks = [*running.tasks, running.syncing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        running.controller.retire()
        self._begun.learn({name: running.controller.state.records.flow})
        drained = await self._assigner.give_up(self._pool, name)
        self._controllers.pop(name, None)
        self._writers.remove(name)
        try:
            await running.controller.state.close()
        except MirrorError as error:
            _log.warning("flow %s: the last offset pairs could not be persisted: %s", name, error)
            drained = False
        self._emit("info", str(name), "flow stopped")
        return drained

    async def end_all(self) -> bool:
        """End every flow, aligned with its routes; whether all of it worked."""
        await self.align(self._running.keys())
        return all(await asyncio.gather(*(self.end(name) for name in list(self._running))))

    def _is_unassigned(self, partition: FlowPartition) -> bool:
        return not self._pool.adopting() and self._assigner.is_unassigned(partition)


async def resolve_all(
    family: Sequence[FlowController], topic: str, partition: int | None, by: FaultPolicy, operator: str
) -> tuple[str, ...]:
    """Resolve the fault of a topic or of one partition in a flow and its routes; returns those that go on."""
    own, *routes = family
    # A fault of the source, or of one of its records, is the same for all of them.
    alike = [route for route in routes if route.faults.open_faults(topic, partition, SOURCE_KINDS)]
    concerned = [own] if own.faults.open_faults(topic, partition) or not alike else []
    resolved: list[TopicPartition] = []
    for flow in [*concerned, *alike]:
        kinds = FAULT_KINDS if flow is own else SOURCE_KINDS
        resolved += await flow.faults.resolve(topic, partition, by, kinds, operator)
        flow.on_decision()
    return tuple(dict.fromkeys(str(partition) for partition in resolved))
