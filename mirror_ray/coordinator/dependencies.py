"""Everything that the coordinator touches: real ones in ``actors.actor_classes``, fakes in unit tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.coordinator.begun_flows import AskId
from mirror_ray.coordinator.ports import (
    AnyNode,
    CheckpointPort,
    CoordinatorTiming,
    FlowClustersFactory,
    GatewayPort,
    HeartbeatPort,
    NodesPort,
    SettingsStore,
    SpawnPort,
)
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.kafka.identity import cluster_id
from mirror_ray.topics.port import TopicPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Ports, clocks and timing."""

    spawner: SpawnPort
    flow_port: FlowClustersFactory
    topic_port: Callable[[MirrorSettings, FlowSettings], TopicPort]
    heartbeat: Callable[[MirrorSettings], HeartbeatPort]
    checkpoint: Callable[[MirrorSettings], CheckpointPort]
    gateway: Callable[[MirrorSettings], GatewayPort]
    memory: SettingsStore
    audit_logs: AuditLogs
    node: str
    nodes: NodesPort = field(default_factory=AnyNode)
    cluster_id: AskId = cluster_id
    timing: CoordinatorTiming = field(default_factory=CoordinatorTiming)
    #: Monotonic seconds.
    clock: Callable[[], float] = time.monotonic
    wall_ms: Callable[[], int] = lambda: int(time.time() * 1000)
