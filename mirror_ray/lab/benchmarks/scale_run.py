"""What a coordinator of many partitions does, and what it costs: its process, phase by phase."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import pickle
import pstats
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import psutil

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.lab.benchmarks.scale_ports import SYSTEM, ScaleWorld
from mirror_ray.lab.benchmarks.scale_stubs import Caller
from mirror_ray.model.names import FlowName
from mirror_ray.observe.exposition import exposition
from mirror_ray.observe.system_snapshot import SystemSnapshot
from mirror_ray.web.event_stream import frame
from mirror_ray.web.jsonable import dumps
from mirror_ray.web.snapshot_cache import CachedSnapshot

_WATCH_S: Final = 0.02
_CHECK_S: Final = 0.5
_PATIENCE_S: Final = 900.0
#: Series of partitions that a scrape has by default.
_SERIES: Final = 2_000
_SHOWN: Final = 25
#: For so long it is measured what runs all the time.
_REST_S: Final = 15.0


@dataclass(slots=True)
class PhaseCost:
    """Seconds of a phase, processor seconds of the coordinator's process, and the longest turn of its event loop."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    turn_s: float = 0.0


@dataclass(slots=True)
class ScaleResult:
    """What one size has cost."""

    phases: dict[str, PhaseCost] = field(default_factory=dict)
    #: Other figures: bytes, and processor seconds of one call.
    figures: dict[str, float] = field(default_factory=dict)


class _LoopWatch:
    """How much processor time passes between two turns of the event loop: it is the same on a machine that is busy."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            turn_s = time.thread_time()
            await asyncio.sleep(_WATCH_S)
            self.longest_s = max(self.longest_s, time.thread_time() - turn_s)


class ScaleRun:
    """A coordinator between stubs."""

    def __init__(self, world: ScaleWorld, profiled: str) -> None:
        """``profiled``: the phase whose most expensive functions are printed."""
        self.world, self.result = world, ScaleResult()
        self.service = CoordinatorService(SYSTEM, world.dependencies())
        self._fleet, self._clusters = Caller(world.fleet_path), Caller(world.clusters_path)
        self._watch, self._profiled = _LoopWatch(), profiled
        self._partitions = world.shape.partitions

    @asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[None]:
        """Measure what is done within."""
        await asyncio.sleep(_WATCH_S)
        self._watch.longest_s = 0.0
        began_s, cpu_s = time.monotonic(), time.process_time()
        with _profile() if name == self._profiled else nullcontext():
            yield
        await asyncio.sleep(0)
        cost = PhaseCost(time.monotonic() - began_s, time.process_time() - cpu_s, self._watch.longest_s)
        self.result.phases[name] = cost

    def once(self, name: str, act: Callable[[], Any]) -> Any:
        """Processor seconds of one call."""
        cpu_s = time.process_time()
        answer = act()
        self.result.figures[f"{name}, s"] = time.process_time() - cpu_s
        return answer

    async def until_copied(self, partitions: int) -> None:
        """Wait until so many partitions are copied, by replicators that are there."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while not self._are_copied(partitions):
            if time.monotonic() > deadline_s:
                raise SystemExit(await self._why_not(partitions))
            await asyncio.sleep(_CHECK_S)

    async def _why_not(self, partitions: int) -> str:
        events = "\n".join(str(event) for event in await self.service.events(_SHOWN))
        owners = len(self.service.parts.assigner.owners)
        return f"{owners:,} of {partitions:,} partitions were copied after {_PATIENCE_S:g} s:\n{events}"

    def _are_copied(self, partitions: int) -> bool:
        parts = self.service.parts
        owners, reports = parts.assigner.owners, parts.observed.reports
        if len(owners) != partitions:
            return False
        alive = {process.id for process in parts.pool.processes.values() if process.state == "running"}
        return all(
            owner.replicator in alive and partition in reports and reports[partition].epoch == owner.epoch
            for partition, owner in owners.items()
        )

    async def all_phases(self) -> None:
        """From a first start to a node that is lost."""
        before = psutil.Process().memory_info().rss
        async with self.phase("start"):
            await self.service.apply(self.world.settings(), replicators=self.world.shape.replicators)
            await self.until_copied(self._partitions)
        gc.collect()
        self.result.figures["memory, bytes"] = psutil.Process().memory_info().rss - before
        await asyncio.sleep(5)
        await self._at_rest()
        await self._one_topic_more()
        await self._changes()
        await self._lost_node()
        self._shown()
        self.result.figures["memory in the end, bytes"] = psutil.Process().memory_info().rss - before

    async def _at_rest(self) -> None:
        async with self.phase("at rest"):
            await asyncio.sleep(_REST_S)

        async def look() -> None:
            while True:
                pickle.dumps(await self.service.snapshot())
                await asyncio.sleep(1.0)

        async with self.phase("watched"):
            looking = asyncio.create_task(look())
            await asyncio.sleep(_REST_S)
            looking.cancel()

    async def _one_topic_more(self) -> None:
        shape = self.world.shape
        async with self.phase("a new topic"):
            await self._clusters.call("create", "A", {shape.topic(shape.topics): shape.each})
            self._partitions += shape.each * (shape.clusters - 1)
            await self.until_copied(self._partitions)

    async def _changes(self) -> None:
        shape, settings = self.world.shape, self.world.settings()
        quicker = {"groups": {"emit_checkpoints_interval_s": 3.0}}
        async with self.phase("a setting of every flow"):
            settings = _changed(settings, dict.fromkeys(shape.flows, quicker))
            await self.service.apply(settings)
        without = {"topics": {"include": ("topic-.*",), "exclude": (shape.topic(shape.topics),)}}
        async with self.phase("a topic excluded from one flow"):
            await self.service.apply(_changed(settings, {shape.flows[0]: without}))
            self._partitions -= shape.each
            await self.until_copied(self._partitions)

    async def _lost_node(self) -> None:
        async with self.phase("a tenth of the replicators lost"):
            await self._fleet.call("lose", max(1, self.world.shape.replicators // 10))
            await asyncio.sleep(2 * _CHECK_S)
            await self.until_copied(self._partitions)

    def _shown(self) -> None:
        figures = self.result.figures
        snapshot: SystemSnapshot = self.once("snapshot", self.service._take_snapshot)  # noqa: SLF001 - the one that is kept for a second is not meant
        blob = self.once("snapshot pickled", lambda: pickle.dumps(snapshot))
        figures["snapshot pickled, bytes"] = len(blob)
        self.once("snapshot unpickled", lambda: pickle.loads(blob))  # noqa: S301 - our own
        for title, most in (("scrape", _SERIES), ("scrape with every partition", 10 * self._partitions)):
            scrape = partial(exposition, snapshot, version="", up=True, age_s=0.0, most_partitions=most)
            text = self.once(title, scrape)
            figures[f"{title}, bytes"] = len(text)
        text, _ = self.once("page", lambda: frame(CachedSnapshot(snapshot, 0.0, True), 0))
        figures["page, bytes"] = len(text)
        figures["status, bytes"] = len(self.once("status", lambda: dumps(snapshot.system)))

    async def restarted(self) -> None:
        """Go on with what a coordinator that was killed has left."""
        async with self.phase("restart"):
            await self.service.begin()
            await self.until_copied(await self._fleet.call("held"))


@contextmanager
def _profile() -> Iterator[None]:
    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(_SHOWN)
        pstats.Stats(profile).sort_stats("cumtime").print_stats(2 * _SHOWN)


def _changed(settings: MirrorSettings, changes: dict[FlowName, dict[str, Any]]) -> MirrorSettings:
    flows = [
        type(flow).model_validate({**flow.model_dump(exclude_unset=True), **changes.get(flow.name, {})})
        for flow in settings.flows
    ]
    return MirrorSettings.model_validate({**settings.model_dump(exclude_unset=True), "flows": tuple(flows)})


def run_phases(parent: Any, world: ScaleWorld, profiled: str) -> None:
    """All phases but the restart, in this process; the parent gets the result."""
    _run(parent, world, profiled, ScaleRun.all_phases)


def run_restart(parent: Any, world: ScaleWorld, profiled: str) -> None:
    """The restart, in this process."""
    _run(parent, world, profiled, ScaleRun.restarted)


def _run(parent: Any, world: ScaleWorld, profiled: str, act: Callable[[ScaleRun], Awaitable[None]]) -> None:
    async def run() -> ScaleResult:
        made = ScaleRun(world, profiled)
        await act(made)
        return made.result

    parent.send(asyncio.run(run()))
