"""The actors as Ray runs them. Their names are what ``ps`` shows.

Ray imports this module wherever an actor is made, and wherever one is found by its name: in every command. So it
imports next to nothing; what an actor does is imported in its own process, once it is made there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import ray
from ray._private.worker import WORKER_MODE, global_worker

from mirror_ray.attach import spare_arrow

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.kafka.audit_logs import AuditLogs

_T = TypeVar("_T", bound=type)

#: A coordinator that can't take up its work in this time answers all the same.
_BEGIN_S = 10.0

if global_worker.mode == WORKER_MODE:
    spare_arrow()


def _passes_on(*methods: str) -> Callable[[_T], _T]:
    """Give a class asynchronous methods of these names, each of which calls that of ``self._actor``."""

    def method(name: str) -> Callable[..., Any]:
        async def call(self: Any, *args: Any, **options: Any) -> Any:
            await self._ready()
            return await getattr(self._actor, name)(*args, **options)

        call.__name__ = name
        return call

    def decorate(kind: _T) -> _T:
        for name in methods:
            setattr(kind, name, method(name))
        return kind

    return decorate


class _Actor:
    """What all of them have in common."""

    _actor: Any = None

    async def _ready(self) -> None:
        """Called before each method is."""

    def __repr__(self) -> str:
        """For Ray's log lines."""
        return repr(self._actor)


@_passes_on("act", "backfill", "backfills", "cancel_backfill", "scale_by_load", "set", "starter")
@_passes_on(
    "apply", "begin", "configuration", "down", "events", "gaps", "groups", "health", "partitions", "pause", "snapshot"
)
@_passes_on("replicators", "resolve", "resume", "scale", "settle_groups", "status", "step", "topics", "translate")
class Coordinator(_Actor):
    """``mirror_ray.coordinator.service.CoordinatorService`` with Ray and Kafka."""

    async def __init__(self, name: str) -> None:  # type: ignore[misc]  # Ray awaits it on the actor's event loop
        """Begin at once: after a restart nobody calls."""
        from actors.actor_clients import RayHeartbeat, RayMemory, RaySpawner
        from actors.checkpoint_client import RayCheckpoint
        from actors.gateway_client import RayGateway
        from actors.nodes import RayNodes
        from mirror_ray.coordinator.dependencies import Dependencies
        from mirror_ray.coordinator.flow_clusters import KafkaFlowClusters
        from mirror_ray.coordinator.service import CoordinatorService
        from mirror_ray.topics.port import KafkaTopicPort

        audit_logs = _audit_logs("coordinator")
        outside = Dependencies(
            spawner=RaySpawner(name),
            flow_port=partial(KafkaFlowClusters, audit_logs=audit_logs),
            topic_port=lambda settings, flow: KafkaTopicPort(settings, flow, audit_logs.of(settings, flow.name)),
            heartbeat=lambda settings: RayHeartbeat(name, settings),
            checkpoint=lambda settings: RayCheckpoint(name, settings),
            gateway=lambda settings: RayGateway(name, settings),
            settings_store=RayMemory(name),
            audit_logs=audit_logs,
            node=_node(),
            nodes=RayNodes(),
        )
        self._actor = CoordinatorService(name, outside)
        self._beginning = asyncio.create_task(self._actor.begin())

    async def _ready(self) -> None:
        """Wait until an earlier one's work is taken up again: before that it would say that no flow runs."""
        if not self._beginning.done():
            await asyncio.wait([self._beginning], timeout=_BEGIN_S)


@_passes_on("configure", "exchange", "health", "release", "stop")
class Replicator(_Actor):
    """``mirror_ray.replication.service.ReplicatorService`` with the real engine."""

    def __init__(self, settings: MirrorSettings, fingerprint: str, replicator: str) -> None:
        """See ``mirror_ray.replication.service.ReplicatorService``."""
        from mirror_ray.replication.engine import ReplicationEngine
        from mirror_ray.replication.service import ReplicatorService

        self._actor = ReplicatorService(
            settings,
            fingerprint,
            replicator,
            engine=ReplicationEngine,
            node=_node(),
            node_id=ray.get_runtime_context().get_node_id(),
        )


@_passes_on("configure", "groups", "report", "settle", "stop", "translate")
class Checkpoint(_Actor):
    """``mirror_ray.groups.service.GroupSyncService``."""

    def __init__(self, number: int) -> None:
        """See ``mirror_ray.groups.service.GroupSyncService``."""
        from mirror_ray.groups.service import GroupSyncService

        self._actor = GroupSyncService(_audit_logs("checkpoint"), number)


@_passes_on("configure", "stop")
class Gateway(_Actor):
    """``mirror_ray.web.service.GatewayService`` with Ray plugged in."""

    def __init__(self, name: str) -> None:
        """``name``: the system's."""
        from actors.gateway_client import RaySystem
        from actors.ray_metrics import RayMetrics
        from mirror_ray.web.service import GatewayService

        self._actor = GatewayService(RaySystem(name), on_picture=RayMetrics().show)


class Heartbeat(_Actor):
    """``mirror_ray.topics.heartbeat_service.HeartbeatService``, which is not asynchronous."""

    def __init__(self, settings: MirrorSettings) -> None:
        """See ``mirror_ray.topics.heartbeat_service.HeartbeatService``."""
        from mirror_ray.topics.heartbeat_service import HeartbeatService

        self._actor = HeartbeatService(settings, _audit_logs("heartbeat"))

    def configure(self, settings: MirrorSettings) -> None:
        """See ``mirror_ray.topics.heartbeat_service.HeartbeatService``."""
        self._actor.configure(settings)

    def ages_s(self) -> dict[str, float | None]:
        """See ``mirror_ray.topics.heartbeat_service.HeartbeatService``."""
        ages: dict[str, float | None] = self._actor.ages_s()
        return ages

    def stop(self) -> None:
        """See ``mirror_ray.topics.heartbeat_service.HeartbeatService``."""
        self._actor.stop()


def _audit_logs(component: str) -> AuditLogs:
    """The audit logs of this actor's process; its name in Ray is its system's name and its part of it."""
    from mirror_ray.kafka.audit_logs import AuditLogs
    from mirror_ray.model.audit import AuditPrincipal

    name = ray.get_runtime_context().get_actor_name() or ""
    return AuditLogs(AuditPrincipal(system=name.rpartition(f":{component}")[0], component=component))


def _node() -> str:
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
