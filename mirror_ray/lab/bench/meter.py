"""What processes use while something is measured: CPU seconds, and memory at its peak."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, Literal, Self, TypeVar

import psutil

from mirror_ray.lab.background import BackgroundThread
from mirror_ray.lab.bench.contender_process import ContenderProcess, Owner
from mirror_ray.lab.devcluster import DevCluster

_EVERY_S: Final = 0.1
#: Finding new processes costs more than asking known ones.
_FIND_EVERY: Final = 10


BrokerOwner = Literal["source", "target"]
AnyOwner = TypeVar("AnyOwner", bound=str)


@dataclass(slots=True)
class Usage:
    """What the processes of one owner used."""

    cpu_s: float = 0.0
    #: All of them together, and the largest one.
    peak_memory_bytes: int = 0
    peak_process_bytes: int = 0


@dataclass(slots=True)
class _ProcessCpu(Generic[AnyOwner]):
    owner: AnyOwner
    before_s: float
    now_s: float


class Meter(BackgroundThread, Generic[AnyOwner]):
    """Measures from entering its context to leaving it, including processes that begin or end meanwhile."""

    def __init__(
        self,
        processes: Callable[[], Mapping[AnyOwner, Sequence[psutil.Process]]],
        owners: Sequence[AnyOwner],
        *,
        find_every: int = _FIND_EVERY,
    ) -> None:
        """``processes`` finds the running ones of each of the ``owners``, anew after every ``find_every`` samples."""
        super().__init__("meter")
        #: By owner; complete when the context has ended.
        self.usage = {owner: Usage() for owner in owners}
        self._processes, self._find_every = processes, find_every
        self._known: list[psutil.Process] = []
        self._cpu: dict[int, _ProcessCpu[AnyOwner]] = {}

    def __enter__(self) -> Self:
        self._find_processes(first=True)
        return super().__enter__()

    def stop(self) -> None:
        """End the measurement."""
        super().stop()
        self._sample()
        for cpu in self._cpu.values():
            self.usage[cpu.owner].cpu_s += cpu.now_s - cpu.before_s

    @property
    def cpu_s(self) -> float:
        """Processor seconds of all owners."""
        return sum(usage.cpu_s for usage in self.usage.values())

    def _run(self) -> None:
        rounds = 0
        while not self._stopping.wait(_EVERY_S):
            rounds += 1
            if rounds % self._find_every == 0:
                self._find_processes(first=False)
            self._sample()

    def _find_processes(self, *, first: bool) -> None:
        self._known = []
        for owner, processes in self._processes().items():
            for process in processes:
                with suppress(psutil.Error):
                    cpu_s = process_cpu_s(process)
                    cpu = self._cpu.setdefault(process.pid, _ProcessCpu(owner, cpu_s if first else 0.0, cpu_s))
                    # A worker of Ray becomes an actor when it is given one.
                    cpu.owner = owner
                    self._known.append(process)

    def _sample(self) -> None:
        memory_bytes = Counter[AnyOwner]()
        for process in self._known:
            with suppress(psutil.Error):
                cpu = self._cpu[process.pid]
                cpu.now_s, process_bytes = process_cpu_s(process), process.memory_info().rss
                usage = self.usage[cpu.owner]
                usage.peak_process_bytes = max(usage.peak_process_bytes, process_bytes)
                memory_bytes[cpu.owner] += process_bytes
        for owner, usage in self.usage.items():
            usage.peak_memory_bytes = max(usage.peak_memory_bytes, memory_bytes[owner])


def contender_meter(system: ContenderProcess) -> Meter[Owner]:
    """Measures a contender's own processes, and those of the Ray that it runs in."""
    return Meter(system.processes, ("own", "ray"))


def brokers_meter(source: DevCluster, target: DevCluster) -> Meter[BrokerOwner]:
    """Measures the brokers of both clusters."""
    clusters: tuple[tuple[BrokerOwner, DevCluster], ...] = (("source", source), ("target", target))

    def processes() -> Mapping[BrokerOwner, Sequence[psutil.Process]]:
        return {
            owner: [psutil.Process(broker.pid) for broker in cluster.brokers if broker.pid is not None]
            for owner, cluster in clusters
        }

    return Meter(processes, ("source", "target"))


def broker_figures(meter: Meter[BrokerOwner], records: int) -> dict[str, float]:
    """What the brokers used meanwhile for each million records."""
    return {f"{owner}_cpu_s_per_million": usage.cpu_s / max(records, 1) * 1e6 for owner, usage in meter.usage.items()}


def copy_figures(meter: Meter[Owner], records: int) -> dict[str, float]:
    """What the contender used to copy so many records."""
    cpu_s = meter.usage["own"].cpu_s
    return {
        "cpu_s": cpu_s,
        "cpu_s_per_million": cpu_s / max(records, 1) * 1e6,
        "ray_cpu_s": meter.usage["ray"].cpu_s,
        **memory_figures(meter),
    }


def memory_figures(meter: Meter[Owner]) -> dict[str, float]:
    """The peaks of the contender's memory."""
    own = meter.usage["own"]
    return {"memory_bytes": own.peak_memory_bytes, "process_bytes": own.peak_process_bytes}


def process_cpu_s(process: psutil.Process) -> float:
    """Processor seconds that a process has used, threads that have ended included.

    A copy takes a core less than a second for a million records: ticks of 10 ms, which psutil counts, are coarse.

    Raises:
        psutil.NoSuchProcess: it has ended.
    """
    if sys.platform != "linux":
        times = process.cpu_times()
        return float(times.user + times.system)
    try:
        # clock_getcpuclockid(3), which Python has for threads only.
        return time.clock_gettime(~process.pid << 3 | 2)
    except OSError as error:
        raise psutil.NoSuchProcess(process.pid) from error
