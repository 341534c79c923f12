"""Everything that the coordinator touches: real ones in ``actors.on_ray``, fakes in unit tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from actors.begun import AskId
from actors.ports import (
    Anywhere,
    CheckpointPort,
    FlowPortFactory,
    GatewayPort,
    HeartbeatPort,
    MemoryPort,
    NodesPort,
    SpawnPort,
    Timing,
    TrailOf,
)
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.identity import cluster_id
from mirror_ray.kafka.trails import TRAILS
from mirror_ray.topics.port import TopicPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Ports, clocks and timing."""

    spawner: SpawnPort
    flow_port: FlowPortFactory
    topic_port: Callable[[MirrorSettings, FlowSettings], TopicPort]
    heartbeat: Callable[[MirrorSettings], HeartbeatPort]
    checkpoint: Callable[[MirrorSettings], CheckpointPort]
    gateway: Callable[[MirrorSettings], GatewayPort]
    memory: MemoryPort
    node: str
    nodes: NodesPort = field(default_factory=Anywhere)
    cluster_id: AskId = cluster_id
    timing: Timing = field(default_factory=Timing)
    trail: TrailOf = lambda settings, flow, operator: TRAILS.of(settings, flow, operator=operator)
    audit_problems: Callable[[], Mapping[str, str]] = TRAILS.problems
    #: Monotonic seconds.
    clock: Callable[[], float] = time.monotonic
    wall_ms: Callable[[], int] = lambda: int(time.time() * 1000)
