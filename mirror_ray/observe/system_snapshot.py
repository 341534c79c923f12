"""The snapshot of a running system that ``status``, the web UI, JSON and metrics are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror_ray.model.latency import LatencyHistogram
from mirror_ray.observe.events import Event, GapStatus
from mirror_ray.observe.problems import Problem
from mirror_ray.observe.status import PartitionStatus, SystemStatus, TopicStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSnapshot:
    """A system at one moment; ``time_ms`` in ms since the epoch."""

    time_ms: int
    system: SystemStatus
    topics: tuple[TopicStatus, ...]
    partitions: tuple[PartitionStatus, ...]
    gaps: tuple[GapStatus, ...]
    #: The newest events, oldest first.
    events: tuple[Event, ...]
    #: Events since the coordinator began, by level.
    event_counts: Mapping[str, int] = field(default_factory=dict)
    #: From a record's timestamp to the target's acknowledgement, by flow, since the coordinator began.
    latencies: Mapping[str, LatencyHistogram] = field(default_factory=dict)
    #: Replicators that died since the coordinator began.
    deaths: int = 0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The system's problems, the critical ones first."""
        return self.system.problems
