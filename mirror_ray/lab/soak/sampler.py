"""What the processes of a Ray hold in memory, and its session on disk, every few seconds."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from mirror_ray.lab.background import BackgroundThread
from mirror_ray.own_ray import OwnRay

_EVERY_S: Final = 10.0
#: ``ray::NAME:replicator:1:Replicator.exchange``; a process that has just begun has another title.
_ACTOR: Final = re.compile(r"ray::(?:[^:]+:)*([A-Z]\w+)")
#: Ids of processes and workers in names of files.
_IDS: Final = re.compile(r"[-_][0-9a-f]{8,}|_\d{3,}|-\d{3,}")
Samples = list[tuple[float, float]]


class RaySampler(BackgroundThread):
    """Samples from its start on. ``also`` is called each time."""

    def __init__(self, own: OwnRay, also: Callable[[], None]) -> None:
        super().__init__("sampler")
        self._own, self._also = own, also
        #: By process, seconds since the start and bytes that are its own.
        self.memory: dict[str, Samples] = defaultdict(list)
        #: By kind of file.
        self.files: dict[str, Samples] = defaultdict(list)
        #: How many files there are in all.
        self.counts: Samples = []

    def _run(self) -> None:
        begin_s = time.monotonic()
        while not self._stopping.wait(_EVERY_S):
            self._also()
            now_s = time.monotonic() - begin_s
            for name, size in self._processes().items():
                self.memory[name].append((now_s, size))
            sizes = file_sizes(Path(self._own.session_dir))
            self.counts.append((now_s, float(sum(count for count, _ in sizes.values()))))
            for kind, (_, size) in sizes.items():
                self.files[kind].append((now_s, size))

    def _processes(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for pid, _ in self._own.processes:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                for each in (process, *process.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess):
                        found[f"{title_of(each.cmdline())} ({each.pid})"] = each.memory_full_info().uss
        return found


def title_of(command: list[str]) -> str:
    """What a process is, by its command line."""
    words = " ".join(command)
    actor = _ACTOR.search(words)
    if actor:
        return actor[1]
    for part, title in (
        ("ray::IDLE", "idle worker"),
        ("gcs_server", "gcs_server"),
        ("raylet/raylet", "raylet"),
        ("lazy_agent", "agent"),
        ("default_worker", "worker that starts"),
    ):
        if part in words:
            return title
    return Path(command[0]).name if command else "?"


def file_sizes(session: Path) -> dict[str, tuple[int, float]]:
    """How many files of each kind there are in a session's directory, and their bytes."""
    found: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for path in session.rglob("*"):
        with suppress(OSError):
            if path.is_file():
                kind = _IDS.sub("", str(path.relative_to(session)))
                count, size = found[kind]
                found[kind] = (count + 1, size + path.stat().st_size)
    return found
