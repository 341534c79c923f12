"""Carries out faults: kills and freezes the processes that the schedule names."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Self

import psutil

from mirror_ray.lab.chaos.schedule import REPLICATORS, Fault, Victim
from mirror_ray.lab.devcluster import Broker, DevCluster
from mirror_ray.observe.status import SystemStatus


class Victims:
    """The processes of a run. A context manager: leaving it resumes whatever is frozen."""

    def __init__(self, clusters: Mapping[str, DevCluster]) -> None:
        """The brokers are known; ``refresh`` adds replicators and coordinator."""
        self._brokers: dict[Victim, Broker] = {
            "broker A": clusters["A"].brokers[0],
            "broker B": clusters["B"].brokers[0],
        }
        self._actors: dict[Victim, psutil.Process] = {}
        #: By the number of a fault in progress: an actor may be replaced meanwhile, and the first one is to be resumed.
        self._begun: dict[int, Broker | psutil.Process] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for victim in (*self._begun.values(), *self._brokers.values()):
            with suppress(psutil.NoSuchProcess):
                victim.resume()

    def refresh(self, status: SystemStatus) -> list[str]:
        """Note which actors' processes run now; returns what is wrong: one is missing or has just ended."""
        pids = dict(zip(REPLICATORS, (replicator.pid for replicator in status.replicators), strict=False))
        pids["coordinator"] = status.coordinator_pid
        try:
            self._actors = {victim: psutil.Process(pid) for victim, pid in pids.items()}
        except psutil.NoSuchProcess as error:
            return [str(error)]
        return [f"{victim} does not run" for victim in REPLICATORS if victim not in pids]

    def begin(self, fault: Fault) -> bool:
        """Kill or freeze the victim; returns whether it still ran."""
        victim = self._begun[fault.number] = self._brokers.get(fault.victim) or self._actors[fault.victim]
        try:
            (victim.kill if fault.action == "kill" else victim.suspend)()
        except psutil.NoSuchProcess:
            return False
        return True

    def end(self, fault: Fault) -> None:
        """Resume the frozen process, unless it has ended meanwhile, or start the killed broker."""
        victim = self._begun.pop(fault.number)
        with suppress(psutil.NoSuchProcess):
            (victim.launch if isinstance(victim, Broker) and fault.action == "kill" else victim.resume)()

    def wait_for_brokers(self) -> None:
        """Wait until all brokers serve. Raises MirrorError if one does not: the run itself is at fault."""
        for broker in self._brokers.values():
            broker.wait_started()
