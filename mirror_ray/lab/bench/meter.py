"""What processes use while something is measured: CPU seconds, and memory at its peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

import psutil

from mirror_ray.lab.background import BackgroundThread
from mirror_ray.lab.bench.contender_process import Owner

_EVERY_S: Final = 0.1
#: Finding new processes costs more than asking known ones.
_FIND_EVERY: Final = 10


@dataclass(slots=True)
class Usage:
    """What the contender's own processes used, and the CPU of Ray's."""

    cpu_s: float = 0.0
    ray_cpu_s: float = 0.0
    #: All of its own processes together.
    peak_memory_bytes: int = 0
    #: The largest one of them.
    peak_process_bytes: int = 0


@dataclass(slots=True)
class _ProcessCpu:
    owner: Owner
    before_s: float
    now_s: float


class Meter(BackgroundThread):
    """Measures from entering its context to leaving it, including processes that begin or end meanwhile."""

    def __init__(self, processes: Callable[[], Mapping[Owner, Sequence[psutil.Process]]]) -> None:
        super().__init__("meter")
        self.usage = Usage()
        self._processes = processes
        self._known: list[psutil.Process] = []
        self._cpu: dict[int, _ProcessCpu] = {}

    def __enter__(self) -> Self:
        self._find_processes(first=True)
        return super().__enter__()

    def stop(self) -> None:
        """End the measurement; ``usage`` is complete then."""
        super().stop()
        self._sample()
        for cpu in self._cpu.values():
            if cpu.owner == "own":
                self.usage.cpu_s += cpu.now_s - cpu.before_s
            else:
                self.usage.ray_cpu_s += cpu.now_s - cpu.before_s

    def copy_figures(self, records: int) -> dict[str, float]:
        """What the contender used to copy so many records."""
        return {
            "cpu_s": self.usage.cpu_s,
            "cpu_s_per_million": self.usage.cpu_s / max(records, 1) * 1e6,
            "ray_cpu_s": self.usage.ray_cpu_s,
            **self.memory_figures(),
        }

    def memory_figures(self) -> dict[str, float]:
        """The peaks of the contender's memory."""
        return {"memory_bytes": self.usage.peak_memory_bytes, "process_bytes": self.usage.peak_process_bytes}

    def _run(self) -> None:
        rounds = 0
        while not self._stopping.wait(_EVERY_S):
            rounds += 1
            if rounds % _FIND_EVERY == 0:
                self._find_processes(first=False)
            self._sample()

    def _find_processes(self, *, first: bool) -> None:
        self._known = []
        for owner, processes in self._processes().items():
            for process in processes:
                with suppress(psutil.Error):
                    cpu_s = _cpu_s(process)
                    cpu = self._cpu.setdefault(process.pid, _ProcessCpu(owner, cpu_s if first else 0.0, cpu_s))
                    # A worker of Ray becomes an actor when it is given one.
                    cpu.owner = owner
                    self._known.append(process)

    def _sample(self) -> None:
        memory_bytes = 0
        for process in self._known:
            with suppress(psutil.Error):
                cpu = self._cpu[process.pid]
                cpu.now_s = _cpu_s(process)
                if cpu.owner == "own":
                    process_bytes = process.memory_info().rss
                    memory_bytes += process_bytes
                    self.usage.peak_process_bytes = max(self.usage.peak_process_bytes, process_bytes)
        self.usage.peak_memory_bytes = max(self.usage.peak_memory_bytes, memory_bytes)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
