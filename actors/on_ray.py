"""The actors as Ray runs them: the plain classes with Ray and Kafka plugged in. Their names are what ``ps`` shows."""

from __future__ import annotations

import asyncio

import ray

import actors.coordinator
import actors.replicator
from actors.checkpoint_handles import RayCheckpoint
from actors.flow_port import KafkaFlowPort
from actors.handles import RayHeartbeat, RayMemory, RaySpawner
from mirror_ray.config.settings import MirrorSettings


class Coordinator(actors.coordinator.Coordinator):
    """The coordinator of a real system."""

    async def __init__(self, name: str) -> None:  # type: ignore[misc]  # Ray awaits it on the actor's event loop
        """Begin at once: after a restart nobody calls."""
        outside = actors.coordinator.Outside(
            spawner=RaySpawner(name),
            flow_port=KafkaFlowPort,
            heartbeat=lambda settings: RayHeartbeat(name, settings),
            checkpoint=lambda settings: RayCheckpoint(name, settings),
            memory=RayMemory(name),
            node=_node(),
        )
        super().__init__(name, outside)
        self._beginning = asyncio.create_task(self.begin())


class Replicator(actors.replicator.Replicator):
    """A replicator with the real engine."""

    def __init__(self, settings: MirrorSettings, fingerprint: str, replicator: str) -> None:
        """See ``actors.replicator.Replicator``."""
        from mirror_ray.copying.engine import CopyEngine

        super().__init__(
            settings,
            fingerprint,
            replicator,
            engine=CopyEngine,
            node=_node(),
            node_id=ray.get_runtime_context().get_node_id(),
        )


def _node() -> str:
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
