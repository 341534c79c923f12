"""The replicators of a system: how many there are, which of them can take partitions, which drain."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Collection, Mapping, Sequence

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import ReplicatorGoneError, ReplicatorPort
from mirror_ray.coordinator.replicator_process import ReplicatorContext, ReplicatorProcess
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowPartition
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.observe.status import ReplicatorStatus
from mirror_ray.state.actor_names import replicator_name

_log = logging.getLogger(__name__)

#: What a replicator gets to end in that holds nothing any more.
_STOP_S = 5.0


class ReplicatorPool:
    """Keeps as many replicators alive as are desired."""

    def __init__(self, system: str, context: ReplicatorContext) -> None:
        """``system``: its name."""
        self.context = context
        #: By number.
        self.processes: dict[int, ReplicatorProcess] = {}
        #: Numbers whose last process is being ended: another one of that name would be taken for it.
        self._ending: dict[int, asyncio.Task[None]] = {}
        self._system = system
        self._timing = context.timing

    async def adopt(self) -> None:
        """Find the replicators that an earlier coordinator left alive. They go on copying meanwhile."""
        for number, port in (await self.context.spawner.living()).items():
            if number not in self.processes:
                self._open(number, port)

    def configure(self, settings: MirrorSettings, fingerprint: str) -> None:
        """The settings that every replicator is to work by."""
        self.context.settings, self.context.fingerprint = settings, fingerprint
        for process in self.processes.values():
            process.wake.set()

    @property
    def desired(self) -> int:
        """How many replicators there should be."""
        return len(self._wanted())

    def _wanted(self) -> list[ReplicatorProcess]:
        return [process for process in self.processes.values() if process.wanted]

    def scale(self, desired: int) -> None:
        """Bring up what is missing, drain what is too many: those that are not up first, then the highest numbers."""
        missing = desired - self.desired
        by_number = sorted(self.processes.values(), key=lambda process: process.number)
        alive = [process for process in by_number if not process.wanted and process.state not in ("draining", "dead")]
        coming_back = [process for process in by_number if process.state == "draining" and not process.leaving]
        for process in [*alive, *coming_back][: max(0, missing)]:
            process.wanted = True
            if process.state == "draining":
                process.state = "running"
        while self.desired < desired:
            self._open_another()
        while self.desired > desired:
            max(self._wanted(), key=lambda process: (process.state == "starting", process.number)).drain()
        for process in self.processes.values():
            if not process.wanted:
                process.drain()

    def leave(self, nodes: Collection[str]) -> list[str]:
        """Drain the replicators on nodes that are going away, and start another for each; their ids."""
        leaving = [process for process in self._wanted() if process.node_id in nodes]
        for process in leaving:
            process.leaving = True
            process.drain()
            self._open_another()
        return [process.id for process in leaving]

    def unplaced(self) -> int:
        """How many did not come up in time, and have not since."""
        return sum(process.state == "starting" and process.problem is not None for process in self._wanted())

    def working(self) -> list[tuple[float, ReplicatorReport]]:
        """The newest report of each replicator that is wanted and runs, with when it came."""
        running = [process for process in self._wanted() if process.state == "running"]
        return [(process.answered_s, process.report) for process in running if process.report is not None]

    @property
    def schema_needs(self) -> frozenset[SchemaNeed]:
        """What partitions wait for, where flows translate schema ids."""
        return frozenset(need for _, report in self.working() for need in report.schema_needs)

    def candidates(self) -> list[str]:
        """Ids of the replicators that can be given partitions."""
        return [
            process.id
            for process in self.processes.values()
            if process.state == "running" and process.known and process.fingerprint == self.context.fingerprint
        ]

    def expected(self) -> list[str]:
        """Candidates, and those that are about to come up for the first time: so that not all goes to the fastest."""
        soon_s = self.context.clock() - self._timing.start_grace_s
        coming = [
            process.id
            for process in self.processes.values()
            if process.state in ("starting", "running") and not process.came_up and process.opened_s > soon_s
        ]
        return sorted({*self.candidates(), *coming})

    def silent(self) -> set[str]:
        """Ids of those that live, keep what they have, and can't be given or asked for anything at the moment."""
        candidates = set(self.candidates())
        return {
            process.id
            for process in self.processes.values()
            if process.state in ("running", "unresponsive") and process.port and process.id not in candidates
        }

    def overdue(self) -> list[str]:
        """Ids of those that have been silent for so long that others are to have their partitions."""
        limit_s = self._timing.silent_s
        return [process.id for process in self.processes.values() if process.silent_s > limit_s]

    def adopting(self) -> bool:
        """Whether some process from before has not said yet what it holds.

        One that keeps us waiting for too long is no reason for the others' partitions to stand still: what it has is
        handed out when its lease has run out.
        """
        since_s = self.context.clock() - self._timing.unresponsive_s
        return any(process.adopted and process.opened_s > since_s for process in self.processes.values())

    def draining(self) -> list[str]:
        """Ids of those that drain, and whose reports name all that they hold."""
        return [process.id for process in self.processes.values() if process.state == "draining" and process.known]

    def _find(self, replicator: str) -> ReplicatorProcess | None:
        return next((process for process in self.processes.values() if process.id == replicator), None)

    def hand_over(self, replicator: str, assignments: Sequence[Assignment]) -> None:
        """Send assignments with the next exchange, which is at once."""
        process = self._find(replicator)
        if process is not None:
            process.outbox += assignments
            process.wake.set()

    async def release(self, replicator: str, partitions: Sequence[FlowPartition]) -> Sequence[PartitionReport]:
        """Drain partitions.

        Raises:
            ReplicatorGoneError: It is dead. ReplicatorSilentError: It may still hold them.
        """
        process = self._find(replicator)
        if process is None or process.port is None:
            raise ReplicatorGoneError(f"{replicator} is not running")
        released = set(partitions)
        process.outbox = [assignment for assignment in process.outbox if assignment.partition not in released]
        return await process.port.release(partitions, self._timing.drain_s)

    def retire(self, replicator: str) -> None:
        """End a draining replicator that holds nothing any more."""
        process = self._find(replicator)
        if process is None:
            return
        self._close(process)
        self.context.emit("info", process.id, "drained and stopped")
        if process.port is not None:
            self._ending[process.number] = ending = asyncio.create_task(_end(process.port, _STOP_S))
            ending.add_done_callback(lambda _: self._ending.pop(process.number))

    async def shut_down(self, deadline_s: float) -> None:
        """Stop every replicator, draining whatever it still holds."""
        processes = list(self.processes.values())
        for process in processes:
            self._close(process)
        ports = [process.port for process in processes if process.port is not None]
        await asyncio.gather(*(_end(port, deadline_s) for port in ports))

    def statuses(self) -> tuple[ReplicatorStatus, ...]:
        """Every replicator, by number."""
        return tuple(self.processes[number].status() for number in sorted(self.processes))

    def missing(self) -> Mapping[str, str]:
        """Why replicators are missing or can't be asked, by replicator."""
        concerned = [process for process in self.processes.values() if process.wanted or process.failing]
        return {process.id: process.problem for process in concerned if process.problem}

    def _open_another(self) -> None:
        taken = self.processes.keys() | self._ending.keys()
        self._open(next(number for number in itertools.count(1) if number not in taken), None).wanted = True

    def _open(self, number: int, port: ReplicatorPort | None) -> ReplicatorProcess:
        process = ReplicatorProcess(
            number=number,
            id=replicator_name(self._system, number),
            context=self.context,
            port=port,
            adopted=port is not None,
            opened_s=self.context.clock(),
        )
        self.processes[number] = process
        process.task = asyncio.create_task(self._run(process))
        return process

    async def _run(self, process: ReplicatorProcess) -> None:
        await process.run()
        if self.processes.get(process.number) is process:
            del self.processes[process.number]

    def _close(self, process: ReplicatorProcess) -> None:
        process.wanted = False
        self.processes.pop(process.number, None)
        if process.task is not None:
            process.task.cancel()


async def _end(port: ReplicatorPort, deadline_s: float) -> None:
    try:
        await asyncio.wait_for(port.stop(deadline_s), deadline_s)
    except (MirrorError, TimeoutError) as error:
        _log.warning("replicator did not stop by itself: %s", str(error) or "no answer")
    await port.kill()
