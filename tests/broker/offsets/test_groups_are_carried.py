"""Consumer groups carried over by real brokers: the very record, nobody else's commit replaced, memory kept."""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from confluent_kafka import Consumer, TopicPartition

from mirror_ray.config.settings import FlowSettings, GroupSettings
from mirror_ray.devcluster import DevCluster
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.model.names import FlowName
from mirror_ray.offsets.checkpointing import GroupCarrier
from mirror_ray.offsets.maps import FlowMaps
from tests.support.clusters import Clusters, TopicMaker
from tests.support.engine import Replicated, cluster_settings
from tests.support.kafka import Message, create_topic, exists, produce, produce_transactions, read_placed

EVERY_ROUND = GroupSettings(include=(), emit_checkpoints_interval_s=0, sync_offsets_interval_s=0, refresh_interval_s=0)


@asynccontextmanager
async def carrier(clusters: Clusters, groups: str) -> AsyncIterator[GroupCarrier]:
    """Carries the groups that match over; begun."""
    flow = FlowSettings(
        name=FlowName("A", "B"), enabled=True, groups=EVERY_ROUND.model_copy(update={"include": (groups,)})
    )
    source, target = Cluster(cluster_settings("A", clusters.a), "c"), Cluster(cluster_settings("B", clusters.b), "c")
    maps = FlowMaps(flow, source, target, on_problem=lambda text: None)
    try:
        carrier = GroupCarrier(flow, source, target, maps)
        await carrier.begin()
        yield carrier
    finally:
        await maps.close()
        await source.close()
        await target.close()


def internal_topics(clusters: Clusters) -> None:
    """As the coordinator creates them."""
    for cluster, topic in (
        (clusters.a, "mm2-offset-syncs.B.internal"),
        (clusters.b, "mm2-ray-segments.A.internal"),
        (clusters.b, "A.checkpoints.internal"),
    ):
        if not exists(cluster.confluent_config(), topic):
            create_topic(cluster.confluent_config(), topic, topic_config={"cleanup.policy": "compact"})


def commit(cluster: DevCluster, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit as kafka-consumer-groups --reset-offsets does."""
    consumer = Consumer({**cluster.confluent_config(), "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(*p, offset) for p, offset in offsets.items()], asynchronous=False)
    finally:
        consumer.close()


def committed(cluster: DevCluster, group: str, topic: str, partitions: int) -> dict[int, int]:
    """By partition; -1001 for none."""
    consumer = Consumer({**cluster.confluent_config(), "group.id": group})
    try:
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        return {each.partition: each.offset for each in consumer.committed(asked, timeout=30)}
    finally:
        consumer.close()


async def test_the_very_record(clusters: Clusters, make_topic: TopicMaker) -> None:
    """For a hundred groups at random offsets of a topic with and one without holes, also after a restart."""
    internal_topics(clusters)
    config, prefix = clusters.a.confluent_config(), uuid.uuid4().hex[:6]
    plain, holey = make_topic(clusters.a, 2), make_topic(clusters.a, 2)
    produce(config, plain, [Message(b"%d" % number, b"k", partition=number % 2) for number in range(2_000)])
    transactions = [
        ([Message(b"%d" % (20 * each + n), b"k", partition=n % 2) for n in range(20)], each % 3 > 0)
        for each in range(40)
    ]
    produce_transactions(config, holey, transactions, transactional_id=holey)
    dice = random.Random(5)
    source = {topic: read_placed(config, topic) for topic in (plain, holey)}
    ends = {(topic, p): records[-1][0] + 2 for topic in source for p, records in source[topic].items()}
    groups = {
        f"{prefix}-{number}": {partition: dice.randrange(end) for partition, end in ends.items()}
        for number in range(100)
    }
    for group, offsets in groups.items():
        commit(clusters.a, group, offsets)
    async with Replicated(clusters.a, clusters.b) as flow:
        for topic in (plain, holey):
            flow.remote(topic, 2)
        await flow.copy([plain, holey])
    async with carrier(clusters, f"{prefix}-.*") as carried:
        await carried.round()
    for topic in (plain, holey):
        there = read_placed(clusters.b.confluent_config(), f"A.{topic}")
        for group, offsets in groups.items():
            for partition, offset in committed(clusters.b, group, f"A.{topic}", 2).items():
                wanted = [r.value for at, r in source[topic][partition] if at >= offsets[topic, partition]]
                assert [r.value for at, r in there[partition] if at >= offset] == wanted, (group, topic, partition)
