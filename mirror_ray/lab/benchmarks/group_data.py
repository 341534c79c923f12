"""Data of the benchmarks about groups: topics, maps that translate every offset to itself, committed offsets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Self

from confluent_kafka import Producer

from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_offsets import OffsetReader, ToCommit, commit_offsets
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import client_config, create_topic
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.records.segment_block import encode_key, encode_value

TOPIC = "offsets"
REMOTE_TOPIC = f"A.{TOPIC}"
_PATIENCE_S = 60
_TIMESTAMP_MS = int(time.time() * 1000)


def prepare_topics(source: DevCluster, target: DevCluster, partitions: int, records: int) -> None:
    """Create the topic, its remote topic, with the same records, and the flow's internal topics."""
    for cluster, topic in ((source, TOPIC), (target, REMOTE_TOPIC)):
        create_topic(cluster, topic, partitions)
        producer = Producer(client_config(cluster, {"queue.buffering.max.messages": 2_000_000}))
        for partition in range(partitions):
            for _ in range(records):
                producer.produce(topic, b"x", partition=partition, timestamp=_TIMESTAMP_MS)
            producer.flush()
    for topic in (segments_topic("A"), "A.checkpoints.internal"):
        create_topic(target, topic, configs={"cleanup.policy": "compact"})


async def publish_maps(source: ClusterConnections, target: ClusterConnections, partitions: int, records: int) -> None:
    """Publish the offset maps of all partitions, as replicators do: every offset is the same on the target."""
    await asyncio.gather(source.refresh([TOPIC]), target.refresh([REMOTE_TOPIC]))
    blocks = [
        SegmentBlock(
            source=TopicPartition(TOPIC, partition),
            source_topic_id=source.metadata.topics[TOPIC].topic_id,
            target_topic_id=target.metadata.topics[REMOTE_TOPIC].topic_id,
            epoch=1,
            segments=(Segment(0, 0, records, 0),),
            source_next=records,
        )
        for partition in range(partitions)
    ]
    writer = InternalTopicWriter(target, segments_topic("A"))
    await writer.append([KeyedRecord(encode_key(block.key), encode_value(block)) for block in blocks])


class GroupCommits:
    """The committed offsets of groups on one cluster: what they are to be, committing them, and checking them."""

    @classmethod
    def spread(cls, cluster: ClusterConnections, groups: int, partitions: int) -> Self:
        """So many groups with a committed offset for every partition; the offsets differ."""
        numbers = range(partitions)
        commits = {
            f"group-{group:05}": {TopicPartition(TOPIC, number): (1000 + group + number, "") for number in numbers}
            for group in range(groups)
        }
        return cls(cluster, commits)

    def __init__(self, cluster: ClusterConnections, commits: Mapping[str, ToCommit]) -> None:
        self.offsets = dict(commits)
        self._coordinators = GroupCoordinators(cluster, patience_s=_PATIENCE_S)

    async def commit(self, groups: Mapping[str, ToCommit] | None = None) -> None:
        """Commit all of these, or of all groups."""
        answers = await commit_offsets(self._coordinators, groups or self.offsets, UNRECORDED, {})
        refused = {str(error) for answer in answers.values() for error in answer.values() if error}
        if refused:
            raise SystemExit(f"not all was committed: {refused}")

    async def advance(self, groups: list[str]) -> None:
        """Commit one offset more for every partition of these groups."""
        for group in groups:
            self.offsets[group] = {
                partition: (offset + 1, metadata) for partition, (offset, metadata) in self.offsets[group].items()
            }
        await self.commit({group: self.offsets[group] for group in groups})


async def check_committed(cluster: ClusterConnections, topic: str, commits: Mapping[str, ToCommit]) -> None:
    """End with an error if groups' committed offsets of ``topic`` are not these: figures would be of something else."""
    coordinators = GroupCoordinators(cluster, patience_s=_PATIENCE_S)
    found = (await OffsetReader(coordinators).read(list(commits))).changed
    for group, offsets in commits.items():
        committed = {at.partition: known.offset for at, known in found[group].offsets.items() if at.topic == topic}
        if committed != {at.partition: offset for at, (offset, _) in offsets.items()}:
            raise SystemExit(f"the committed offsets of {group} in {topic} are not what they should be")
