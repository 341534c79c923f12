"""What it costs to move thousands of consumer groups to the other cluster at once, and back.

::

    make bench-failover
    .venv/bin/python -m mirror_ray.lab.benchmarks.failover [--groups 5000] [--partitions 50] [--records 12000]

Both brokers are on this machine and share it. Every group commits an offset for every partition on the source, each
another one; the records are there on both sides, and the map is told as a replicator tells it. Then the commands
`failover` and `failback` move all of it, each a process of its own: seconds of each step, processor seconds and peak
memory of the process. Last every group's offset is read on both sides and compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_offsets import OffsetReader, ToCommit
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.lab.benchmarks.carry import COMPACTED, TOPIC, fill
from mirror_ray.lab.benchmarks.groups import commit
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import mm2_properties, start_all
from mirror_ray.model.internal_topics import audit_topic, segments_topic
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.records.segment_block import encode_key, encode_value
from tests.support.kafka import create_topic, end_offsets

FLOW = "A->B"
COPY = f"A.{TOPIC}"


async def tell(source: ClusterConnections, target: ClusterConnections, options: argparse.Namespace) -> None:
    """The map of all partitions: every offset is the same on the target."""
    await asyncio.gather(source.refresh([TOPIC]), target.refresh([COPY]))
    ids = source.metadata.topics[TOPIC].topic_id, target.metadata.topics[COPY].topic_id
    blocks = [
        SegmentBlock(
            source=TopicPartition(TOPIC, partition),
            source_topic_id=ids[0],
            target_topic_id=ids[1],
            epoch=1,
            segments=(Segment(0, 0, options.records, 0),),
            source_next=options.records,
        )
        for partition in range(options.partitions)
    ]
    records = [KeyedRecord(encode_key(block.key), encode_value(block)) for block in blocks]
    await InternalTopicWriter(target, segments_topic("A")).append(records)


def run(command: str, config: Path) -> dict[str, Any]:
    """Run it as a process of its own, and print what it cost; what it says comes back."""
    with tempfile.TemporaryFile() as said:
        arguments = [sys.executable, "-m", "mirror_ray", command, FLOW, "--config", str(config), "--yes", "-o", "json"]
        arguments += ["--name", "bench-failover"]
        began_s = time.perf_counter()
        pid = os.posix_spawn(
            arguments[0], arguments, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, said.fileno(), 1)]
        )
        _, status, usage = os.wait4(pid, 0)
        took_s = time.perf_counter() - began_s
        if status:
            raise SystemExit(f"{command} has ended with {os.waitstatus_to_exitcode(status)}")
        said.seek(0)
        report: dict[str, Any] = json.load(said)
    print(
        f"{command}: {took_s:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} s CPU, {usage.ru_maxrss >> 10} MiB at most"
    )
    for step in report["steps"]:
        step_s = (step["ended_ms"] - step["began_ms"]) / 1000
        print(f"  {step['step']:<12}{step_s:8.1f} s  {step['summary'].splitlines()[0]}", flush=True)
    return report


async def check(there: ClusterConnections, topic: str, commits: Mapping[str, ToCommit]) -> None:
    """A figure of something else than was meant is none."""
    found = (await OffsetReader(GroupCoordinators(there, patience_s=60)).read(list(commits))).changed
    for group, offsets in commits.items():
        stands = {at.partition: each.offset for at, each in found[group].offsets.items() if at.topic == topic}
        if stands != {at.partition: offset for at, (offset, _) in offsets.items()}:
            raise SystemExit(f"{group} does not stand where it should in {topic}")


async def measure(
    source: ClusterConnections, target: ClusterConnections, config: Path, options: argparse.Namespace
) -> None:
    """All figures."""
    await tell(source, target, options)
    partitions = [TopicPartition(TOPIC, number) for number in range(options.partitions)]
    room = options.records - 1
    commits: dict[str, ToCommit] = {
        f"group-{number:05}": {at: ((number * 7 + at.partition) % room + 1, "") for at in partitions}
        for number in range(options.groups)
    }
    await commit(GroupCoordinators(source, patience_s=60), commits)
    print(f"{options.groups:,} groups of {options.partitions} partitions, a broker on each side:", flush=True)
    await asyncio.to_thread(run, "failover", config)
    await check(target, COPY, commits)
    # Each group has done something on the target.
    further = {
        group: {at: (min(offset + 5, options.records), text) for at, (offset, text) in offsets.items()}
        for group, offsets in commits.items()
    }
    on_target = {
        group: {TopicPartition(COPY, at.partition): to for at, to in offsets.items()}
        for group, offsets in further.items()
    }
    await commit(GroupCoordinators(target, patience_s=60), on_target)
    await asyncio.to_thread(run, "failback", config)
    await check(source, TOPIC, further)


async def main() -> None:
    """Start brokers, fill them, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=50, help="of each group")
    parser.add_argument("--records", type=int, default=12_000, help="of each partition")
    options = parser.parse_args()
    pair = DevCluster("A", heap="1g"), DevCluster("B", heap="1g")
    with tempfile.TemporaryDirectory(prefix="bench-failover-") as directory:
        try:
            start_all(pair)
            fill(pair[0], TOPIC, options.partitions, options.records)
            fill(pair[1], COPY, options.partitions, options.records)
            for topic in (segments_topic("A"), "A.checkpoints.internal"):
                create_topic(pair[1].confluent_config(), topic, topic_config=COMPACTED)
            config = Path(directory) / "mm2.properties"
            config.write_text(mm2_properties(list(pair)) + f"{FLOW}.topics = {TOPIC}\nB->A.enabled = false\n")
            source, target = (
                ClusterConnections(ClusterSettings(alias=alias, bootstrap_servers=(each.bootstrap,)), "benchmark")
                for alias, each in zip("AB", pair, strict=True)
            )
            try:
                await measure(source, target, config, options)
            finally:
                await source.close()
                await target.close()
            audited = end_offsets(pair[1].confluent_config(), audit_topic("A"))
            print(f"{audit_topic('A')} holds {sum(audited.values()):,} records")
        finally:
            for each in pair:
                each.close()


if __name__ == "__main__":
    asyncio.run(main())
