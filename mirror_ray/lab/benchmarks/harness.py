"""What the benchmarks share: arguments, clusters, connections, systems, timing, and lines of figures."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

from mirror_ray import runtime
from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.lab.background import wait_until
from mirror_ray.lab.bench.meter import Meter
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import running_clusters
from mirror_ray.mirror import Mirror
from mirror_ray.model.names import FlowName

Answer = TypeVar("Answer")
#: Default and explanation of an option.
Option = tuple[int | float | str | bool, str]

#: Options of the benchmarks about consumer groups.
GROUP_OPTIONS: Mapping[str, Option] = {
    "groups": (5000, "consumer groups"),
    "partitions": (50, "of each group"),
    "changed": (0.05, "share of the groups that commit between rounds"),
}


def parse_arguments(doc: str | None, choose: Sequence[str] = (), /, **options: Option) -> argparse.Namespace:
    """The script's options; ``doc`` is shown by ``--help``. An option that is False by default takes no value.

    ``choose``: what can be chosen by positional arguments (``chosen``); everything is by default.
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


def flow_settings(clusters: Sequence[DevCluster], **settings: Any) -> MirrorSettings:
    """The flow A->B between two unprotected clusters."""
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True, **settings)
    return MirrorSettings(clusters=cluster_settings(clusters), flows=(flow,))


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


def wait_until_copying(system: Mirror, partitions: int) -> None:
    """Wait until all partitions are copied."""

    def is_copying() -> bool:
        return sum(flow.copying for flow in system.flows) >= partitions

    wait_until(is_copying, 1200, "every partition is copied", every_s=0.5)


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


@dataclass(frozen=True, slots=True)
class CommandCost:
    """What a command printed, and what it cost."""

    output: bytes
    seconds: float
    cpu_s: float
    peak_bytes: int


def run_command(*arguments: str) -> CommandCost:
    """Run a command of ``mirror-ray`` as a process of its own; ends with an error if that does."""
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", "mirror_ray", *arguments]
        began_s = time.perf_counter()
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), 1)])
        _, status, usage = os.wait4(pid, 0)
        took_s = time.perf_counter() - began_s
        if status:
            raise SystemExit(f"mirror-ray {' '.join(arguments)} has ended with {os.waitstatus_to_exitcode(status)}")
        output.seek(0)
        return CommandCost(output.read(), took_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10)


def show(title: str, *figures: str, width: int = 48) -> None:
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


def spark_meter() -> Meter[str]:
    """Measures Spark's processes as long as its context lasts: its Java virtual machines, and its Python workers."""
    return Meter(_spark_processes, ("jvm", "python"), find_every=1)


def _spark_processes() -> Mapping[str, Sequence[psutil.Process]]:
    found: dict[str, list[psutil.Process]] = {"jvm": [], "python": []}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "pyspark.daemon" in " ".join(process.cmdline()):
                found["python"].append(process)
            elif process.name() == "java":
                found["jvm"].append(process)
    return found
