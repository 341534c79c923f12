"""Ray behind the ports: the only code that holds actor handles and knows Ray's errors."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import psutil
import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors import spawn
from mirror_ray.attach import first_line
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import ReplicatorGoneError, ReplicatorLostError, ReplicatorPort, ReplicatorSilentError
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowPartition
from mirror_ray.model.quota import QuotaShare
from mirror_ray.model.replicator_health import ReplicatorHealth
from mirror_ray.state.actor_names import NAMESPACE, coordinator_name, heartbeat_name, replicator_number

_LOOK_S = 0.05
#: Longer than SIGKILL takes, and than a node that is busy needs to begin a task.
_CONFIRM_S = 30.0


async def call(ref: Any) -> Any:
    """Await a call of an actor; Ray's errors become ours.

    Raises:
        ReplicatorGoneError: The process is dead for sure. ReplicatorSilentError: It can't be reached just now.
        MirrorError: The method raised.
    """
    try:
        return await ref
    except ActorDiedError as error:
        raise ReplicatorGoneError(first_line(error)) from error
    except ActorUnavailableError as error:
        raise ReplicatorSilentError(first_line(error)) from error
    except RayActorError as error:
        raise ReplicatorGoneError(first_line(error)) from error
    except RayTaskError as error:
        cause = error.cause
        raise cause if isinstance(cause, MirrorError) else MirrorError(f"{type(cause).__name__}: {cause}") from error
    except RayError as error:
        raise ReplicatorSilentError(first_line(error)) from error


class RayReplicator:
    """A replicator actor as a ``ReplicatorPort``."""

    def __init__(self, handle: ActorHandle[Any]) -> None:
        """``handle``: of an actor that may not be up yet."""
        self._handle = handle
        self._health: ReplicatorHealth | None = None

    async def health(self) -> ReplicatorHealth:
        """See ``ReplicatorPort``."""
        health: ReplicatorHealth = await self._call(self._handle.health.remote())
        self._health = health
        return health

    async def configure(self, settings: MirrorSettings, fingerprint: str) -> None:
        """See ``ReplicatorPort``."""
        await self._call(self._handle.configure.remote(settings, fingerprint))

    async def exchange(
        self, assignments: Sequence[Assignment], *, full: bool, allowances: Sequence[QuotaShare], events_heard: int
    ) -> ReplicatorReport:
        """See ``ReplicatorPort``."""
        report: ReplicatorReport = await self._call(
            self._handle.exchange.remote(assignments, full, allowances, events_heard)
        )
        return report

    async def release(self, partitions: Sequence[FlowPartition], deadline_s: float) -> Sequence[PartitionReport]:
        """See ``ReplicatorPort``. Silence is waited for only a little longer than the drain may take."""
        answer = self._call(self._handle.release.remote(partitions, deadline_s))
        try:
            reports: Sequence[PartitionReport] = await asyncio.wait_for(answer, deadline_s + 5)
        except TimeoutError:
            raise ReplicatorSilentError("did not answer a release in time") from None
        return reports

    async def stop(self, deadline_s: float) -> None:
        """See ``ReplicatorPort``."""
        await self._call(self._handle.stop.remote(deadline_s))

    async def kill(self) -> None:
        """See ``ReplicatorPort``."""
        await asyncio.to_thread(ray.kill, self._handle, no_restart=True)

    async def seen_dead(self) -> bool:
        """See ``ReplicatorPort``.

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


class RaySpawner:
    """Makes and finds the replicators of one system."""

    def __init__(self, name: str) -> None:
        """``name``: the system's."""
        self._name = name

    async def spawn(self, number: int, settings: MirrorSettings, fingerprint: str) -> ReplicatorPort:
        """See ``SpawnPort``."""
        handle = await asyncio.to_thread(spawn.spawn_replicator, self._name, number, settings, fingerprint)
        return RayReplicator(handle)

    async def living(self) -> Mapping[int, ReplicatorPort]:
        """See ``SpawnPort``."""
        return await asyncio.to_thread(self._living)

    def _living(self) -> dict[int, ReplicatorPort]:
        found: dict[int, ReplicatorPort] = {}
        for actor in ray.util.list_named_actors(all_namespaces=True):
            number = replicator_number(self._name, str(actor["name"])) if actor["namespace"] == NAMESPACE else None
            if number is not None:
                try:
                    found[number] = RayReplicator(ray.get_actor(str(actor["name"]), namespace=NAMESPACE))
                except ValueError:  # died meanwhile
                    continue
        return found


class RayHeartbeat:
    """The heartbeat actor, brought up when it is first asked, and again when it has died."""

    def __init__(self, name: str, settings: MirrorSettings) -> None:
        """``name``: the system's."""
        self._name = name
        self._settings = settings
        self._handle: ActorHandle[Any] | None = None

    async def ages_s(self) -> Mapping[str, float | None]:
        """See ``HeartbeatPort``."""
        try:
            if self._handle is None:
                self._handle = await asyncio.to_thread(spawn.spawn_heartbeat, self._name, self._settings)
                await call(self._handle.configure.remote(self._settings))
            ages: Mapping[str, float | None] = await call(self._handle.ages_s.remote())
        except ReplicatorGoneError:
            self._handle = None
            raise
        return ages

    async def stop(self) -> None:
        """See ``HeartbeatPort``."""
        try:
            handle: ActorHandle[Any] = await asyncio.to_thread(
                ray.get_actor, heartbeat_name(self._name), namespace=NAMESPACE
            )
            await asyncio.wait_for(call(handle.stop.remote()), 5.0)
            await asyncio.to_thread(ray.kill, handle)
        except (ValueError, TimeoutError, MirrorError):
            return


class RayMemory:
    """Keeps a system's settings in Ray's own key-value store, which lives as long as the head does.

    Ray keeps the arguments of its actors there too, so nothing is in it that would not be anyway.
    """

    def __init__(self, name: str) -> None:
        """``name``: the system's."""
        self._key = coordinator_name(name).encode()

    async def load(self) -> bytes | None:
        """See ``MemoryPort``."""
        from ray.experimental import internal_kv

        found: bytes | None = await asyncio.to_thread(
            internal_kv._internal_kv_get,  # noqa: SLF001 - Ray has no public one
            self._key,
            namespace=NAMESPACE.encode(),
        )
        return found

    async def save(self, blob: bytes | None) -> None:
        """See ``MemoryPort``."""
        from ray.experimental import internal_kv

        space = NAMESPACE.encode()
        if blob is None:
            await asyncio.to_thread(internal_kv._internal_kv_del, self._key, namespace=space)  # noqa: SLF001
        else:
            await asyncio.to_thread(internal_kv._internal_kv_put, self._key, blob, overwrite=True, namespace=space)  # noqa: SLF001
