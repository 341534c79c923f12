"""Settings of a whole system: its processes, what counts as a problem, the audit; its clusters and flows."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from mirror_ray.config.base import Settings
from mirror_ray.config.gateway import GatewaySettings
from mirror_ray.config.numbers import (
    BufferBytes,
    Cores,
    CpuShare,
    Deaths,
    IntervalSeconds,
    LeaseMilliseconds,
    Price,
    Processes,
    Replicators,
    RetentionMilliseconds,
    StartSeconds,
)
from mirror_ray.config.settings.cluster import ClusterSettings
from mirror_ray.config.settings.derived import backfill_settings, with_all_names, with_registries
from mirror_ray.config.settings.flow import FlowSettings
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.lease_terms import DEFAULT_LEASE_MS
from mirror_ray.model.names import FlowName

#: A label's value as Ray writes it; its selectors know operators, too, which nobody needs here.
LabelValue = Annotated[str, Field(pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$")]
LabelName = Annotated[str, Field(pattern=r"^([a-z0-9.-]{1,253}/)?[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$")]

#: A size of memory as Spark and RayDP both read it.
SPARK_SIZE: Final = r"^[1-9][0-9]{0,8}[kKmMgGtT]$"


class ReplicatorSettings(Settings):
    """The replicators' processes, in every form of configuration."""

    #: How many replicators to start, within ``elastic``'s bounds; ``--replicators`` and ``scale`` override it.
    replicators: Replicators = 1
    #: Ray's logical CPUs that one replicator takes.
    replicator_cpus: CpuShare = 1.0
    #: Bytes fetched and not yet acknowledged that one replicator may hold.
    replicator_buffer_bytes: BufferBytes = 32 << 20
    #: Partitions of a replicator that is not known to be dead are assigned to others after this time. A replicator that
    #: could not read a flow's state topic for half of it sends nothing for that flow until it can.
    lease_ms: LeaseMilliseconds = DEFAULT_LEASE_MS
    #: Processes that share the consumer groups. One syncs some thousand groups in seconds.
    checkpoint_actors: Processes = 1


class PlacementSettings(Settings):
    """Where replicators run."""

    #: Labels of Ray nodes (``ray start --labels``): only on nodes that have all of them; without any on every node.
    labels: dict[LabelName, LabelValue] = Field(default_factory=dict)


class SparkSettings(Settings):
    """What commands with Spark may take of the Ray cluster, in addition to the flows."""

    executors: Processes = 1
    #: Threads of an executor; it takes as many of Ray's logical CPUs.
    executor_cores: Cores = 1
    #: Java heap of an executor, and of the command's own process, as Spark writes sizes.
    executor_memory: str = Field(default="1g", pattern=SPARK_SIZE)
    driver_memory: str = Field(default="1g", pattern=SPARK_SIZE)
    #: How long to wait for resources in the Ray cluster; an autoscaler may need minutes.
    start_timeout_s: StartSeconds = 300.0


class AlertSettings(Settings):
    """What counts as a problem, in ``status``, the web UI, metrics and alerts."""

    #: Lag of a flow.
    lag_s: IntervalSeconds = 300.0
    #: Time for which a flow's lag has grown.
    lag_growing_s: IntervalSeconds = 300.0
    #: Time without an acknowledged heartbeat.
    heartbeat_s: IntervalSeconds = 30.0
    #: Time without a round of group sync.
    checkpoint_s: IntervalSeconds = 60.0
    #: For how long a replicator's death is shown.
    replicator_died_s: IntervalSeconds = 300.0
    #: This many deaths of one replicator within ``crash_loop_s`` are a crash loop.
    crash_loop_deaths: Deaths = 3
    crash_loop_s: IntervalSeconds = 600.0
    #: For how long a skipped range is shown; ``mirror-ray gaps`` lists it for ever.
    gap_s: IntervalSeconds = 3600.0


class CostSettings(Settings):
    """The price of traffic, for the cost in ``status``, ``topics`` and the web UI."""

    #: The price of a GB (1,000,000,000 bytes) over the link; 0: no cost is shown.
    price_per_gb: Price = 0.0
    #: The currency of that price; any text.
    currency: str = "USD"


class AuditSettings(Settings):
    """The audit log of changes to clusters and of operator commands."""

    enabled: bool = True
    #: Refuse a change unless its intent was written to the audit log first. False: a log that can't be written is shown
    #: as a problem, and replication goes on.
    required: bool = False
    #: ``retention.ms`` of the topic when it is created.
    retention_ms: RetentionMilliseconds = 2_592_000_000


class ElasticSettings(Settings):
    """How the number of replicators follows load and lag; without ``max_replicators`` it does not change."""

    #: Bounds of the number. Without an upper bound there are none; if both are equal the number does not change.
    min_replicators: Replicators = 1
    max_replicators: Replicators | None = None
    #: Share of a core that a replicator should use: above it some are added; one is removed if the others stay below.
    target_cpu: float = Field(default=0.7, gt=0, le=1)
    #: A flow counts as load as well if its lag is above this, and it will not have caught up within this time.
    lag_seconds: IntervalSeconds = 60.0
    #: For how long there must be a reason to scale, without interruption.
    scale_out_after_s: IntervalSeconds = 15.0
    scale_in_after_s: IntervalSeconds = 300.0

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.max_replicators is not None and self.max_replicators < self.min_replicators:
            raise ValueError(f"max_replicators is {self.max_replicators}, below min_replicators {self.min_replicators}")
        return self

    @property
    def on(self) -> bool:
        """Whether the number changes by itself."""
        return self.max_replicators is not None and self.max_replicators > self.min_replicators

    def bounded(self, replicators: int) -> int:
        """The nearest number within the bounds."""
        if self.max_replicators is None:
            return replicators
        return max(self.min_replicators, min(replicators, self.max_replicators))


class SystemSettings(ReplicatorSettings):
    """Settings of a system as a whole, in every form of configuration."""

    spark: SparkSettings = SparkSettings()
    gateway: GatewaySettings = GatewaySettings()
    alerts: AlertSettings = AlertSettings()
    cost: CostSettings = CostSettings()
    elastic: ElasticSettings = ElasticSettings()
    placement: PlacementSettings = PlacementSettings()
    audit: AuditSettings = AuditSettings()

    def starting(self, wanted: int | None) -> int:
        """How many replicators to start: ``wanted``, or else as configured, within ``elastic``'s bounds."""
        return self.elastic.bounded(wanted or self.replicators)


class MirrorSettings(SystemSettings):
    """A whole mirror-ray system."""

    clusters: dict[str, ClusterSettings]
    flows: tuple[FlowSettings, ...]

    @field_validator("flows")
    @classmethod
    def _know_the_others(cls, flows: tuple[FlowSettings, ...], info: ValidationInfo) -> tuple[FlowSettings, ...]:
        return with_registries(with_all_names(flows), info.data.get("clusters", {}))

    def flow(self, name: FlowName) -> FlowSettings:
        """The settings of a flow, route or backfill by its name.

        Raises:
            ConfigError: There is no such flow; the text has the names of all.
        """
        for flow in self.flows:
            if flow.name == name.configured:
                return backfill_settings(flow, name.backfill) if name.backfill else flow
        names = ", ".join(str(flow.name) for flow in self.flows) or "none"
        raise ConfigError(f"there is no flow {name}; flows: {names}")

    def routes_of(self, name: FlowName) -> tuple[FlowSettings, ...]:
        """The routes of a flow, as flows."""
        return tuple(flow for flow in self.flows if flow.name.live == name and flow.route is not None)

    def family(self, name: FlowName) -> tuple[FlowSettings, ...]:
        """A flow with its routes; a route or a backfill alone.

        Raises:
            ConfigError: There is no flow of that name.
        """
        return (self.flow(name), *(self.routes_of(name) if name.is_live else ()))
