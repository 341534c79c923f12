"""The coordinator's actor, and the names by which Ray finds the classes of all actors.

Every command that finds a coordinator imports this module: it imports next to nothing before an actor is made.
"""

from __future__ import annotations

import asyncio

from actors.worker_classes import Actor, Checkpoint, Gateway, Heartbeat, Replicator, audit_logs_of, passes_on, this_node
from mirror_ray.mirror import VERBS

#: A system that an earlier version has started names its classes' base so; without it, its coordinator is found and
#: can't be asked.
_Actor = Actor

__all__ = ["Checkpoint", "Coordinator", "Gateway", "Heartbeat", "Replicator"]

#: A coordinator that can't go on with an earlier one's work in this time answers all the same.
_BEGIN_S = 10.0


@passes_on("act", *(verb.name for verb in VERBS.values() if verb.kind is None))
class Coordinator(Actor):
    """``mirror_ray.coordinator.service.CoordinatorService`` with Ray and Kafka; commands come by ``act``."""

    async def __init__(self, name: str) -> None:  # type: ignore[misc]  # Ray awaits it on the actor's event loop
        """Begin at once: after a restart nobody calls."""
        from actors.dependencies import ray_dependencies
        from mirror_ray.coordinator.service import CoordinatorService

        self._actor = CoordinatorService(name, ray_dependencies(name, audit_logs_of("coordinator"), this_node()))
        self._beginning = asyncio.create_task(self._actor.begin())

    async def _ready(self) -> None:
        """Wait until an earlier coordinator's work goes on: before that this one would say that no flow runs."""
        if not self._beginning.done():
            await asyncio.wait([self._beginning], timeout=_BEGIN_S)
