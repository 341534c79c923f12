"""The actors that a coordinator starts, as Ray runs them. ``ps`` shows their classes' names.

Ray imports a class's module wherever such an actor is made or found. So this one imports next to nothing; what an actor
does is imported in its own process, once it is made there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import ray
from ray._private.worker import WORKER_MODE, global_worker

from actors.connection import skip_foreign_serializers

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.kafka.audit_logs import AuditLogs

_T = TypeVar("_T", bound=type)

if global_worker.mode == WORKER_MODE:
    skip_foreign_serializers()


def passes_on(*methods: str) -> Callable[[_T], _T]:
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


class Actor:
    """Passes calls on to what it holds."""

    _actor: Any = None

    async def _ready(self) -> None:
        """Called before each method is."""

    def __repr__(self) -> str:
        """For Ray's log lines."""
        return repr(self._actor)


@passes_on("configure", "exchange", "health", "release", "stop")
class Replicator(Actor):
    """``mirror_ray.replication.service.ReplicatorService`` with the real engine."""

    def __init__(self, settings: MirrorSettings, fingerprint: str, replicator: str) -> None:
        """``fingerprint``: of the settings; ``replicator``: this one's name."""
        from mirror_ray.replication.engine import ReplicationEngine
        from mirror_ray.replication.service import ReplicatorService

        self._actor = ReplicatorService(
            settings,
            fingerprint,
            replicator,
            engine=ReplicationEngine,
            node=this_node(),
            node_id=ray.get_runtime_context().get_node_id(),
        )


@passes_on("configure", "groups", "report", "settle", "stop", "translate")
class Checkpoint(Actor):
    """``mirror_ray.groups.service.GroupSyncService``."""

    def __init__(self, number: int) -> None:
        """``number``: which share of the groups it syncs."""
        from mirror_ray.groups.service import GroupSyncService

        self._actor = GroupSyncService(audit_logs_of("checkpoint"), number)


@passes_on("configure", "report", "schemas", "stop")
class SchemaSync(Actor):
    """``mirror_ray.registry.service.SchemaSyncService``."""

    def __init__(self) -> None:
        """Nothing happens before ``configure``."""
        from mirror_ray.registry.service import SchemaSyncService

        self._actor = SchemaSyncService(audit_logs_of("schemas"))


@passes_on("configure", "stop")
class Gateway(Actor):
    """``mirror_ray.web.service.GatewayService`` of the coordinator that is found by the system's name."""

    def __init__(self, name: str) -> None:
        """``name``: the system's."""
        from actors.coordinator_link import RayCoordinatorLink
        from actors.ray_metrics import RayMetrics
        from mirror_ray.kafka.audit_topics import read_audit
        from mirror_ray.mirror import CoordinatorClient
        from mirror_ray.web.service import GatewayService

        client = CoordinatorClient(name, RayCoordinatorLink(name), operator="")
        self._actor = GatewayService(client, read_audit, on_snapshot=RayMetrics().show)


class Heartbeat(Actor):
    """``mirror_ray.topics.heartbeat_service.HeartbeatService``, which is not asynchronous."""

    def __init__(self, settings: MirrorSettings) -> None:
        """Begin to emit."""
        from mirror_ray.topics.heartbeat_service import HeartbeatService

        self._actor = HeartbeatService(settings, audit_logs_of("heartbeat"))

    def configure(self, settings: MirrorSettings) -> None:
        """Emit by these settings from now on."""
        self._actor.configure(settings)

    def ages_s(self) -> dict[str, float | None]:
        """Seconds since each flow's last acknowledged heartbeat; None before the first."""
        return dict(self._actor.ages_s())

    def stop(self) -> None:
        """Stop emitting."""
        self._actor.stop()


def audit_logs_of(component: str) -> AuditLogs:
    """The audit logs of this actor's process; its name in Ray is its system's name and its part of it."""
    from mirror_ray.kafka.audit_logs import AuditLogs
    from mirror_ray.model.audit import AuditPrincipal

    name = ray.get_runtime_context().get_actor_name() or ""
    return AuditLogs(AuditPrincipal(system=name.rpartition(f":{component}")[0], component=component))


def this_node() -> str:
    """The address of this actor's node."""
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
