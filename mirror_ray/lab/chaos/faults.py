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
        self._frozen: dict[int, psutil.Process] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._frozen.values():
            with suppress(psutil.NoSuchProcess):
                process.resume()
        for broker in self._brokers.values():
            broker.resume()

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
        broker = self._brokers.get(fault.victim)
        if broker is not None:
            (broker.kill if fault.action == "kill" else broker.suspend)()
            return True
        process = self._actors[fault.victim]
        try:
            if fault.action == "kill":
                process.kill()
            else:
                process.suspend()
                self._frozen[fault.number] = process
        except psutil.NoSuchProcess:
            return False
        return True

    def end(self, fault: Fault) -> None:
        """Resume the frozen process, unless it has ended meanwhile, or start the killed broker."""
        broker = self._brokers.get(fault.victim)
        if broker is not None:
            (broker.launch if fault.action == "kill" else broker.resume)()
            return
        with suppress(psutil.NoSuchProcess):
            self._frozen.pop(fault.number).resume()

    def wait_for_brokers(self) -> None:
        """Wait until all brokers serve.

        Raises:
            MirrorError: One ended, or does not serve within a minute: the run itself is at fault.
        """
        for broker in self._brokers.values():
            broker.wait_started()
