"""The coordinator: holds desired and observed state, and brings the one to the other.

A plain class; its Ray options are in ``actors.spawn``. ``step()`` = observe, decide, act, publish; idempotent. The
flows, the replicators and the heartbeats each run in tasks of their own and can't hold up one another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mirror_ray.config.difference import SettingsDifference
from mirror_ray.config.runtime_changes import with_changes
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.coordinator.assignment import PartitionAssigner
from mirror_ray.coordinator.audit_watch import AuditWatch
from mirror_ray.coordinator.backfills import Backfills
from mirror_ray.coordinator.begun_flows import BegunFlows
from mirror_ray.coordinator.commands import CommandState, OperatorCommands, paused_of, scope
from mirror_ray.coordinator.deadlines import within
from mirror_ray.coordinator.dependencies import Dependencies
from mirror_ray.coordinator.fingerprint import fingerprint
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.gateway_watch import GatewayWatch
from mirror_ray.coordinator.group_watch import GroupWatch
from mirror_ray.coordinator.limits import LimitController
from mirror_ray.coordinator.observed import ObservedState
from mirror_ray.coordinator.ports import HeartbeatPort
from mirror_ray.coordinator.problems import ProblemWatch
from mirror_ray.coordinator.queries import SystemQueries
from mirror_ray.coordinator.replicator_pool import ReplicatorPool
from mirror_ray.coordinator.running_flows import RunningFlows, resolve_all
from mirror_ray.coordinator.saved_settings import SavedSettings, kept_of, read_kept
from mirror_ray.coordinator.scaling import ScalingController, refuse_number, with_bounds
from mirror_ray.coordinator.settings_agreement import refuse_others, refuse_unresolvable, replicators_for, would_change
from mirror_ray.coordinator.throttle_share import ThrottleShare
from mirror_ray.model.backfill import BackfillRequest
from mirror_ray.model.errors import ConfigError, MirrorError, NotRunningError
from mirror_ray.model.fault import FaultPolicy
from mirror_ray.model.names import FlowName
from mirror_ray.model.starter import Starter
from mirror_ray.observe.backfills import BackfillStatus
from mirror_ray.observe.event_log import EventLog
from mirror_ray.observe.groups import GroupStatus
from mirror_ray.observe.status import (
    Event,
    GapStatus,
    PartitionStatus,
    ReplicatorStatus,
    SystemStatus,
    TopicStatus,
)
from mirror_ray.observe.system_snapshot import SystemSnapshot
from mirror_ray.offsets.translate import Translation
from mirror_ray.state.schema import Pause

_log = logging.getLogger(__name__)

#: What replicators get to end in when their partitions have been drained already, or will not be any more.
_END_S = 1.0
#: A picture is made when somebody asks, and not more often than this.
_PICTURE_S = 1.0
_EVENTS_PICTURED = 200


class CoordinatorService:
    """One per system. All methods may be called again after a call whose outcome is not known."""

    def __init__(self, name: str, outside: Dependencies) -> None:
        """``name``: the system's. Nothing happens before ``begin``."""
        self.name = name
        self.settings: MirrorSettings | None = None
        self._starter: Starter | None = None
        self._outside = outside
        self._started_ms = outside.wall_ms()
        self._events = EventLog(outside.wall_ms)
        self._emit = self._events.emit
        self._flows: dict[FlowName, FlowController] = {}
        self._observed = ObservedState()
        self._wake = asyncio.Event()
        #: Everything that should be copying does.
        self._settled = asyncio.Event()
        self._apply_lock = asyncio.Lock()
        #: Going down: nothing is to be taken up again by a coordinator that restarts.
        self._ending = False
        self._tasks: list[asyncio.Task[None]] = []
        self._heartbeat: HeartbeatPort | None = None
        self._heartbeat_ages: dict[str, float | None] = {}
        self._groups = GroupWatch(outside.checkpoint, self._emit)
        self._looked_s = outside.clock()
        self._picture: SystemSnapshot | None = None
        self._pictured_s = 0.0
        self._placement = PartitionAssigner(
            self._flows, self._observed, timing=outside.timing, emit=self._emit, wake=self._wake.set
        )
        self._limiting = LimitController(
            self._flows, self._placement, self._observed, wall_ms=outside.wall_ms, emit=self._emit
        )
        self._pool = ReplicatorPool(
            name,
            outside.spawner,
            timing=outside.timing,
            clock=outside.clock,
            wall_ms=outside.wall_ms,
            emit=self._emit,
            listener=self._placement,
            allowances=self._limiting.allowances,
        )
        self._held = ThrottleShare()
        self._view = SystemQueries(
            name, self._flows, self._placement, self._pool, self._observed, limiting=self._limiting, held=self._held
        )
        self._begun = BegunFlows(outside.cluster_id)
        self._running = RunningFlows(
            self._flows,
            outside,
            self._placement,
            self._pool,
            self._begun,
            emit=self._emit,
            wake=self._wake.set,
            until_settled=self._until_settled,
        )
        self._audit = AuditWatch(outside.audit_problems, self._groups, self._emit)
        self._problems = ProblemWatch(
            self._flows,
            self._running.syncs,
            self._pool,
            self._observed,
            catching_up=self._limiting.catching_up,
            audit=self._audit.problems,
        )
        self._acts = OperatorCommands(self, self._see, self._emit, outside.trail)
        self._gateway = GatewayWatch(outside.gateway, self._emit, self._acts.refused)
        self._scaling = ScalingController(
            name,
            self._pool,
            outside.nodes,
            partitions=lambda: self._view.partitions(self._flows.values(), outside.wall_ms()),
            timing=outside.timing,
            clock=outside.clock,
            emit=self._emit,
            changed=self._rescaled,
        )
        self._backfills = Backfills(
            self._flows,
            begin=self._begin_backfill,
            end=self._end_backfill,
            partitions=lambda flow: self._view.partitions([flow], outside.wall_ms()),
            rates=lambda flow: self._observed.rates(flow, outside.clock()),
            emit=self._emit,
            wall_ms=outside.wall_ms,
        )

    async def begin(self) -> None:
        """Take up the work of an earlier coordinator of this name, where there was one; idempotent."""
        async with self._apply_lock:
            if self._tasks:
                return
            loops = [self._loop(), self._scaling.watch(), self._watch_heartbeat()]
            loops += [each.watch(self._until_settled) for each in (self._groups, self._gateway)]
            self._tasks = [asyncio.create_task(each) for each in loops]
            blob = await self._outside.memory.load()
            if blob is not None:
                await self._take_up(read_kept(blob))

    async def _take_up(self, kept: SavedSettings | str) -> None:
        await self._pool.adopt()
        if isinstance(kept, str):
            self._emit("error", self.name, kept)
            return
        self._scaling.pinned, self._started_ms, self._starter = kept.pinned, kept.started_ms, kept.starter
        self._begun.known = dict(kept.begun)
        self._emit("info", self.name, "coordinator restarted: adopting the replicators that live")
        await self._configure(kept.settings, kept.replicators)

    async def apply(
        self,
        settings: MirrorSettings,
        replicators: int | None = None,
        dry_run: bool = False,
        onto: str | None = None,
        starter: Starter | None = None,
    ) -> SettingsDifference:
        """Start the flows of ``settings``, or update a running system to them.

        Only partitions that the difference touches stop (``config.difference``). ``replicators``, ``onto``: see
        ``coordinator.settings_agreement``. ``dry_run``: what would be touched is only said. ``starter``: who asks.

        Raises:
            ConfigError: The settings can't be used here, or would turn a flow that has begun to another cluster, and
                nothing has been changed.
            ClusterUnreachableError: Whether they would can't be told, and nothing has been changed.
            NotReadyError: What runs is not what the caller has agreed to change.
        """
        if dry_run:
            await self._begun.check(self.settings, settings)
            return would_change(self.settings, settings, self._scaling, replicators)
        self._ending = False
        await self.begin()
        async with self._apply_lock:
            refuse_others(self.name, onto, would_change(self.settings, settings, self._scaling, replicators))
            self._starter = starter if self.settings is None else self._starter
            return await self._bring_to(settings, replicators)

    async def _bring_to(self, settings: MirrorSettings, replicators: int | None) -> SettingsDifference:
        before, found = self.settings, would_change(self.settings, settings, self._scaling, replicators)
        refuse_unresolvable(settings)
        await self._begun.check(before, settings)
        await self._configure(settings, replicators_for(before, settings, self._scaling, replicators))
        await self._save()
        if before is not None and not found.nothing:
            self._emit("info", self.name, f"settings changed: {found}")
        return found

    async def _configure(self, settings: MirrorSettings, replicators: int) -> None:
        def tell() -> None:
            self._limiting.configure(settings)
            self._pool.configure(settings, fingerprint(settings))
            self._scaling.configure(settings, replicators)

        await self._running.change(settings, tell)
        if self.settings != settings:
            self._heartbeat = self._outside.heartbeat(settings)
            self._groups.configure(settings)
            await self._gateway.configure(settings)
        self.settings = settings
        self._wake.set()

    def _begin_backfill(self, flow: FlowSettings) -> None:
        """Begin a backfill, unless its flow is being ended."""
        if self.settings is not None and not self._ending and flow.name.live in self._running:
            self._running.begin(self.settings, flow)

    async def _end_backfill(self, name: FlowName) -> bool:
        async with self._apply_lock:
            return await self._running.end(name) if name in self._running else True

    async def _save(self) -> None:
        if self._ending or self.settings is None:
            return
        kept = kept_of(self.settings, self._scaling, self._begun, started_ms=self._started_ms, starter=self._starter)
        await self._outside.memory.save(kept)

    async def _rescaled(self) -> None:
        await self._save()
        self._wake.set()

    # The loop.

    async def _loop(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._outside.timing.step_s):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.step()
            except Exception:  # noqa: BLE001
                _log.exception("a step of the coordinator failed; the next one tries again")

    async def step(self) -> None:
        """Observe, decide, act, publish. Does not wait for what it starts."""
        now_s = self._outside.clock()
        self._observed.sample(now_s, self._flows)
        self._problems.sample(now_s, self.settings)
        self._limiting.step(now_s)
        self._held.sample(now_s, self._pool.held.by_flow())
        loads = {}
        if now_s - self._looked_s >= self._outside.timing.rebalance_load_s:
            self._looked_s = now_s
            loads = self._observed.loads(now_s)
            self._observed.forget(lambda each: each.flow not in self._flows)
        for flow in self._flows.values():
            flow.settled = flow.settled or self._view.all_copying(flow)
            flow.remind()
        if self.settings is not None and all(flow.settled for flow in self._flows.values()):
            self._settled.set()
        if self._begun.learn({name: flow.ledger.flow for name, flow in self._flows.items()}):
            await self._save()
        self._backfills.step()
        await self._placement.step(self._pool, loads)

    async def _until_settled(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._outside.timing.helpers_most_s):
                await self._settled.wait()

    async def _watch_heartbeat(self) -> None:
        await self._until_settled()
        while True:
            await asyncio.sleep(1.0)
            if self._heartbeat is not None:
                try:
                    self._heartbeat_ages = dict(await self._heartbeat.ages_s())
                except MirrorError as error:
                    self._heartbeat_ages = {}
                    self._emit("warning", "heartbeat", f"{error}; started again")

    # What operators ask.

    async def status(self) -> SystemStatus:
        """The whole system at a glance."""
        return self._status(self._view.by_flow(self._chosen(None), self._outside.wall_ms()))

    def _status(self, partitions: Mapping[FlowName, tuple[PartitionStatus, ...]]) -> SystemStatus:
        system = self._view.system(
            self.settings,
            started_ms=self._started_ms,
            node=self._outside.node,
            pid=os.getpid(),
            heartbeat_ages=self._heartbeat_ages,
            groups=self._groups.flows,
            backfills=self._backfills.all(),
            partitions=partitions,
            elastic=self._scaling.status(),
            now_s=self._outside.clock(),
        )
        problems = self._problems.judge(
            self.settings,
            system.flows,
            partitions,
            self._view.gaps(self._chosen(None)),
            started_ms=self._started_ms,
            now_ms=self._outside.wall_ms(),
        )
        return replace(system, problems=problems, gateway=self._gateway.address)

    async def picture(self) -> SystemSnapshot:
        """All that can be seen, routes of flows too; at most a second old, whoever asks."""
        now_s = self._outside.clock()
        if self._picture is None or now_s - self._pictured_s >= _PICTURE_S:
            self._picture, self._pictured_s = self._make_picture(), now_s
        return self._picture

    def _make_picture(self) -> SystemSnapshot:
        chosen, now_ms = self._chosen(None), self._outside.wall_ms()
        partitions = self._view.by_flow(chosen, now_ms)
        return SystemSnapshot(
            time_ms=now_ms,
            system=self._status(partitions),
            topics=self._topics(partitions),
            partitions=tuple(each for there in partitions.values() for each in there),
            gaps=self._view.gaps(chosen),
            events=self._events.newest(_EVENTS_PICTURED),
            event_counts=self._events.counts,
            deaths=self._pool.died,
            latencies={str(flow): each for flow, each in self._pool.latencies.by_flow().items()},
        )

    async def partitions(self, flow: str | None = None) -> tuple[PartitionStatus, ...]:
        """Every partition, of one flow or of all."""
        return self._view.partitions(self._chosen(flow), self._outside.wall_ms())

    async def topics(self, flow: str | None = None) -> tuple[TopicStatus, ...]:
        """Every topic, of one flow or of all."""
        return self._topics(self._view.by_flow(self._chosen(flow), self._outside.wall_ms()))

    def _topics(self, partitions: Mapping[FlowName, tuple[PartitionStatus, ...]]) -> tuple[TopicStatus, ...]:
        price = self.settings.cost.price_per_gb if self.settings else 0.0
        return self._view.topics(partitions, price, self._outside.clock())

    async def replicators(self) -> tuple[ReplicatorStatus, ...]:
        """Every replicator."""
        return self._pool.statuses()

    async def events(self, limit: int = 100) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        return self._events.newest(limit)

    async def gaps(self, flow: str | None = None) -> tuple[GapStatus, ...]:
        """What partitions went on without, of one flow or of all, by topic, partition and time."""
        return self._view.gaps(self._chosen(flow))

    async def groups(self, flow: str | None = None) -> tuple[GroupStatus, ...]:
        """Every consumer group that is carried over, of one flow or of all."""
        if flow is not None:
            self._find(flow)
        return tuple(await self._groups.groups(flow))

    async def configuration(self) -> MirrorSettings:
        """What the system runs by; the text of it shows no secret."""
        if self.settings is None:
            raise NotRunningError(f"{self.name} has no flows yet: mirror-ray up CONFIG")
        return self.settings

    async def starter(self) -> Starter | None:
        """Who has started it, as far as is known."""
        return self._starter

    async def settle_groups(self, deadline_s: float = 20.0) -> bool:
        """Carry consumer groups over at once, as far as the copy has come; whether that was done by the deadline."""
        return await self._groups.settle(deadline_s)

    async def translate(self, flow: str, topic: str, partition: int, offset: int, back: bool = False) -> Translation:
        """Where position ``offset`` of a source partition is on the target; ``back``: the other way round."""
        self._find(flow)
        return await self._groups.translate(flow, topic, partition, offset, back=back)

    async def health(self) -> str:
        """Answers once the coordinator runs; the system's name."""
        return self.name

    def _chosen(self, flow: str | None) -> list[FlowController]:
        """A flow with its routes, or all; no backfills."""
        if flow is None:
            return [each for name, each in self._flows.items() if not name.backfill]
        found = self._find(flow)
        return [found, *self._running.routes_of(found.name)]

    def _find(self, flow: str) -> FlowController:
        try:
            return self._flows[FlowName.parse(flow)]
        except (KeyError, ValueError):
            names = ", ".join(str(name) for name in self._flows) or "none"
            raise ConfigError(f"there is no running flow {flow!r}; running flows: {names}") from None

    # What operators do.

    async def act(self, operator: str, name: str, args: Sequence[object]) -> Any:
        """Do what ``operator`` asks, by the method below of that name; the audit log keeps it."""
        return await self._acts.do(operator, name, args)

    def _see(self) -> CommandState:
        return CommandState(settings=self.settings, replicators=self._scaling.wanted, paused=paused_of(self._flows))

    async def scale(self, replicators: int) -> None:
        """Set the number of replicators. Few partitions move, the others never stop."""
        refuse_number(replicators)
        await self.configuration()
        self._scaling.pin(replicators)
        await self._rescaled()

    async def scale_by_load(self, minimum: int | None = None, maximum: int | None = None) -> None:
        """Let the number of replicators follow load and lag again, within other bounds where some are given."""
        settings = with_bounds(await self.configuration(), minimum, maximum)
        async with self._apply_lock:
            self.settings = settings
            self._scaling.follow(settings)
        await self._rescaled()

    async def set(
        self, flow: str | None, changes: Mapping[str, str | None], dry_run: bool = False
    ) -> SettingsDifference:
        """Change keys of a flow, or of the system where ``flow`` is None, until the next ``apply``.

        What is touched is as with ``apply``; ``dry_run``: it is only said.

        Raises:
            ConfigError: With a sentence for each key that can't be changed so, and nothing has been changed.
        """
        async with self._apply_lock:
            after = with_changes(before := await self.configuration(), flow, changes)
            if dry_run:
                await self._begun.check(before, after)
                return would_change(before, after, self._scaling)
            return await self._bring_to(after, after.replicators if after.replicators != before.replicators else None)

    async def pause(self, flow: str, topic: str | None = None, partition: int | None = None) -> None:
        """Stop copying a flow, a topic or a partition until ``resume``; outlives restarts."""
        await self._find(flow).pause(Pause(topic, partition))
        self._emit("info", flow, f"paused {scope(Pause(topic, partition))}")

    async def resume(self, flow: str, topic: str | None = None, partition: int | None = None) -> None:
        """Lift the pause of the same scope."""
        await self._find(flow).resume(Pause(topic, partition))
        self._emit("info", flow, f"resumed {scope(Pause(topic, partition))}")

    async def backfill(self, flow: str, request: BackfillRequest, dry_run: bool = False) -> BackfillStatus:
        """Begin a backfill beside a flow, or go on with the same one; ``dry_run`` changes nothing."""
        return await self._backfills.ask(self._find(flow), request, dry_run=dry_run)

    async def backfills(self, flow: str | None = None) -> tuple[BackfillStatus, ...]:
        """Backfills of one flow or of all, over or not, the oldest first."""
        return self._backfills.all(self._find(flow).name if flow is not None else None)

    async def cancel_backfill(self, flow: str, topic: str, into: str | None = None) -> BackfillStatus:
        """Stop a backfill; what it has copied stays."""
        return await self._backfills.cancel(self._find(flow), topic, into)

    async def resolve(
        self, flow: str, topic: str, partition: int | None, by: FaultPolicy, *, operator: str = ""
    ) -> tuple[str, ...]:
        """Answer the trouble of a topic or of one partition, once; the partitions that go on by it."""
        return await resolve_all(self._chosen(flow), topic, partition, by, operator)

    async def down(self, deadline_s: float = 30.0) -> bool:
        """Drain everything, persist the last anchors, stop every other actor. The caller then ends this one.

        Returns by the deadline, and a moment in which the actors are ended, whatever hangs. A second call with a
        shorter deadline cuts the first one short.

        Returns:
            Whether everything was drained.
        """
        self._ending = True
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        await within(_END_S, self._outside.memory.save(None))
        drained = bool(await within(deadline_s, self._drain_all()))
        if not drained:
            _log.warning("not everything was drained in %s s; nothing is lost: the next start reads on", deadline_s)
        heartbeat, self.settings, self._heartbeat = self._heartbeat, None, None
        self._begun.known = {}
        stopping = [self._pool.shut_down(_END_S), self._groups.stop(), self._gateway.stop(), self._scaling.stop()]
        stopping += [heartbeat.stop()] if heartbeat is not None else []
        await within(2 * _END_S, asyncio.gather(*stopping))
        return drained

    async def _drain_all(self) -> bool:
        async with self._apply_lock:
            return await self._running.end_all()
