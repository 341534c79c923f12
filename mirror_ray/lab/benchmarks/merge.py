"""Up to which size merging batches costs less than passing them on: processor seconds, here and on the target's broker.

::

    make bench-merge
    .venv/bin/python -m mirror_ray.lab.benchmarks.merge [none] [gzip] ... [--record-bytes 1000] [--megabytes 60]

Two clusters of one broker each are started on this machine. For each codec and size of batches a topic is filled, and
copied into a remote topic by one replicator's core in this process: each batch passed on, and all merged, in turn.
What is shown is the processor time for a gigabyte of records, before compression, of this process and of the target's
broker, and the sum of the merged copy against that of the other one. ``merge_rules.LARGEST_SMALL_BYTES`` estimates it.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Sequence
from typing import NamedTuple
from unittest import mock

from mirror_ray.lab.bench.dataset import fill
from mirror_ray.lab.bench.measurements import DataSpec
from mirror_ray.lab.bench.meter import brokers_meter
from mirror_ray.lab.benchmarks.engine import ready_to_copy
from mirror_ray.lab.benchmarks.harness import cluster_pair, elapsed, parse_arguments, show
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.records.batch import CODECS
from mirror_ray.replication import merge_rules

BATCH_BYTES = tuple(1 << power for power in range(10, 19))
#: Up to which size batches are merged: none, or all.
BOUNDS = {"passed": 0, "merged": merge_rules.LARGEST_REPACKED_BYTES}


class MergeCost(NamedTuple):
    """Processor seconds of one copy."""

    replicator_s: float
    target_s: float

    @property
    def sum_s(self) -> float:
        return self.replicator_s + self.target_s


async def copy(source: DevCluster, target: DevCluster, topic: str, prefix: str, partitions: int) -> MergeCost:
    """Copy a topic into a new remote topic, from its beginning to its end."""
    async with ready_to_copy(source, target, topic, partitions, prefix) as (engine, assignments):
        with brokers_meter(source, target) as brokers, elapsed() as here:
            engine.assign(assignments)
            await engine.caught_up(300)
    return MergeCost(here.cpu_s, brokers.usage["target"].cpu_s)


async def compare(
    source: DevCluster, target: DevCluster, data: DataSpec, times: int, number: int
) -> dict[str, list[MergeCost]]:
    """Copy the same topic in both ways, in turn; the first copy of each warms up and does not count."""
    topic = f"merge-{number}"
    fill(source, topic, data)
    costs: dict[str, list[MergeCost]] = {way: [] for way in BOUNDS}
    for round_ in range(times + 1):
        for way, bound in BOUNDS.items():
            with mock.patch.object(merge_rules, "LARGEST_SMALL_BYTES", dict.fromkeys(CODECS, bound)):
                costs[way].append(await copy(source, target, topic, f"{way}-{round_}.", data.partitions))
    return {way: found[1:] for way, found in costs.items()}


def per_gigabyte(costs: Sequence[MergeCost], data: DataSpec) -> MergeCost:
    """The median of each cost, for a gigabyte of records."""
    size = data.records * data.record_bytes / 1e9
    return MergeCost(*(statistics.median(values) / size for values in zip(*costs, strict=True)))


async def main() -> None:
    options = parse_arguments(
        __doc__,
        CODECS,
        record_bytes=(1000, "size of a record"),
        megabytes=(60, "of records in each topic"),
        times=(3, "copies of each, of which the median is shown"),
    )
    show("", "passed on", "", "merged", "", "")
    show("codec, records in a batch", "here", "target", "here", "target", "merged")
    with cluster_pair() as (source, target):
        for number, (codec, batch_bytes) in enumerate(itertools.product(options.chosen, BATCH_BYTES)):
            data = DataSpec(
                records=options.megabytes * 1_000_000 // options.record_bytes,
                record_bytes=options.record_bytes,
                batch_records=max(1, batch_bytes // options.record_bytes),
                codec=codec,
            )
            costs = await compare(source, target, data, options.times, number)
            passed, merged = (per_gigabyte(costs[way], data) for way in BOUNDS)
            show(
                f"{codec}, {data.batch_records} x {data.record_bytes} B",
                *(f"{value:.2f} s" for value in (*passed, *merged)),
                f"{merged.sum_s / passed.sum_s:.2f}",
            )


if __name__ == "__main__":
    asyncio.run(main())
