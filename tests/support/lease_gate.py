"""Keeps an engine from reading its flow's state topic."""

from __future__ import annotations

from mirror_ray.kafka.connection import Connection
from tests.support.engine import Engine


class LeaseGate:
    """Lets no connection for leases through while it is shut."""

    def __init__(self, engine: Engine) -> None:
        (copier,) = engine.core._flows.values()
        self._cluster = copier._target
        self._connect = self._cluster.connect
        self._shut = False
        vars(self._cluster)["connect"] = self._pass

    async def _pass(self, broker_id: int, purpose: str, **options: int) -> Connection:
        if self._shut and purpose == "lease":
            raise ConnectionError("shut by the test")
        return await self._connect(broker_id, purpose, **options)

    def shut(self) -> None:
        """What is open is reset."""
        self._shut = True
        for (_, purpose), opening in self._cluster._connections.items():
            if purpose == "lease":
                opening.result().abort("shut by the test")

    def open(self) -> None:
        """Let it through again."""
        self._shut = False
