"""Settings of how a system is looked after: what counts as a problem, the audit, how many replicators."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from mirror_ray.config.base import Settings


class AlertSettings(Settings):
    """What counts as a problem, in ``status``, on the page, in metrics and alerts alike."""

    #: A flow that is further behind than this.
    lag_s: float = Field(default=300.0, gt=0)
    #: A flow whose lag has grown for so long.
    lag_growing_s: float = Field(default=300.0, gt=0)
    #: No heartbeat was acknowledged for so long.
    heartbeat_s: float = Field(default=30.0, gt=0)
    #: Consumer groups were not carried over for so long.
    checkpoint_s: float = Field(default=60.0, gt=0)
    #: A replicator's death is shown for so long.
    replicator_died_s: float = Field(default=300.0, gt=0)
    #: So many deaths of one replicator, within this time, are a loop.
    crash_loop_deaths: int = Field(default=3, ge=2)
    crash_loop_s: float = Field(default=600.0, gt=0)
    #: A gap is shown for so long; ``mirror-ray gaps`` keeps it.
    gap_s: float = Field(default=3600.0, gt=0)


class CostSettings(Settings):
    """What traffic costs, so that ``status``, ``topics`` and the page can say it."""

    #: Of a GB (1,000,000,000 bytes) over the link; 0: no price is shown.
    price_per_gb: float = Field(default=0.0, ge=0)
    #: Of that price; any text.
    currency: str = "USD"


class AuditSettings(Settings):
    """The audit log: what is changed on clusters, and what operators do."""

    enabled: bool = True
    #: Nothing is changed unless it can be written first that it will be. Off: a log that can't be written is a problem
    #: that is shown, and replication goes on.
    required: bool = False
    #: How long entries are kept; the topic is created with it.
    retention_ms: int = Field(default=2_592_000_000, ge=3_600_000)


class ElasticSettings(Settings):
    """How the number of replicators follows load and lag; without ``max_replicators`` it stays what it is."""

    #: Bounds of the number. Without an upper one there are none; with one that is equal the number stays the same.
    min_replicators: int = Field(default=1, ge=1)
    max_replicators: int | None = Field(default=None, ge=1)
    #: Share of a core that a replicator should use: more replicators above it, fewer when the rest would stay below.
    target_cpu: float = Field(default=0.7, gt=0, le=1)
    #: A flow further behind than this, that will not have caught up within this either, counts as load, too.
    lag_seconds: float = Field(default=60.0, gt=0)
    #: What asks for more or for fewer has to last so long, without a break.
    scale_out_after_s: float = Field(default=15.0, gt=0)
    scale_in_after_s: float = Field(default=300.0, gt=0)

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
