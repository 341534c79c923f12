"""What a round of the checkpoint actor costs: thousands of groups carried over between two clusters.

::

    make bench-carry
    .venv/bin/python -m mirror_ray.lab.benchmarks.carry [--groups 5000] [--partitions 50] [--changed 0.05] [--rounds 5]

Both brokers are on this machine and share it. Every group commits an offset for every partition on the source; the
records are there on both sides, and the map is told as a replicator tells it. The first round translates, emits and
commits all of it; the others what has changed. CPU is this process's own.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from confluent_kafka import Producer

from mirror_ray.config.settings import ClusterSettings, FlowSettings, GroupSettings
from mirror_ray.groups.sync import GroupOffsetSync
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_offsets import OffsetReader, ToCommit
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.lab.benchmarks.groups import commit, timed
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import start_all
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import FlowName, TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.offsets.flow_maps import FlowMaps
from mirror_ray.records.segment_block import encode_key, encode_value
from tests.support.kafka import create_topic

TOPIC = "offsets"
COMPACTED = {"cleanup.policy": "compact"}
RECORDS = 12_000
TIMESTAMP_MS = int(time.time() * 1000)


def fill(cluster: DevCluster, topic: str, partitions: int, records: int = RECORDS) -> None:
    """So many records on every partition, the same whenever it is called."""
    create_topic(cluster.confluent_config(), topic, partitions)
    producer = Producer({**cluster.confluent_config(), "queue.buffering.max.messages": 2_000_000})
    for partition in range(partitions):
        for _ in range(records):
            producer.produce(topic, b"x", partition=partition, timestamp=TIMESTAMP_MS)
        producer.flush()


def told(partition: int) -> KeyedRecord:
    """The map of a partition: every offset is the same on the target."""
    block = SegmentBlock(
        source=TopicPartition(TOPIC, partition),
        source_topic_id=TopicId("source"),
        target_topic_id=TopicId("target"),
        epoch=1,
        segments=(Segment(0, 0, RECORDS, 0),),
        source_next=RECORDS,
    )
    return KeyedRecord(encode_key(block.key), encode_value(block))


async def measure(source: ClusterConnections, target: ClusterConnections, options: argparse.Namespace) -> None:
    """All figures."""
    await InternalTopicWriter(target, segments_topic("A")).append([told(each) for each in range(options.partitions)])
    partitions = [TopicPartition(TOPIC, number) for number in range(options.partitions)]
    commits: dict[str, ToCommit] = {
        f"group-{number:05}": {each: (1000 + number + each.partition, "") for each in partitions}
        for number in range(options.groups)
    }
    coordinators = GroupCoordinators(source, patience_s=30)
    await commit(coordinators, commits)
    groups = GroupSettings(emit_checkpoints_interval_s=0.001, sync_offsets_interval_s=0.001, refresh_interval_s=0.001)
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True, groups=groups)
    maps = FlowMaps(flow, source, target, on_problem=print)
    carrier = GroupOffsetSync(flow, source, target, maps, UNRECORDED)
    some = list(commits)[:: round(1 / options.changed)]

    async def go_on() -> None:
        for group in some:
            commits[group] = {partition: (offset + 1, text) for partition, (offset, text) in commits[group].items()}
        await commit(coordinators, {group: commits[group] for group in some})

    print(f"{options.groups:,} groups of {options.partitions} partitions, a broker on each side:", flush=True)
    await timed("begin", 1, carrier.begin)
    await timed("first round: all are new", 1, carrier.round)
    await timed("round without a change", options.rounds, carrier.round)
    await timed(f"round, {len(some)} groups changed", options.rounds, carrier.round, go_on)
    carrier.hurry()
    await timed("round in which all are compared again", 1, carrier.round)
    again = GroupOffsetSync(flow, source, target, maps, UNRECORDED)
    await timed("begin after a restart: checkpoints are read", 1, again.begin)
    await timed("first round after it", 1, again.round)
    await check(target, commits)
    await maps.close()


async def check(target: ClusterConnections, commits: dict[str, ToCommit]) -> None:
    """A figure of something else than was meant is none."""
    found = (await OffsetReader(GroupCoordinators(target, patience_s=30)).read(list(commits))).changed
    for group, offsets in commits.items():
        there = {each.partition: offset.offset for each, offset in found[group].offsets.items()}
        if there != {each.partition: offset for each, (offset, _) in offsets.items()}:
            raise SystemExit(f"{group} does not stand where it should")


async def main() -> None:
    """Start brokers, fill them, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=50, help="of each group")
    parser.add_argument("--changed", type=float, default=0.05, help="share of the groups that commit between rounds")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is shown")
    options = parser.parse_args()
    pair = DevCluster("A", heap="1g"), DevCluster("B", heap="1g")
    try:
        start_all(pair)
        fill(pair[0], TOPIC, options.partitions)
        fill(pair[1], f"A.{TOPIC}", options.partitions)
        for topic in (segments_topic("A"), "A.checkpoints.internal"):
            create_topic(pair[1].confluent_config(), topic, topic_config=COMPACTED)
        source, target = (
            ClusterConnections(ClusterSettings(alias=alias, bootstrap_servers=(each.bootstrap,)), "benchmark")
            for alias, each in zip("AB", pair, strict=True)
        )
        try:
            await measure(source, target, options)
        finally:
            await source.close()
            await target.close()
    finally:
        for each in pair:
            each.close()


if __name__ == "__main__":
    asyncio.run(main())
