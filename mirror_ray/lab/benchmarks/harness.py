"""What the benchmarks share: arguments, clusters, connections, systems, timing, and lines of figures."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import psutil

from mirror_ray import runtime
from mirror_ray.config.settings import ClusterSettings, MirrorSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.lab.background import BackgroundThread
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import running_clusters
from mirror_ray.mirror import Mirror

Answer = TypeVar("Answer")


def parse_arguments(
    doc: str | None, *, choose: Sequence[str] = (), **options: tuple[int | float | str | bool, str]
) -> argparse.Namespace:
    """The script's options.

    Args:
        doc: The script's docstring, for ``--help``.
        choose: What can be chosen by positional arguments (``chosen``); everything is by default.
        options: Default and explanation of each option; one that is False by default takes no value.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if choose:
        parser.add_argument("chosen", nargs="*", default=list(choose), metavar="|".join(choose))
    for name, (default, text) in options.items():
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true", help=text)
        else:
            parser.add_argument(flag, type=type(default), default=default, help=text)
    return parser.parse_args()


@contextmanager
def cluster_pair(heap: str = "1g") -> Iterator[tuple[DevCluster, DevCluster]]:
    """Clusters A and B, of one broker each, started in parallel; they are closed with the context."""
    with running_clusters(DevCluster("A", heap=heap), DevCluster("B", heap=heap)) as (source, target):
        yield source, target


def cluster_settings(clusters: Sequence[DevCluster]) -> dict[str, ClusterSettings]:
    """Settings of unprotected clusters, by their names."""
    return {
        cluster.name: ClusterSettings(alias=cluster.name, bootstrap_servers=tuple(cluster.bootstrap.split(",")))
        for cluster in clusters
    }


@asynccontextmanager
async def connections(*clusters: DevCluster) -> AsyncIterator[tuple[ClusterConnections, ...]]:
    """mirror-ray's own connections to clusters; they are closed with the context."""
    async with AsyncExitStack() as stack:
        opened = [ClusterConnections(settings, "benchmark") for settings in cluster_settings(clusters).values()]
        for connection in opened:
            stack.push_async_callback(connection.close)
        yield tuple(opened)


@contextmanager
def running_system(settings: MirrorSettings, name: str, *, replicators: int | None = None) -> Iterator[Mirror]:
    """A system in a Ray of its own; both end with the context."""
    with runtime.start(settings, name, None, replicators=replicators, detach=False) as started:
        yield started.system
        started.system.down(10)


def running_ray(name: str) -> AbstractContextManager[None]:
    """Connected to a Ray of its own, which ends with the context."""
    return runtime.some_ray(name, None)


@dataclass(slots=True)
class Elapsed:
    """Wall-clock seconds, and processor seconds of this process."""

    seconds: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def elapsed() -> Iterator[Elapsed]:
    """Measure from entering the context to leaving it."""
    found, began_s, cpu_began_s = Elapsed(), time.perf_counter(), time.process_time()
    yield found
    found.seconds, found.cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_began_s


def show(title: str, *figures: str, width: int = 48) -> None:
    """Print one line."""
    print(f"  {title:<{width}}{''.join(f'{figure:>14}' for figure in figures)}", flush=True)


async def timed(
    title: str,
    rounds: int,
    action: Callable[[], Awaitable[Answer]],
    before: Callable[[], Awaitable[None]] | None = None,
) -> Answer:
    """Do something several times, each time after ``before``; print the medians, and return the last answer."""
    measured: list[Elapsed] = []
    for _ in range(rounds):
        if before is not None:
            await before()
        with elapsed() as round_:
            answer = await action()
        measured.append(round_)
    wall_ms = 1000 * statistics.median(round_.seconds for round_ in measured)
    cpu_ms = 1000 * statistics.median(round_.cpu_s for round_ in measured)
    show(title, f"{wall_ms:,.0f} ms", f"{cpu_ms:,.0f} ms CPU")
    return answer


def process_cpu_s(process: psutil.Process) -> float:
    """Processor seconds that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


class SparkUsage(BackgroundThread):
    """Memory and processor time of Spark's processes, sampled ten times a second as long as the context lasts."""

    def __init__(self) -> None:
        super().__init__("spark-usage")
        #: Peaks of the largest Java virtual machine, and of all Python workers together.
        self.jvm_bytes = self.python_bytes = 0
        self._cpu_s: Mapping[int, float] = {}
        self._before_s: Mapping[int, float] | None = None

    @property
    def cpu_s(self) -> float:
        """Processor seconds since the first sample."""
        return sum(self._cpu_s.values()) - sum((self._before_s or {}).values())

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            self._sample()

    def _sample(self) -> None:
        python_bytes, cpu_s = 0, dict(self._cpu_s)
        for process in psutil.Process().children(recursive=True):
            try:
                is_python = "pyspark.daemon" in " ".join(process.cmdline())
                if is_python or process.name() == "java":
                    cpu_s[process.pid], size = process_cpu_s(process), process.memory_info().rss
                    python_bytes += size if is_python else 0
                    self.jvm_bytes = max(self.jvm_bytes, 0 if is_python else size)
            except psutil.Error:
                continue
        self._cpu_s = cpu_s
        self.python_bytes = max(self.python_bytes, python_bytes)
        self._before_s = self._before_s if self._before_s is not None else cpu_s
