"""Replicator actors: a client of each, and what creates and finds them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import psutil
import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors import spawn
from actors.calls import call, named_actors
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import ReplicatorGoneError, ReplicatorLostError, ReplicatorPort, ReplicatorSilentError
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.names import FlowPartition
from mirror_ray.model.quota import QuotaShare
from mirror_ray.model.replicator_health import ReplicatorHealth
from mirror_ray.state.actor_names import replicator_number

#: Longer than SIGKILL takes, and than a node that is busy needs to begin a task.
_CONFIRM_S = 30.0
_RELEASE_GRACE_S = 5.0


class RayReplicator:
    """A replicator actor as a ``ReplicatorPort``."""

    def __init__(self, handle: ActorHandle[Any]) -> None:
        """``handle``: of an actor that may still be starting."""
        self._handle = handle
        self._health: ReplicatorHealth | None = None

    async def health(self) -> ReplicatorHealth:
        """How the process is; answers once it is ready for assignments."""
        health: ReplicatorHealth = await self._call(self._handle.health.remote())
        self._health = health
        return health

    async def configure(self, settings: MirrorSettings, fingerprint: str) -> None:
        """Work by these settings from now on."""
        await self._call(self._handle.configure.remote(settings, fingerprint))

    async def exchange(
        self, assignments: Sequence[Assignment], *, full: bool, allowances: Sequence[QuotaShare], events_taken: int
    ) -> ReplicatorReport:
        """Hand over assignments and quota shares, and take the report."""
        report: ReplicatorReport = await self._call(
            self._handle.exchange.remote(assignments, full, allowances, events_taken)
        )
        return report

    async def release(self, partitions: Sequence[FlowPartition], deadline_s: float) -> Sequence[PartitionReport]:
        """Drain and release partitions; an answer is waited for a little longer than the drain may take."""
        answer = self._call(self._handle.release.remote(partitions, deadline_s))
        try:
            reports: Sequence[PartitionReport] = await asyncio.wait_for(answer, deadline_s + _RELEASE_GRACE_S)
        except TimeoutError:
            raise ReplicatorSilentError("did not answer a release in time") from None
        return reports

    async def stop(self, deadline_s: float) -> None:
        """Drain everything."""
        await self._call(self._handle.stop.remote(deadline_s))

    async def kill(self) -> None:
        """End the process without asking it."""
        await asyncio.to_thread(ray.kill, self._handle, no_restart=True)

    async def seen_dead(self) -> bool:
        """Kill the process; whether it was seen dead.

        Ray calls an actor dead once it has been told to die; a stopped process may still be there, with requests in
        its kernel's buffers. So this looks at the process itself, on its own node.
        """
        await self.kill()
        health = self._health
        if health is None:
            # It never was ready for an assignment.
            return True
        if health.node_id == ray.get_runtime_context().get_node_id():
            return await asyncio.to_thread(end_process, health.pid)
        there = NodeAffinitySchedulingStrategy(health.node_id, soft=False)
        task = ray.remote(num_cpus=0, max_retries=0)(end_process).options(scheduling_strategy=there)
        try:
            return bool(await asyncio.wait_for(task.remote(health.pid), _CONFIRM_S))
        except (RayError, TimeoutError):
            return False

    async def _call(self, ref: Any) -> Any:
        """``call``; Ray knows of an actor's end from its node, so with the node lost nobody has seen it."""
        try:
            return await call(ref)
        except ReplicatorGoneError as gone:
            if self._health is not None and not await asyncio.to_thread(_node_lives, self._health.node_id):
                raise ReplicatorLostError(f"its node is lost: {gone}") from gone
            raise


def end_process(pid: int) -> bool:
    """Kill a replicator's process on this node, if it still is one; whether it is gone."""
    try:
        process = psutil.Process(pid)
        if "ray::Replicator" not in " ".join(process.cmdline()):
            return True
        os.kill(pid, signal.SIGKILL)
        process.wait(timeout=_CONFIRM_S)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def _node_lives(node_id: str) -> bool:
    return any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())  # type: ignore[no-untyped-call]


class RayReplicators:
    """Creates and finds the replicators of one system."""

    def __init__(self, name: str) -> None:
        """``name``: the system's."""
        self._name = name

    async def spawn(self, number: int, settings: MirrorSettings, fingerprint: str) -> ReplicatorPort:
        """Create replicator ``number``, or find it; it may not be up yet."""
        return RayReplicator(await asyncio.to_thread(spawn.spawn_replicator, self._name, number, settings, fingerprint))

    async def living(self) -> Mapping[int, ReplicatorPort]:
        """Replicators of this system that exist already, by number."""
        found = await asyncio.to_thread(named_actors, partial(replicator_number, self._name))
        return {number: RayReplicator(handle) for number, handle in found.items()}
