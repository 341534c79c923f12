"""What processes take while something is measured: CPU seconds, and their memory at its peak."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import psutil

from mirror_ray.lab.bench.systems import Owner

_EVERY_S: Final = 0.1
#: To look for new processes costs more than to look at known ones.
_FIND_EVERY: Final = 10


@dataclass(slots=True)
class Usage:
    """Of the contender's own processes, and CPU of Ray's."""

    cpu_s: float = 0.0
    ray_cpu_s: float = 0.0
    #: All of its own processes together.
    peak_memory_bytes: int = 0
    #: The largest one of them.
    peak_process_bytes: int = 0


@dataclass(slots=True)
class _Seen:
    """CPU of one process: before, and now."""

    owner: Owner
    before_s: float
    now_s: float = field(default=0.0)


class Meter:
    """Counts from entering its context to leaving it. Processes that begin or end meanwhile are counted, too."""

    def __init__(self, processes: Callable[[], Mapping[Owner, Sequence[psutil.Process]]]) -> None:
        self.usage = Usage()
        self._processes = processes
        self._known: list[psutil.Process] = []
        self._seen: dict[int, _Seen] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def __enter__(self) -> Self:
        self._find(first=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._look()
        for seen in self._seen.values():
            if seen.owner == "own":
                self.usage.cpu_s += seen.now_s - seen.before_s
            else:
                self.usage.ray_cpu_s += seen.now_s - seen.before_s

    def _run(self) -> None:
        rounds = 0
        while not self._done.wait(_EVERY_S):
            rounds += 1
            if rounds % _FIND_EVERY == 0:
                self._find(first=False)
            self._look()

    def _find(self, *, first: bool) -> None:
        self._known = []
        for owner, processes in self._processes().items():
            for process in processes:
                with suppress(psutil.Error):
                    cpu_s = _cpu_s(process)
                    seen = self._seen.setdefault(process.pid, _Seen(owner, cpu_s if first else 0.0, cpu_s))
                    # A worker of Ray becomes an actor when it is given one.
                    seen.owner = owner
                    self._known.append(process)

    def _look(self) -> None:
        memory_bytes = 0
        for process in self._known:
            with suppress(psutil.Error):
                seen = self._seen[process.pid]
                seen.now_s = _cpu_s(process)
                if seen.owner == "own":
                    process_bytes = process.memory_info().rss
                    memory_bytes += process_bytes
                    self.usage.peak_process_bytes = max(self.usage.peak_process_bytes, process_bytes)
        self.usage.peak_memory_bytes = max(self.usage.peak_memory_bytes, memory_bytes)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
