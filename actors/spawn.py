"""Every Ray option of every actor, and the way to start a system. The classes themselves know nothing of Ray.

All actors are detached and named (``mirror_ray.state.actor_names``): they outlive the driver that made them, a
restarted coordinator finds the others, and any shell finds the coordinator. A runtime environment (``ray job submit
--working-dir``) is inherited from the driver, and kept by Ray for as long as a detached actor needs it.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.actor_classes import Checkpoint, Coordinator, Gateway, Heartbeat, Replicator
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.saved_settings import fingerprint
from mirror_ray.model.starter import Starter
from mirror_ray.state.actor_names import (
    DEFAULT_NAME,
    NAMESPACE,
    checkpoint_name,
    coordinator_name,
    gateway_name,
    heartbeat_name,
    replicator_name,
)
from mirror_ray.whoami import whoami

#: Only Ray's head node has it. Ray puts an actor that asks for nothing on any node; where nodes come and go, the head
#: is the one that stays, and its address is known. Without it Ray starts no actor anyway.
_ON_THE_HEAD = {"node:__internal_head__": 0.001}
#: A coordinator of thousands of partitions answers many callers at once; none of its methods is long.
_COORDINATOR_CALLS = 200


def start_system(
    settings: MirrorSettings,
    *,
    name: str = DEFAULT_NAME,
    replicators: int | None = None,
    onto: str | None = None,
    starter: Starter | None = None,
) -> ActorHandle[Any]:
    """Start the system ``name`` with these flows, or update a running one to them; returns the coordinator.

    Ray must have been initialised. The replicators' processes are started beside the coordinator's, not after it.
    ``onto``: what the caller has agreed to change (``coordinator.settings_agreement``); ``starter``: who that is.

    Raises:
        MirrorError: The coordinator refuses the settings.
    """
    try:
        coordinator = ray.get_actor(coordinator_name(name), namespace=NAMESPACE)
    except ValueError:
        coordinator = spawn_coordinator(name)
        mark = fingerprint(settings)
        for number in range(1, settings.starting(replicators) + 1):
            spawn_replicator(name, number, settings, mark)
    ray.get(coordinator.act.remote(whoami(), "apply", (settings, replicators, False, onto, starter)))
    return coordinator


def spawn_coordinator(name: str) -> ActorHandle[Any]:
    """Create the coordinator, or find it; on Ray's head. Ray restarts it for as long as the cluster lives."""
    return _spawn(
        Coordinator,
        name,
        **_detached(coordinator_name(name)),
        num_cpus=0,
        resources=_ON_THE_HEAD,
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=_COORDINATOR_CALLS,
    )


def spawn_replicator(name: str, number: int, settings: MirrorSettings, mark: str) -> ActorHandle[Any]:
    """Create replicator ``number``, or find it. The coordinator replaces it when it dies; Ray does not."""
    actor_name = replicator_name(name, number)
    cpus = settings.replicator_cpus
    options = {**_detached(actor_name), "num_cpus": cpus, "scheduling_strategy": "SPREAD", "max_restarts": 0}
    return _spawn(Replicator, settings, mark, actor_name, **options)


def spawn_heartbeat(name: str, settings: MirrorSettings) -> ActorHandle[Any]:
    """Create the heartbeat emitter, or find it. The coordinator replaces it when it dies."""
    return _spawn(Heartbeat, settings, **_detached(heartbeat_name(name)), num_cpus=0, max_restarts=0)


def spawn_gateway(name: str) -> ActorHandle[Any]:
    """Create the gateway, or find it; where its coordinator is, if there is room. The coordinator replaces it."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    options = {**_detached(gateway_name(name)), "num_cpus": 0, "max_restarts": 0, "scheduling_strategy": here}
    return _spawn(Gateway, name, **options)


def spawn_checkpoint(name: str, number: int) -> ActorHandle[Any]:
    """Create checkpoint actor ``number``, or find it. The coordinator replaces it when it dies."""
    return _spawn(Checkpoint, number, **_detached(checkpoint_name(name, number)), num_cpus=0, max_restarts=0)


def _spawn(kind: type, *args: object, **options: Any) -> ActorHandle[Any]:
    actor_class: Any = ray.remote(kind)
    handle: ActorHandle[Any] = actor_class.options(**options).remote(*args)
    return handle


def _detached(actor_name: str) -> dict[str, Any]:
    return {"name": actor_name, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
