"""What a round of the checkpoint actor costs: the offsets of thousands of groups, synced between two clusters.

::

    make bench-carry
    .venv/bin/python -m mirror_ray.lab.benchmarks.group_sync [--groups 5000] [--partitions 50] [--changed 0.05]
        [--rounds 5]

Both brokers are on this machine and share it. Every group commits an offset for every partition on the source; both
sides hold the records, and the offset map is published as a replicator does it. The first round translates, emits and
commits everything; later ones what has changed. CPU is this process's own.
"""

from __future__ import annotations

import argparse
import asyncio

from mirror_ray.config.settings import FlowSettings, GroupSettings
from mirror_ray.groups.sync import GroupOffsetSync
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.lab.benchmarks.group_data import (
    REMOTE_TOPIC,
    GroupCommits,
    check_committed,
    prepare_topics,
    publish_maps,
)
from mirror_ray.lab.benchmarks.harness import GROUP_OPTIONS, cluster_pair, connections, parse_arguments, timed
from mirror_ray.model.names import FlowName
from mirror_ray.offsets.flow_maps import FlowMaps

RECORDS = 12_000


async def measure(source: ClusterConnections, target: ClusterConnections, options: argparse.Namespace) -> None:
    await publish_maps(source, target, options.partitions, RECORDS)
    commits = GroupCommits.spread(source, options.groups, options.partitions)
    await commits.commit()
    groups = GroupSettings(emit_checkpoints_interval_s=0.001, sync_offsets_interval_s=0.001, refresh_interval_s=0.001)
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True, groups=groups)
    maps = FlowMaps(flow, source, target, on_problem=print)
    sync = GroupOffsetSync(flow, source, target, maps, UNRECORDED)
    some = list(commits.offsets)[:: round(1 / options.changed)]
    print(f"{options.groups:,} groups of {options.partitions} partitions, a broker on each side:", flush=True)
    await timed("begin", 1, sync.begin)
    await timed("first round: all are new", 1, sync.round)
    await timed("round without a change", options.rounds, sync.round)
    await timed(f"round, {len(some)} groups changed", options.rounds, sync.round, lambda: commits.advance(some))
    sync.sync_at_once()
    await timed("round in which all are compared again", 1, sync.round)
    restarted = GroupOffsetSync(flow, source, target, maps, UNRECORDED)
    await timed("begin after a restart: checkpoints are read", 1, restarted.begin)
    await timed("first round after it", 1, restarted.round)
    await check_committed(target, REMOTE_TOPIC, commits.offsets)
    await maps.close()


async def main() -> None:
    options = parse_arguments(__doc__, **GROUP_OPTIONS, rounds=(5, "of which the median is shown"))
    with cluster_pair() as pair:
        prepare_topics(*pair, options.partitions, RECORDS)
        async with connections(*pair) as (source, target):
            await measure(source, target, options)


if __name__ == "__main__":
    asyncio.run(main())
