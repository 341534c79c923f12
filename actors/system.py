"""Starts a system: its coordinator, which starts everything else."""

from __future__ import annotations

from typing import Any

import ray
from ray.actor import ActorHandle

from actors.actor_classes import Coordinator
from actors.connection import find_coordinator
from actors.spawn import ON_THE_HEAD, detached, spawn_named, spawn_replicator
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.saved_settings import fingerprint
from mirror_ray.model.starter import Starter
from mirror_ray.state.actor_names import DEFAULT_NAME, coordinator_name
from mirror_ray.whoami import whoami

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

    This process must be connected to Ray. The replicators' processes are started beside the coordinator's, not after
    it. ``onto``: what the caller has agreed to change, see ``CoordinatorClient.apply``; ``starter``: who that is.

    Raises:
        MirrorError: The coordinator refuses the settings.
    """
    coordinator = find_coordinator(name)
    if coordinator is None:
        coordinator = spawn_coordinator(name)
        mark = fingerprint(settings)
        for number in range(1, settings.starting(replicators) + 1):
            spawn_replicator(name, number, settings, mark)
    ray.get(coordinator.act.remote(whoami(), "apply", (settings, replicators, False, onto, starter)))
    return coordinator


def spawn_coordinator(name: str) -> ActorHandle[Any]:
    """Create the coordinator, or find it; on Ray's head. Ray restarts it for as long as the cluster lives."""
    return spawn_named(
        Coordinator,
        name,
        **detached(coordinator_name(name)),
        num_cpus=0,
        resources=ON_THE_HEAD,
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=_COORDINATOR_CALLS,
    )
