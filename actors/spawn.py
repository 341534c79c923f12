"""Ray options of the actors that a coordinator starts; the coordinator's own are in ``actors.system``.

All actors are detached and named (``mirror_ray.state.actor_names``): they outlive the driver that made them, a
restarted coordinator finds the others, and any shell finds the coordinator. A runtime environment (``ray job submit
--working-dir``) is inherited from the driver, and kept by Ray for as long as a detached actor needs it.
"""

from __future__ import annotations

from typing import Any, Final

import ray
from ray.actor import ActorHandle

from actors.worker_classes import Checkpoint, Gateway, Heartbeat, Replicator, SchemaSync
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.state.actor_names import (
    NAMESPACE,
    checkpoint_name,
    gateway_name,
    heartbeat_name,
    replicator_name,
    schema_sync_name,
)

#: Only Ray's head node has it. Ray puts an actor that asks for nothing on any node; where nodes come and go, the head
#: is the one that stays, and its address is known. Without it Ray starts no actor anyway.
ON_THE_HEAD: Final = {"node:__internal_head__": 0.001}


def spawn_replicator(name: str, number: int, settings: MirrorSettings, mark: str) -> ActorHandle[Any]:
    """Create replicator ``number``, or find it. The coordinator replaces it when it dies; Ray does not."""
    actor_name = replicator_name(name, number)
    cpus = settings.replicator_cpus
    options = {**detached(actor_name), "num_cpus": cpus, "scheduling_strategy": "SPREAD", "max_restarts": 0}
    options |= {"label_selector": settings.placement.labels} if settings.placement.labels else {}
    return spawn_named(Replicator, settings, mark, actor_name, **options)


def spawn_heartbeat(name: str, settings: MirrorSettings) -> ActorHandle[Any]:
    """Create the heartbeat emitter, or find it. The coordinator replaces it when it dies."""
    return spawn_named(Heartbeat, settings, **detached(heartbeat_name(name)), num_cpus=0, max_restarts=0)


def spawn_gateway(name: str) -> ActorHandle[Any]:
    """Create the gateway, or find it; on Ray's head, where its certificate is. The coordinator replaces it.

    A soft affinity to the coordinator's node would not do: a node that has just joined may be asked, does not know of
    that one yet, and keeps the actor.
    """
    options = {**detached(gateway_name(name)), "num_cpus": 0, "max_restarts": 0, "resources": ON_THE_HEAD}
    return spawn_named(Gateway, name, **options)


def spawn_checkpoint(name: str, number: int) -> ActorHandle[Any]:
    """Create checkpoint actor ``number``, or find it. The coordinator replaces it when it dies."""
    return spawn_named(Checkpoint, number, **detached(checkpoint_name(name, number)), num_cpus=0, max_restarts=0)


def spawn_schema_sync(name: str) -> ActorHandle[Any]:
    """Create the schema sync, or find it. The coordinator replaces it when it dies."""
    return spawn_named(SchemaSync, **detached(schema_sync_name(name)), num_cpus=0, max_restarts=0)


def spawn_named(kind: type, *args: object, **options: Any) -> ActorHandle[Any]:
    """Create an actor of that class, with Ray's ``options``."""
    actor_class: Any = ray.remote(kind)
    handle: ActorHandle[Any] = actor_class.options(**options).remote(*args)
    return handle


def detached(actor_name: str) -> dict[str, Any]:
    """Options of an actor that outlives its maker, and is found by its name instead of being made twice.

    Its calls are no events of Ray's: the GCS would keep the last 100,000, several a second, for `ray list tasks`.
    """
    kept = {"name": actor_name, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    return {**kept, "enable_task_events": False}
