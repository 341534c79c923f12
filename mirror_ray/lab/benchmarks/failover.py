"""What it costs to move thousands of consumer groups to the other cluster at once, and back.

::

    make bench-failover
    .venv/bin/python -m mirror_ray.lab.benchmarks.failover [--groups 5000] [--partitions 50] [--records 12000]

Both brokers are on this machine and share it. Every group commits another offset for every partition on the source;
both sides hold the records, and the offset map is published as a replicator does it. Then the commands `failover` and
`failback` move all groups, each in a process of its own: seconds of each step, processor seconds and peak memory of the
process. Last every group's committed offset is read on both sides and compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_offsets import ToCommit
from mirror_ray.lab.benchmarks.group_data import (
    REMOTE_TOPIC,
    TOPIC,
    GroupCommits,
    check_committed,
    prepare_topics,
    publish_maps,
)
from mirror_ray.lab.benchmarks.harness import cluster_pair, connections, parse_arguments, run_command
from mirror_ray.lab.devcluster.clusters import write_mm2_properties
from mirror_ray.lab.kafka_client import high_watermarks
from mirror_ray.model.internal_topics import audit_topic
from mirror_ray.model.names import TopicPartition

FLOW = "A->B"


def move_groups(command: str, config: Path) -> None:
    """Run `failover` or `failback`, and print what it and each of its steps cost."""
    arguments = ("--config", str(config), "--yes", "-o", "json", "--name", "bench-failover")
    cost = run_command(command, FLOW, *arguments)
    print(f"{command}: {cost.seconds:.1f} s, {cost.cpu_s:.1f} s CPU, {cost.peak_bytes >> 20} MiB at most")
    for step in json.loads(cost.output)["steps"]:
        step_s = (step["ended_ms"] - step["began_ms"]) / 1000
        print(f"  {step['step']:<12}{step_s:8.1f} s  {step['summary'].splitlines()[0]}", flush=True)


async def measure(
    source: ClusterConnections, target: ClusterConnections, config: Path, options: argparse.Namespace
) -> None:
    await publish_maps(source, target, options.partitions, options.records)
    partitions = [TopicPartition(TOPIC, number) for number in range(options.partitions)]
    last = options.records - 1
    commits: dict[str, ToCommit] = {
        f"group-{number:05}": {at: ((number * 7 + at.partition) % last + 1, "") for at in partitions}
        for number in range(options.groups)
    }
    await GroupCommits(source, commits).commit()
    print(f"{options.groups:,} groups of {options.partitions} partitions, a broker on each side:", flush=True)
    await asyncio.to_thread(move_groups, "failover", config)
    await check_committed(target, REMOTE_TOPIC, commits)
    # Each group has processed some records on the target.
    further: dict[str, ToCommit] = {
        group: {at: (min(offset + 5, options.records), text) for at, (offset, text) in offsets.items()}
        for group, offsets in commits.items()
    }
    on_target: dict[str, ToCommit] = {
        group: {TopicPartition(REMOTE_TOPIC, at.partition): to for at, to in offsets.items()}
        for group, offsets in further.items()
    }
    await GroupCommits(target, on_target).commit()
    await asyncio.to_thread(move_groups, "failback", config)
    await check_committed(source, TOPIC, further)


async def main() -> None:
    options = parse_arguments(
        __doc__,
        groups=(5000, "consumer groups"),
        partitions=(50, "of each group"),
        records=(12_000, "of each partition"),
    )
    with cluster_pair() as pair, tempfile.TemporaryDirectory(prefix="bench-failover-") as directory:
        prepare_topics(*pair, options.partitions, options.records)
        config = write_mm2_properties(Path(directory), pair, f"{FLOW}.topics = {TOPIC}\nB->A.enabled = false\n")
        async with connections(*pair) as (source, target):
            await measure(source, target, config, options)
        audited = high_watermarks(pair[1], audit_topic("A"), 1)
        print(f"{audit_topic('A')} holds {sum(audited.values()):,} records")


if __name__ == "__main__":
    asyncio.run(main())
