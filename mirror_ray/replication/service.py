"""The replicator actor around ``ReplicationEngine``. Records leave its process to Kafka alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.names import FlowPartition
from mirror_ray.model.quota import QuotaShare
from mirror_ray.model.replicator_health import ReplicatorHealth
from mirror_ray.replication.unreported_events import UnreportedEvents


class Engine(Protocol):
    """What the shell needs of ``mirror_ray.replication.engine.ReplicationEngine``."""

    async def start(self) -> None: ...  # noqa: D102
    async def configure(self, settings: MirrorSettings) -> None: ...  # noqa: D102
    def assign(self, assignments: Sequence[Assignment]) -> None: ...  # noqa: D102
    def allow(self, allowances: Sequence[QuotaShare]) -> None: ...  # noqa: D102
    async def release(  # noqa: D102
        self, partitions: Sequence[FlowPartition], deadline_s: float
    ) -> list[PartitionReport]: ...
    def report(self, full: bool = False) -> ReplicatorReport: ...  # noqa: D102
    async def stop(self, deadline_s: float) -> None: ...  # noqa: D102


#: (settings, replicator id, node) to an engine; called on the actor's event loop.
EngineFactory = Callable[[MirrorSettings, str, str], Engine]


class ReplicatorService:
    """Copies what the coordinator assigns, and goes on when the coordinator is gone."""

    def __init__(
        self,
        settings: MirrorSettings,
        fingerprint: str,
        replicator: str,
        *,
        engine: EngineFactory,
        node: str,
        node_id: str,
    ) -> None:
        """``fingerprint``: of the settings; ``node`` is shown, ``node_id`` is Ray's."""
        self._settings = settings
        self._fingerprint = fingerprint
        self._id = replicator
        self._make_engine = engine
        self._node, self._node_id = node, node_id
        self._engine: Engine | None = None
        self._starting = asyncio.Lock()
        self._configuring = asyncio.Lock()
        self._epochs: dict[FlowPartition, int] = {}
        self._unreported = UnreportedEvents()

    def __repr__(self) -> str:
        """Its id, for Ray's log lines; never the settings."""
        return f"Replicator({self._id})"

    async def health(self) -> ReplicatorHealth:
        """Who this is; answers once it is ready for assignments."""
        await self._started()
        return ReplicatorHealth(fingerprint=self._fingerprint, node_id=self._node_id, pid=os.getpid())

    async def configure(self, settings: MirrorSettings, fingerprint: str) -> None:
        """Work by these settings; flows that they don't change never stop. Idempotent."""
        engine = await self._started()
        async with self._configuring:
            if fingerprint != self._fingerprint:
                await engine.configure(settings)
                self._settings, self._fingerprint = settings, fingerprint

    async def exchange(
        self,
        assignments: Sequence[Assignment],
        full: bool = False,
        allowances: Sequence[QuotaShare] = (),
        events_taken: int = 0,
    ) -> ReplicatorReport:
        """Take assignments and limits, and report; an assignment that was heard before changes nothing.

        ``events_taken``: ``events_end`` of the last report that arrived; later events are reported again.
        """
        engine = await self._started()
        engine.allow(allowances)
        fresh = [given for given in assignments if given.epoch > self._epochs.get(given.partition, 0)]
        if fresh:
            engine.assign(fresh)
            self._epochs |= {given.partition: given.epoch for given in fresh}
        return self._unreported.into(engine.report(full), events_taken)

    async def release(self, partitions: Sequence[FlowPartition], deadline_s: float) -> tuple[PartitionReport, ...]:
        """Drain and let go; what is not held is left out."""
        return tuple(await (await self._started()).release(partitions, deadline_s))

    async def stop(self, deadline_s: float) -> None:
        """Drain everything and close every connection."""
        await (await self._started()).stop(deadline_s)

    async def _started(self) -> Engine:
        async with self._starting:
            if self._engine is None:
                engine = self._make_engine(self._settings, self._id, self._node)
                await engine.start()
                self._engine = engine
            return self._engine
