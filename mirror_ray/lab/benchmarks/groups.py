"""What it costs to read the committed offsets of thousands of groups, round after round.

::

    make bench-groups
    .venv/bin/python -m mirror_ray.lab.benchmarks.groups [--groups 5000] [--partitions 50] [--changed 0.05] [--rounds 5]

One broker is started on this machine, and every group commits an offset for every partition. Then the groups are
listed, found and read: the first round decodes everything, later ones what has changed. CPU is this process's own; the
broker shares the machine. Last the same is asked one group per request, as brokers before Kafka 3.0 must be.
"""

from __future__ import annotations

import argparse
import asyncio
from unittest import mock

from mirror_ray.kafka import group_offsets
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import list_groups
from mirror_ray.kafka.group_offsets import OffsetReader, OffsetRound
from mirror_ray.lab.benchmarks.group_data import TOPIC, GroupCommits
from mirror_ray.lab.benchmarks.harness import GROUP_OPTIONS, connections, parse_arguments, timed
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import create_topic


async def read(coordinators: GroupCoordinators, commits: GroupCommits, options: argparse.Namespace) -> None:
    """The first round, unchanged ones, and ones in which some groups have committed since."""
    reader, groups = OffsetReader(coordinators), list(commits.offsets)
    some = groups[:: round(1 / options.changed)]
    first = await timed(f"first round, {len(groups) * options.partitions:,} offsets", 1, lambda: reader.read(groups))
    expect(first, changed=len(groups))
    expect(await timed("round without a change", options.rounds, lambda: reader.read(groups)), changed=0)
    last = await timed(
        f"round, {len(some)} groups changed", options.rounds, lambda: reader.read(groups), lambda: commits.advance(some)
    )
    expect(last, changed=len(some))


def expect(done: OffsetRound, changed: int) -> None:
    """End with an error if the round read something else than was meant."""
    if done.failed or len(done.changed) != changed:
        raise SystemExit(f"{len(done.changed)} groups changed instead of {changed}; failed: {done.failed}")


async def measure(cluster: ClusterConnections, options: argparse.Namespace) -> None:
    coordinators = GroupCoordinators(cluster, patience_s=30)
    commits = GroupCommits.spread(cluster, options.groups, options.partitions)
    print(f"{options.groups:,} groups of {options.partitions} partitions, one broker:", flush=True)
    await timed("find all coordinators", 1, lambda: coordinators.find(commits.offsets))
    await timed("commit all offsets", 1, commits.commit)
    await timed("list all groups", options.rounds, lambda: list_groups(coordinators))
    # The broker's virtual machine compiles what it runs often.
    for _ in range(options.rounds):
        await OffsetReader(coordinators).read(list(commits.offsets))
    await read(coordinators, commits, options)
    print("one group per request:", flush=True)
    with mock.patch.object(group_offsets, "OFFSET_FETCH_VERSIONS", (6, 7)):
        await read(coordinators, commits, options)


async def main() -> None:
    options = parse_arguments(__doc__, **GROUP_OPTIONS, rounds=(5, "of which the median is shown"))
    with DevCluster("groups", heap="1g") as brokers:
        create_topic(brokers, TOPIC, options.partitions)
        async with connections(brokers) as (cluster,):
            await measure(cluster, options)


if __name__ == "__main__":
    asyncio.run(main())
