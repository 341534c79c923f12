"""What is asked of a running system: ``status``, ``lag``, ``topics``, ``replicators`` and the rest; changes nothing."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from mirror_ray.config.settings import CostSettings, FlowSettings, MirrorSettings
from mirror_ray.coordinator import snapshot
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.flow_topics import TopicView
from mirror_ray.coordinator.parts import CoordinatorParts
from mirror_ray.model.assignment import PartitionReport, PartitionState
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.model.starter import Starter
from mirror_ray.observe.backfills import BackfillStatus
from mirror_ray.observe.events import Event, GapStatus
from mirror_ray.observe.groups import GroupStatus
from mirror_ray.observe.schemas import SchemaStatus
from mirror_ray.observe.status import FlowStatus, PartitionStatus, ReplicatorStatus, SystemStatus, TopicStatus
from mirror_ray.observe.system_snapshot import SystemSnapshot
from mirror_ray.offsets.translation import Translation

#: States of partitions that should be copying and don't yet.
_COMING: tuple[PartitionState, ...] = ("waiting", "establishing")
#: A snapshot is taken when somebody asks, and not more often than this.
_SNAPSHOT_S = 1.0
_SNAPSHOT_EVENTS = 200


class CoordinatorQueries:
    """Answers from the coordinator's parts. ``flow`` is the name of a running flow, None: all of them.

    A flow that does not run is a ConfigError.
    """

    def __init__(self, parts: CoordinatorParts) -> None:
        self.parts = parts
        self._snapshot: SystemSnapshot | None = None
        self._snapshot_s = 0.0

    async def configuration(self) -> MirrorSettings:
        """The settings that the system runs by; their text shows no secret.

        Raises:
            NotRunningError: It has no flows yet.
        """
        return self.parts.running_settings()

    async def starter(self) -> Starter | None:
        """Who started the system, as far as is known."""
        return self.parts.starter

    async def status(self) -> SystemStatus:
        """The whole system at a glance."""
        return self._status(self._by_flow(None))

    async def snapshot(self) -> SystemSnapshot:
        """All that can be seen, routes of flows too; at most a second old, whoever asks."""
        now_s = self.parts.dependencies.clock()
        if self._snapshot is None or now_s - self._snapshot_s >= _SNAPSHOT_S:
            self._snapshot, self._snapshot_s = self._take_snapshot(), now_s
        return self._snapshot

    async def partitions(self, flow: str | None = None) -> tuple[PartitionStatus, ...]:
        """Every partition."""
        return self._partition_rows(self.parts.with_routes(flow))

    async def topics(self, flow: str | None = None) -> tuple[TopicStatus, ...]:
        """Every topic."""
        return self._topics(self._by_flow(flow))

    async def replicators(self) -> tuple[ReplicatorStatus, ...]:
        """Every replicator."""
        return self.parts.pool.statuses()

    async def events(self, limit: int = 100) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        return self.parts.events.newest(limit)

    async def gaps(self, flow: str | None = None) -> tuple[GapStatus, ...]:
        """Every skipped range, by topic, partition and time."""
        return self._gaps(self.parts.with_routes(flow))

    async def groups(self, flow: str | None = None) -> tuple[GroupStatus, ...]:
        """Every consumer group that is synced."""
        if flow is not None:
            self.parts.flow(flow)
        return tuple(await self.parts.groups.actors.groups(flow))

    async def schemas(self, flow: str | None = None) -> tuple[SchemaStatus, ...]:
        """Every version of every subject that is mirrored, or is to be."""
        if flow is not None:
            self.parts.flow(flow)
        return await self.parts.schemas.schemas(flow)

    async def translate(self, flow: str, topic: str, partition: int, offset: int, back: bool = False) -> Translation:
        """The target offset that belongs to a source offset of a partition; ``back``: the other way round."""
        self.parts.flow(flow)
        return await self.parts.groups.actors.translate(flow, topic, partition, offset, back=back)

    async def backfills(self, flow: str | None = None) -> tuple[BackfillStatus, ...]:
        """Every backfill, over or not, the oldest first."""
        return self.parts.backfills.all(self.parts.flow(flow).name if flow is not None else None)

    def _partition_rows(self, flows: Iterable[FlowController]) -> tuple[PartitionStatus, ...]:
        """Every partition of the flows, by topic and number."""
        now_ms = self.parts.dependencies.wall_ms()
        return tuple(
            self._partition(flow, flow.topics[topic], number, now_ms)
            for flow in flows
            for topic in sorted(flow.topics)
            for number in range(flow.topics[topic].source.partitions)
        )

    def _all_copying(self, flow: FlowController) -> bool:
        """Whether every partition of the flow that should copy does."""
        return flow.discovered and not any(
            self._state(flow, view, number)[0] in _COMING
            for view in flow.topics.values()
            for number in range(view.source.partitions)
        )

    def _by_flow(self, flow: str | None) -> Mapping[FlowName, tuple[PartitionStatus, ...]]:
        return {controller.name: self._partition_rows([controller]) for controller in self.parts.with_routes(flow)}

    def _take_snapshot(self) -> SystemSnapshot:
        parts, partitions = self.parts, self._by_flow(None)
        return SystemSnapshot(
            time_ms=parts.dependencies.wall_ms(),
            system=self._status(partitions),
            topics=self._topics(partitions),
            partitions=tuple(row for rows in partitions.values() for row in rows),
            gaps=self._gaps(parts.with_routes(None)),
            events=parts.events.newest(_SNAPSHOT_EVENTS),
            event_counts=parts.events.counts,
            deaths=parts.pool.context.exit_count,
            latencies={str(flow): histogram for flow, histogram in parts.pool.context.latencies.by_flow().items()},
        )

    def _status(self, partitions: Mapping[FlowName, tuple[PartitionStatus, ...]]) -> SystemStatus:
        """Every flow of the settings, idle ones too, backfills that are not over, and every replicator."""
        parts, settings = self.parts, self.parts.settings
        cost = settings.cost if settings else CostSettings()
        flows = tuple(self._flow(flow, partitions.get(flow.name, ())) for flow in (settings.flows if settings else ()))
        return SystemStatus(
            name=parts.name,
            started_ms=parts.started_ms,
            flows=flows,
            replicators=parts.pool.statuses(),
            desired_replicators=parts.pool.desired,
            coordinator_pid=os.getpid(),
            coordinator_node=parts.dependencies.node,
            backfills=tuple(
                backfill for backfill in parts.backfills.all() if backfill.state not in ("done", "cancelled")
            ),
            elastic=parts.scaling.status(),
            price_per_gb=cost.price_per_gb,
            currency=cost.currency,
            problems=parts.problems.judge(
                settings,
                flows,
                partitions,
                self._gaps(parts.with_routes(None)),
                started_ms=parts.started_ms,
                now_ms=parts.dependencies.wall_ms(),
            ),
            gateway=parts.gateway.address,
        )

    def _topics(self, partitions: Mapping[FlowName, Iterable[PartitionStatus]]) -> tuple[TopicStatus, ...]:
        """Every topic of the flows whose partitions are given, by name."""
        now_s = self.parts.dependencies.clock()
        topics: list[TopicStatus] = []
        for name, rows in partitions.items():
            rows_of: dict[str, list[PartitionStatus]] = defaultdict(list)
            for row in rows:
                rows_of[row.topic].append(row)
            topics += (
                snapshot.topic_status(
                    str(name),
                    topic,
                    view.remote_topic,
                    view.refused,
                    rows_of[topic],
                    rates=self.parts.observed.topic_rates(name, topic, now_s),
                    schema_ids=self.parts.observed.topic_schema_ids(name, topic),
                    price_per_gb=self._price_per_gb(),
                )
                for topic, view in sorted(self.parts.flows[name].topics.items())
            )
        return tuple(topics)

    def _gaps(self, flows: Iterable[FlowController]) -> tuple[GapStatus, ...]:
        return tuple(
            GapStatus(flow=str(flow.name), topic=partition.topic, partition=partition.partition, **asdict(skipped))
            for flow in flows
            for (partition, _), skipped in sorted(flow.state.records.skipped_ranges.items(), key=lambda item: item[0])
        )

    def _price_per_gb(self) -> float:
        return self.parts.settings.cost.price_per_gb if self.parts.settings else 0.0

    def _state(self, flow: FlowController, view: TopicView, number: int) -> tuple[PartitionState, str | None]:
        partition = FlowPartition(flow.name, view.source.topic, number)
        owned, report = partition in self.parts.assigner.owners, self.parts.observed.reports.get(partition)
        return _state(flow, view, partition.source, report, owned=owned)

    def _partition(self, flow: FlowController, view: TopicView, number: int, now_ms: int) -> PartitionStatus:
        partition = FlowPartition(flow.name, view.source.topic, number)
        owner = self.parts.assigner.owners.get(partition)
        state, reason = self._state(flow, view, number)
        fault = flow.faults.fault_of(partition.source)
        return snapshot.partition_status(
            partition,
            trouble=fault.kind if fault is not None and state in ("stopped", "refused") else None,
            target_topic=view.remote_topic,
            state=state,
            reason=reason,
            replicator=owner.replicator if owner else None,
            report=self.parts.observed.reports.get(partition),
            totals=self.parts.observed.totals(partition),
            now_ms=now_ms,
        )

    def _flow(self, settings: FlowSettings, partitions: Sequence[PartitionStatus]) -> FlowStatus:
        parts, flow = self.parts, self.parts.flows.get(settings.name)
        groups, schemas = parts.groups.flows.get(str(settings.name)), parts.schemas.flows.get(str(settings.name))
        missing = tuple(f"{replicator}: {reason}" for replicator, reason in parts.pool.missing().items())
        problems = flow.problems() + missing if flow else ()
        discovered = flow is not None and flow.discovered
        copying = sum(row.state == "copying" for row in partitions)
        state = snapshot.flow_state(
            enabled=settings.enabled,
            discovered=discovered,
            reachable=flow is None or flow.reachable,
            paused=flow is not None and flow.paused,
            settled=flow is not None and flow.settled,
            troubled=bool(problems) or any(row.state in ("refused", "stopped") for row in partitions),
            copying=copying,
            expected=copying + sum(row.state in _COMING for row in partitions),
        )
        limit = parts.limits.rate(settings.name)
        slowed = snapshot.slowed_by(settings.name, parts.throttled.of(settings.name), limit)
        stopped = [row for row in partitions if row.state == "stopped"]
        problems += tuple(f"{row.topic}-{row.partition}: stopped: {row.reason}" for row in stopped)
        if groups is not None and groups.problem:
            problems += (f"consumer groups wait: {groups.problem}",)
        if schemas is not None and schemas.problem:
            problems += (f"schemas are not mirrored: {schemas.problem}",)
        records, bytes_ = parts.observed.flow_totals(settings.name)
        records_per_s, bytes_per_s = parts.observed.rates(settings.name, parts.dependencies.clock())
        return FlowStatus(
            flow=str(settings.name),
            state=state,
            topics=len(flow.topics) if flow else 0,
            partitions=len(partitions),
            copying=copying,
            lag_records=snapshot.total_lag(partitions) if discovered else None,
            lag_bytes=snapshot.total_lag_bytes(partitions) if discovered else None,
            lag_seconds=snapshot.most_seconds(partitions) if discovered else None,
            records_per_s=records_per_s,
            bytes_per_s=bytes_per_s,
            records=records,
            bytes=bytes_,
            heartbeat_age_s=parts.heartbeat.ages_s.get(str(settings.name)),
            discovered=discovered,
            problems=problems,
            groups=groups,
            schemas=schemas,
            why=(flow.closed if flow else None) or slowed,
            limit_bytes_per_s=limit,
            held=parts.pool.context.throttled.of(settings.name),
            compression=snapshot.compression(partitions),
            cost_per_hour=snapshot.cost_per_hour(bytes_per_s, self._price_per_gb()),
        )


def _state(
    flow: FlowController, view: TopicView, partition: TopicPartition, report: PartitionReport | None, *, owned: bool
) -> tuple[PartitionState, str | None]:
    if view.refused is not None:
        return "refused", view.refused
    if flow.is_paused(partition):
        return "paused", flow.closed
    unchanged = flow.transforms.explain(partition)
    trouble = unchanged or flow.faults.explain(partition)
    if unchanged is not None or flow.faults.holds_back(partition):
        return "stopped", trouble
    if not owned:
        return "waiting", _why_waiting(flow, partition)
    if report is None or report.epoch != flow.state.epoch(partition):
        return "establishing", None
    return report.state, trouble if trouble is not None and report.state == "stopped" else report.reason


def _why_waiting(flow: FlowController, partition: TopicPartition) -> str:
    if flow.state.fenced:
        return "another coordinator has taken the flow over"
    if flow.state.lease_ms(partition):
        return "until the lease of the replicator that had it has run out"
    if (reason := flow.transforms.waits(partition)) is not None:
        return reason
    return "no replicator has it yet"
