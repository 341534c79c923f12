"""The parts of a coordinator, wired together; the life of the system, its queries and its commands share them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.applied_settings import AppliedSettings
from mirror_ray.coordinator.assignment import PartitionAssigner
from mirror_ray.coordinator.backfills import Backfills
from mirror_ray.coordinator.begun_flows import BegunFlows
from mirror_ray.coordinator.dependencies import Dependencies
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.limits import LimitController
from mirror_ray.coordinator.observed import ObservedState, ThrottleShare
from mirror_ray.coordinator.problems import ProblemWatch
from mirror_ray.coordinator.replicator_pool import ReplicatorPool
from mirror_ray.coordinator.replicator_process import ReplicatorContext
from mirror_ray.coordinator.running_flows import RunningFlows
from mirror_ray.coordinator.scaling import ScalingController
from mirror_ray.coordinator.schemas import SchemaWatch
from mirror_ray.coordinator.supervision import AuditWatch, GatewayWatch, GroupWatch, HeartbeatWatch
from mirror_ray.model.errors import ConfigError, NotRunningError
from mirror_ray.model.names import FlowName
from mirror_ray.model.starter import Starter
from mirror_ray.observe.events import EventLog
from mirror_ray.observe.status import PartitionStatus


class CoordinatorParts:
    """What a coordinator consists of, and what it knows of the system as a whole."""

    def __init__(
        self,
        name: str,
        dependencies: Dependencies,
        *,
        wake: Callable[[], None],
        until_settled: Callable[[], Awaitable[None]],
        partitions: Callable[[Iterable[FlowController]], tuple[PartitionStatus, ...]],
        refused: Callable[[str], Awaitable[None]],
    ) -> None:
        """Build the parts; nothing is started.

        ``wake`` asks for a step soon; ``until_settled`` returns when everything copies, or after a while;
        ``partitions``: status of every partition of some flows; ``refused`` keeps in the audit log that a client of the
        gateway was refused, and why.
        """
        self.name = name
        self.dependencies = dependencies
        self.settings: MirrorSettings | None = None
        self.starter: Starter | None = None
        self.started_ms = dependencies.wall_ms()
        self.flows: dict[FlowName, FlowController] = {}
        self.events = EventLog(dependencies.wall_ms)
        self.emit = emit = self.events.emit
        self.applied = AppliedSettings(self, wake)
        self.observed = ObservedState()
        self.throttled = ThrottleShare()
        self.begun = BegunFlows(dependencies.cluster_id)
        self.groups = GroupWatch(
            dependencies.checkpoint,
            emit,
            fenced=lambda: [name for name, flow in self.flows.items() if flow.state.fenced],
        )
        self.heartbeat = HeartbeatWatch(dependencies.heartbeat, emit)
        self.gateway = GatewayWatch(dependencies.gateway, emit, refused)
        timing, clock, wall_ms = dependencies.timing, dependencies.clock, dependencies.wall_ms
        self.assigner = PartitionAssigner(self.flows, self.observed, timing=timing, emit=emit, wake=wake)
        self.schemas = SchemaWatch(
            dependencies.schemas,
            emit,
            needs=lambda: self.pool.schema_needs,
            running=lambda: [name for name, flow in self.flows.items() if flow.opened and not flow.state.paused],
            decided=self.applied.decide_ids,
        )
        self.limits = LimitController(self.flows, self.assigner, self.observed, wall_ms=wall_ms, emit=emit)
        self.pool = ReplicatorPool(
            name,
            ReplicatorContext(
                spawner=dependencies.spawner,
                timing=timing,
                clock=clock,
                wall_ms=wall_ms,
                emit=emit,
                listener=self.assigner,
                allowances=self.limits.allowances,
            ),
        )
        self.running = RunningFlows(
            self.flows,
            dependencies,
            self.assigner,
            self.pool,
            self.begun,
            emit=emit,
            wake=wake,
            until_settled=until_settled,
        )
        self.problems = ProblemWatch(
            self.flows,
            self.running.syncs,
            self.pool,
            self.observed,
            catching_up=self.limits.catching_up,
            audit=AuditWatch(dependencies.audit_logs.problems, self.groups, self.schemas, emit=emit).problems,
        )
        self.scaling = ScalingController(
            name,
            self.pool,
            dependencies.nodes,
            partitions=lambda: partitions(self.flows.values()),
            timing=timing,
            clock=clock,
            emit=emit,
            changed=self.applied.rescaled,
        )
        self.backfills = Backfills(
            self.flows,
            begin=self.applied.begin_backfill,
            end=self.applied.end_backfill,
            partitions=lambda flow: partitions([flow]),
            rates=lambda flow: self.observed.rates(flow, clock()),
            emit=emit,
            wall_ms=wall_ms,
        )

    def running_settings(self) -> MirrorSettings:
        """The settings that the system runs by.

        Raises:
            NotRunningError: It has no flows yet.
        """
        if self.settings is None:
            raise NotRunningError(f"{self.name} has no flows yet: mirror-ray up CONFIG")
        return self.settings

    def flow(self, name: str) -> FlowController:
        """The running flow of that name.

        Raises:
            ConfigError: There is none.
        """
        try:
            return self.flows[FlowName.parse(name)]
        except (KeyError, ValueError):
            names = ", ".join(str(flow) for flow in self.flows) or "none"
            raise ConfigError(f"there is no running flow {name!r}; running flows: {names}") from None

    def with_routes(self, name: str | None) -> list[FlowController]:
        """A flow with its routes; all but backfills where ``name`` is None."""
        if name is None:
            return [flow for flow_name, flow in self.flows.items() if not flow_name.backfill]
        found = self.flow(name)
        return [found, *self.running.routes_of(found.name)]
