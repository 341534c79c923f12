"""Every Ray option of every actor, and the way to start a system. The classes themselves know nothing of Ray.

All actors are detached and named (``mirror_ray.coordination.naming``): they outlive the driver that made them, a
restarted coordinator finds the others, and any shell finds the coordinator. A runtime environment (``ray job submit
--working-dir``) is inherited from the driver, and kept by Ray for as long as a detached actor needs it.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.actor import ActorHandle

from actors.checkpoint import Checkpoint
from actors.coordinator import fingerprint
from actors.heartbeat import Heartbeat
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordination.naming import (
    DEFAULT_NAME,
    NAMESPACE,
    checkpoint_name,
    coordinator_name,
    heartbeat_name,
    replicator_name,
)

#: A coordinator of thousands of partitions answers many callers at once; none of its methods is long.
_COORDINATOR_CALLS = 200


def start_system(
    settings: MirrorSettings, *, name: str = DEFAULT_NAME, replicators: int | None = None
) -> ActorHandle[Any]:
    """Start the system ``name`` with these flows, or update a running one to them; returns the coordinator.

    Ray must have been initialised. The replicators' processes are started beside the coordinator's, not after it.

    Raises:
        MirrorError: The coordinator refuses the settings.
    """
    try:
        coordinator = ray.get_actor(coordinator_name(name), namespace=NAMESPACE)
    except ValueError:
        coordinator = spawn_coordinator(name)
        mark = fingerprint(settings)
        for number in range(1, (replicators or settings.replicators) + 1):
            spawn_replicator(name, number, settings, mark)
    ray.get(coordinator.apply.remote(settings, replicators))
    return coordinator


def spawn_coordinator(name: str) -> ActorHandle[Any]:
    """Create the coordinator, or find it. Ray restarts it for as long as the cluster lives."""
    handle: ActorHandle[Any] = (
        ray.remote(_coordinator_class())
        .options(
            **_detached(coordinator_name(name)),
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=_COORDINATOR_CALLS,
        )
        .remote(name)
    )
    return handle


def spawn_replicator(name: str, number: int, settings: MirrorSettings, mark: str) -> ActorHandle[Any]:
    """Create replicator ``number``, or find it. The coordinator replaces it when it dies; Ray does not."""
    handle: ActorHandle[Any] = (
        ray.remote(_replicator_class())
        .options(
            **_detached(replicator_name(name, number)),
            num_cpus=settings.replicator_cpus,
            scheduling_strategy="SPREAD",
            max_restarts=0,
        )
        .remote(settings, mark, replicator_name(name, number))
    )
    return handle


def spawn_heartbeat(name: str, settings: MirrorSettings) -> ActorHandle[Any]:
    """Create the heartbeat emitter, or find it. The coordinator replaces it when it dies."""
    heartbeat: Any = ray.remote(Heartbeat)
    options = {**_detached(heartbeat_name(name)), "num_cpus": 0, "max_restarts": 0}
    handle: ActorHandle[Any] = heartbeat.options(**options).remote(settings)
    return handle


def spawn_checkpoint(name: str, number: int) -> ActorHandle[Any]:
    """Create checkpoint actor ``number``, or find it. The coordinator replaces it when it dies."""
    checkpoint: Any = ray.remote(Checkpoint)
    options = {**_detached(checkpoint_name(name, number)), "num_cpus": 0, "max_restarts": 0}
    handle: ActorHandle[Any] = checkpoint.options(**options).remote(number)
    return handle


def _detached(actor_name: str) -> dict[str, Any]:
    return {"name": actor_name, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}


def _coordinator_class() -> Any:
    # Imported late: on_ray spawns the others, so it needs this module.
    from actors.on_ray import Coordinator

    return Coordinator


def _replicator_class() -> Any:
    from actors.on_ray import Replicator

    return Replicator
