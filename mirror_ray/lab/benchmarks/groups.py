"""What it costs to read the committed offsets of thousands of groups, round after round.

::

    make bench-groups
    .venv/bin/python -m mirror_ray.lab.benchmarks.groups [--groups 5000] [--partitions 50] [--changed 0.05] [--rounds 5]

One broker is started on this machine, and every group commits an offset for every partition. Then the groups are
listed, found and read: the first round decodes all, the ones after it what has changed. CPU is this process's own; the
broker shares the machine. Last the same is asked one group per request, as brokers before Kafka 3.0 must be.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from unittest import mock

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka import group_offsets
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import list_groups
from mirror_ray.kafka.group_offsets import OffsetReader, OffsetRound, ToCommit, commit_offsets
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import TopicPartition
from tests.support.kafka import create_topic

TOPIC = "offsets"
Answer = TypeVar("Answer")


async def nothing() -> None:
    """What happens before most questions."""


async def timed(
    title: str,
    rounds: int,
    ask: Callable[[], Awaitable[Answer]],
    before: Callable[[], Awaitable[None]] = nothing,
) -> Answer:
    """Ask as often, each time after ``before``; print the median of both times, and return the last answer."""
    wall_s, cpu_s = [], []
    for _ in range(rounds):
        await before()
        began_s, cpu_began_s = time.perf_counter(), time.process_time()
        answer = await ask()
        wall_s.append(time.perf_counter() - began_s)
        cpu_s.append(time.process_time() - cpu_began_s)
    wall_ms, cpu_ms = 1000 * statistics.median(wall_s), 1000 * statistics.median(cpu_s)
    print(f"  {title:<48}{wall_ms:8.0f} ms{cpu_ms:8.0f} ms CPU", flush=True)
    return answer


async def commit(coordinators: GroupCoordinators, commits: Mapping[str, ToCommit]) -> None:
    """Commit all of it."""
    answers = await commit_offsets(coordinators, commits, UNRECORDED, {})
    refused = {str(error) for answer in answers.values() for error in answer.values() if error}
    if refused:
        raise SystemExit(f"not all was committed: {refused}")


async def read(coordinators: GroupCoordinators, commits: dict[str, ToCommit], options: argparse.Namespace) -> None:
    """The first round, unchanged ones, and ones in which some groups have committed since."""
    reader, groups = OffsetReader(coordinators), list(commits)
    some = groups[:: round(1 / options.changed)]

    async def go_on() -> None:
        for group in some:
            commits[group] = {partition: (offset + 1, text) for partition, (offset, text) in commits[group].items()}
        await commit(coordinators, {group: commits[group] for group in some})

    first = await timed(f"first round, {len(groups) * options.partitions:,} offsets", 1, lambda: reader.read(groups))
    expect(first, changed=len(groups))
    expect(await timed("round without a change", options.rounds, lambda: reader.read(groups)), changed=0)
    last = await timed(f"round, {len(some)} groups changed", options.rounds, lambda: reader.read(groups), go_on)
    expect(last, changed=len(some))


def expect(done: OffsetRound, changed: int) -> None:
    """A figure of something else than was meant is none."""
    if done.failed or len(done.changed) != changed:
        raise SystemExit(f"{len(done.changed)} groups changed instead of {changed}; failed: {done.failed}")


async def measure(cluster: ClusterConnections, options: argparse.Namespace) -> None:
    """All figures of one cluster."""
    coordinators = GroupCoordinators(cluster, patience_s=30)
    partitions = [TopicPartition(TOPIC, number) for number in range(options.partitions)]
    commits: dict[str, ToCommit] = {
        f"group-{number:05}": {partition: (1000 + number + partition.partition, "") for partition in partitions}
        for number in range(options.groups)
    }
    print(f"{options.groups:,} groups of {options.partitions} partitions, one broker:", flush=True)
    await timed("find all coordinators", 1, lambda: coordinators.find(commits))
    await timed("commit all offsets", 1, lambda: commit(coordinators, commits))
    await timed("list all groups", options.rounds, lambda: list_groups(coordinators))
    # The broker's machine compiles what it runs often.
    for _ in range(options.rounds):
        await OffsetReader(coordinators).read(list(commits))
    await read(coordinators, commits, options)
    print("one group per request:", flush=True)
    with mock.patch.object(group_offsets, "OFFSET_FETCH_VERSIONS", (6, 7)):
        await read(coordinators, commits, options)


async def main() -> None:
    """Start a broker, fill it, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=50, help="of each group")
    parser.add_argument("--changed", type=float, default=0.05, help="share of the groups that commit between rounds")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is shown")
    options = parser.parse_args()
    with DevCluster("groups", heap="1g") as brokers:
        create_topic(brokers.confluent_config(), TOPIC, options.partitions)
        cluster = ClusterConnections(
            ClusterSettings(alias="groups", bootstrap_servers=(brokers.bootstrap,)), "benchmark"
        )
        try:
            await measure(cluster, options)
        finally:
            await cluster.close()


if __name__ == "__main__":
    asyncio.run(main())
