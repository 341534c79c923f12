"""What copying costs the replicator's core: processor time for a million records, and memory at most.

::

    make bench-engine
    .venv/bin/python -m mirror_ray.lab.benchmarks.engine [throughput] [small-batches] [--records N] [--times 5]

Two clusters of one broker each are started on this machine and filled once; each copy goes into a remote topic of its
own, by one replicator's core in this process. Processor time is that of the thread that copies, so that it can be
compared between states of the code on a machine that does other things meanwhile; records per second can't be. The
first copy of each workload warms up the brokers and is not shown.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psutil

from mirror_ray.lab.bench.dataset import fill
from mirror_ray.lab.bench.measurements import DataSpec
from mirror_ray.lab.benchmarks.harness import cluster_pair, parse_arguments
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.assignment import Assignment
from tests.support.engine import Engine
from tests.support.replicated import Replicated

POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCost:
    cpu_s: float
    seconds: float
    peak_bytes: int


@asynccontextmanager
async def ready_to_copy(
    source: DevCluster, target: DevCluster, topic: str, partitions: int, prefix: str
) -> AsyncIterator[tuple[Engine, list[Assignment]]]:
    """A replicator's core that runs, and what it is to be assigned to copy a topic into a new remote topic."""
    async with Replicated(source, target, prefix=prefix) as replicated:
        replicated.remote(topic, partitions)
        engine = await replicated.engine()
        await engine.core.start()
        yield engine, await replicated.assignments([topic])
        await engine.stop()


async def copy(source: DevCluster, target: DevCluster, topic: str, data: DataSpec, number: int) -> CopyCost:
    """Copy a topic into a new remote topic, from its beginning to its end."""
    async with ready_to_copy(source, target, topic, data.partitions, f"{number}.") as (engine, assignments):
        began_s, cpu_s = time.monotonic(), time.thread_time()
        engine.assign(assignments)
        peak_bytes = await peak_until_caught_up(engine)
        return CopyCost(cpu_s=time.thread_time() - cpu_s, seconds=time.monotonic() - began_s, peak_bytes=peak_bytes)


def fill_in_process(cluster: DevCluster, topic: str, data: DataSpec) -> None:
    """Fill a topic from another process: the memory for making the batches is not a copy's."""
    process = multiprocessing.get_context("fork").Process(target=fill, args=(cluster, topic, data))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"topic {topic} was not filled: exit {process.exitcode}")


async def peak_until_caught_up(engine: Engine) -> int:
    """Wait for the end of the copy; returns the peak memory of this process meanwhile."""
    process, peak_bytes = psutil.Process(), 0
    caught_up = asyncio.create_task(engine.caught_up(300))
    while not caught_up.done():
        peak_bytes = max(peak_bytes, process.memory_info().rss)
        await asyncio.sleep(POLL_S)
    await caught_up
    return peak_bytes


def described(topic: str, data: DataSpec, costs: Collection[CopyCost]) -> str:
    per_million = sorted(cost.cpu_s * 1e6 / data.records for cost in costs)
    rates = [data.records / cost.seconds for cost in costs]
    return (
        f"{topic}: {data.batch_records} x {data.record_bytes} B, {data.codec}: CPU s per million records "
        f"{statistics.median(per_million):.2f} ({per_million[0]:.2f} to {per_million[-1]:.2f}), "
        f"{statistics.median(rates):,.0f} records/s, peak memory {max(cost.peak_bytes for cost in costs) / 1e6:.0f} MB"
    )


async def main() -> None:
    options = parse_arguments(
        __doc__,
        ("throughput", "small-batches"),
        records=(1_000_000, "of each workload"),
        times=(5, "copies of each, of which the median is shown"),
    )
    workloads = {
        "throughput": DataSpec(records=options.records, record_bytes=1000, batch_records=500, codec="zstd"),
        "small-batches": DataSpec(records=options.records, record_bytes=100, batch_records=10, codec="none"),
    }
    with cluster_pair() as (source, target):
        for topic in options.chosen:
            data = workloads[topic]
            fill_in_process(source, topic, data)
            costs = [await copy(source, target, topic, data, number) for number in range(options.times + 1)]
            print(described(topic, data, costs[1:]), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
