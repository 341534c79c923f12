"""Settings of a whole system: its processes, what counts as a problem, the audit; its clusters and flows."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, field_validator, model_validator

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
from mirror_ray.config.settings.derived import backfill_settings, with_all_names
from mirror_ray.config.settings.flow import FlowSettings
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.lease_terms import DEFAULT_LEASE_MS
from mirror_ray.model.names import FlowName

#: A size of memory as Spark and RayDP both read it.
SPARK_SIZE: Final = r"^[1-9][0-9]{0,8}[kKmMgGtT]$"


class ReplicatorSettings(Settings):
    """The replicators' processes, in every form of configuration."""

    #: How many replicators to start with, within ``elastic``'s bounds; ``--replicators`` and ``scale`` override it.
    replicators: Replicators = 1
    #: Ray's logical CPUs that one replicator takes.
    replicator_cpus: CpuShare = 1.0
    #: Bytes fetched and not yet acknowledged that one replicator may hold.
    replicator_buffer_bytes: BufferBytes = 32 << 20
    #: Partitions of a replicator that nobody can see dead are given to others after so long. One that could not read
    #: a flow's state topic for half of it sends nothing for that flow until it can.
    lease_ms: LeaseMilliseconds = DEFAULT_LEASE_MS
    #: Processes that share the consumer groups. One carries some thousand groups in seconds.
    checkpoint_actors: Processes = 1


class SparkSettings(Settings):
    """What the commands that use Spark may take of the Ray cluster, beside the flows that go on."""

    executors: Processes = 1
    #: Of each executor: threads, and as many of Ray's logical CPUs.
    executor_cores: Cores = 1
    #: Of each executor, and of the command's own process: Java heap, as Spark writes sizes.
    executor_memory: str = Field(default="1g", pattern=SPARK_SIZE)
    driver_memory: str = Field(default="1g", pattern=SPARK_SIZE)
    #: How long to wait for room in Ray's cluster; an autoscaler may need minutes.
    start_timeout_s: StartSeconds = 300.0


class AlertSettings(Settings):
    """What counts as a problem, in ``status``, on the page, in metrics and alerts alike."""

    #: A flow that is further behind than this.
    lag_s: IntervalSeconds = 300.0
    #: A flow whose lag has grown for so long.
    lag_growing_s: IntervalSeconds = 300.0
    #: No heartbeat was acknowledged for so long.
    heartbeat_s: IntervalSeconds = 30.0
    #: Consumer groups were not carried over for so long.
    checkpoint_s: IntervalSeconds = 60.0
    #: A replicator's death is shown for so long.
    replicator_died_s: IntervalSeconds = 300.0
    #: So many deaths of one replicator, within this time, are a loop.
    crash_loop_deaths: Deaths = 3
    crash_loop_s: IntervalSeconds = 600.0
    #: A gap is shown for so long; ``mirror-ray gaps`` keeps it.
    gap_s: IntervalSeconds = 3600.0


class CostSettings(Settings):
    """What traffic costs, so that ``status``, ``topics`` and the page can say it."""

    #: Of a GB (1,000,000,000 bytes) over the link; 0: no price is shown.
    price_per_gb: Price = 0.0
    #: Of that price; any text.
    currency: str = "USD"


class AuditSettings(Settings):
    """The audit log: what is changed on clusters, and what operators do."""

    enabled: bool = True
    #: Nothing is changed unless it can be written first that it will be. Off: a log that can't be written is a problem
    #: that is shown, and replication goes on.
    required: bool = False
    #: How long entries are kept; the topic is created with it.
    retention_ms: RetentionMilliseconds = 2_592_000_000


class ElasticSettings(Settings):
    """How the number of replicators follows load and lag; without ``max_replicators`` it stays what it is."""

    #: Bounds of the number. Without an upper one there are none; with one that is equal the number stays the same.
    min_replicators: Replicators = 1
    max_replicators: Replicators | None = None
    #: Share of a core that a replicator should use: more replicators above it, fewer when the rest would stay below.
    target_cpu: float = Field(default=0.7, gt=0, le=1)
    #: A flow further behind than this, that will not have caught up within this either, counts as load, too.
    lag_seconds: IntervalSeconds = 60.0
    #: What asks for more or for fewer has to last so long, without a break.
    scale_out_after_s: IntervalSeconds = 15.0
    scale_in_after_s: IntervalSeconds = 300.0

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.max_replicators is not None and self.max_replicators < self.min_replicators:
            raise ValueError(f"max_replicators is {self.max_replicators}, below min_replicators {self.min_replicators}")
        return self

    @property
    def on(self) -> bool:
        """Whether the number follows anything."""
        return self.max_replicators is not None and self.max_replicators > self.min_replicators

    def bounded(self, replicators: int) -> int:
        """The nearest number within the bounds."""
        if self.max_replicators is None:
            return replicators
        return max(self.min_replicators, min(replicators, self.max_replicators))


class SystemSettings(ReplicatorSettings):
    """What holds for a system as a whole, in every form of configuration."""

    spark: SparkSettings = SparkSettings()
    gateway: GatewaySettings = GatewaySettings()
    alerts: AlertSettings = AlertSettings()
    cost: CostSettings = CostSettings()
    elastic: ElasticSettings = ElasticSettings()
    audit: AuditSettings = AuditSettings()

    def starting(self, asked: int | None) -> int:
        """How many replicators to start with: as many as asked for, else as configured, within ``elastic``'s bounds."""
        return self.elastic.bounded(asked or self.replicators)


class MirrorSettings(SystemSettings):
    """A whole mirror-ray system."""

    clusters: dict[str, ClusterSettings]
    flows: tuple[FlowSettings, ...]

    @field_validator("flows")
    @classmethod
    def _know_all_names(cls, flows: tuple[FlowSettings, ...]) -> tuple[FlowSettings, ...]:
        return with_all_names(flows)

    def flow(self, name: FlowName) -> FlowSettings:
        """The flow of that name, or what a backfill beside it works by.

        Raises:
            ConfigError: There is none; names those that there are.
        """
        for flow in self.flows:
            if flow.name == name.configured:
                return backfill_settings(flow, name.backfill) if name.backfill else flow
        names = ", ".join(str(each.name) for each in self.flows) or "none"
        raise ConfigError(f"there is no flow {name}; flows: {names}")

    def routes_of(self, name: FlowName) -> tuple[FlowSettings, ...]:
        """The routes of a flow, each as a flow beside it."""
        return tuple(flow for flow in self.flows if flow.name.live == name and flow.route is not None)

    def family(self, name: FlowName) -> tuple[FlowSettings, ...]:
        """A flow and its routes; a route or a backfill alone.

        Raises:
            ConfigError: There is none of that name.
        """
        return (self.flow(name), *(self.routes_of(name) if name.is_live else ()))
