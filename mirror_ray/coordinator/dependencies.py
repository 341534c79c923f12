"""Everything that the coordinator touches: real ones in ``actors.actor_classes``, fakes in unit tests."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.coordinator.ports import (
    CheckpointPort,
    FlowClusters,
    GatewayPort,
    HeartbeatPort,
    NodesPort,
    SchemaPort,
    SettingsStore,
    SpawnPort,
)
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.kafka.probe import cluster_id
from mirror_ray.topics.port import TopicPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Ports, clocks and timing."""

    spawner: SpawnPort
    #: Neither has sent anything yet.
    flow_port: Callable[[MirrorSettings, FlowSettings], FlowClusters]
    topic_port: Callable[[MirrorSettings, FlowSettings], TopicPort]
    heartbeat: Callable[[MirrorSettings], HeartbeatPort]
    checkpoint: Callable[[MirrorSettings], CheckpointPort]
    schemas: Callable[[MirrorSettings], SchemaPort]
    gateway: Callable[[MirrorSettings], GatewayPort]
    settings_store: SettingsStore
    audit_logs: AuditLogs
    node: str
    nodes: NodesPort
    #: The id of the cluster that answers by some settings.
    cluster_id: Callable[[ClusterSettings], Awaitable[str]] = cluster_id
    timing: CoordinatorTiming = field(default_factory=CoordinatorTiming)
    #: Monotonic seconds.
    clock: Callable[[], float] = time.monotonic
    wall_ms: Callable[[], int] = lambda: int(time.time() * 1000)
