"""Brokers are killed while their partitions are copied: nothing is lost, nothing is there twice."""

from __future__ import annotations

import asyncio
import time

import psutil
import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from mirror_ray.config.settings import FetchSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import TopicPartition as ModelPartition
from mirror_ray.model.offset_pair import OffsetPair
from tests.support.clusters import Clusters, KafkaCluster, TopicMaker
from tests.support.engine import Engine
from tests.support.kafka import Message, create_topic, produce, sample_messages
from tests.support.reading import assert_equal_copies, read_all
from tests.support.replicated import Replicated

PARTITIONS = 4
#: Records of last year are beyond any retention.
KEEP = {"retention.ms": "-1"}
#: Many small answers, so that there is always something in flight.
SMALL_FETCHES = FetchSettings(max_bytes=100_000, max_partition_bytes=25_000)


@pytest.mark.parametrize("age_days", [0, 365])
async def test_target_broker_killed_again_and_again(
    clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker, age_days: int
) -> None:
    """Also with records of last year, whose producer the broker forgets each time it starts."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 40_000, age_days)
    async with Replicated(clusters.a, fragile) as flow:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        engine = await flow.engine(fetch=SMALL_FETCHES)
        engine.assign(await flow.assignments([topic]))
        broker = fragile.brokers[0]
        for round_number in range(2):
            await more_copied(engine, 3_000)
            broker.kill()
            fill(clusters.a, topic, 4_000, age_days, first=50_000 + 4_000 * round_number)
            await asyncio.to_thread(broker.start)
        await engine.caught_up(60)
        await engine.stop()
        assert engine.stops == []
        assert_equal_copies(clusters.a.confluent_config(), fragile.confluent_config(), topic, remote)


async def test_source_broker_killed(clusters: Clusters, fragile: DevCluster) -> None:
    """Copying goes on where it was when the source is back."""
    topic = create_topic(fragile.confluent_config(), f"topic-{time.time_ns()}", PARTITIONS)
    fill(fragile, topic, 40_000)
    async with Replicated(fragile, clusters.b) as flow:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        engine = await flow.engine(fetch=SMALL_FETCHES)
        engine.assign(await flow.assignments([topic]))
        for first in (40_000, 45_000):
            await more_copied(engine, 3_000)
            fragile.brokers[0].kill()
            await asyncio.to_thread(fragile.brokers[0].start)
            fill(fragile, topic, 5_000, first=first)
        await engine.caught_up(60)
        await engine.stop()
        assert engine.stops == []
        assert_equal_copies(fragile.confluent_config(), clusters.b.confluent_config(), topic, remote)


async def test_replicated_target_changes_leaders_and_loses_a_broker(
    clusters: Clusters, trio: DevCluster, make_topic: TopicMaker
) -> None:
    """Three replicas, two in sync: leaders are moved, one broker is killed and comes back, another one is killed."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 30_000, 365)
    async with Replicated(clusters.a, trio) as flow:
        remote = flow.remote(topic, PARTITIONS, 3, retention_ms="-1", min_insync_replicas="2")
        engine = await flow.engine(fetch=SMALL_FETCHES)
        engine.assign(await flow.assignments([topic]))
        await more_copied(engine, 2_000)
        for node in (1, 2):
            trio.broker(node).kill()
            fill(clusters.a, topic, 5_000, 365, first=30_000 + 5_000 * node)
            await more_copied(engine, 2_000)
            await asyncio.to_thread(trio.broker(node).start)
            # Back to the first replica, away from where it was copied to.
            await asyncio.to_thread(_elect_preferred_leaders, trio, remote)
            fill(clusters.a, topic, 2_000, 365, first=50_000 + 5_000 * node)
        await engine.caught_up(60)
        await engine.stop()
        assert engine.stops == []
        assert_equal_copies(clusters.a.confluent_config(), trio.confluent_config(), topic, remote)


async def test_hung_broker_holds_up_its_own_partitions_alone(
    clusters: Clusters, trio: DevCluster, make_topic: TopicMaker
) -> None:
    """One that accepts connections and answers nothing: what others lead is copied meanwhile."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 4_000)
    async with Replicated(clusters.a, trio) as flow:
        remote = create_topic(trio.confluent_config(), f"A.{topic}", PARTITIONS, replicas=[[1], [2], [1], [3]])
        anchors = {partition: report.anchor for partition, report in (await flow.copy([topic])).items()}
        assignments = await flow.assignments([topic], anchors)
        fill(clusters.a, topic, 4_000, first=4_000)
        engine = await flow.engine()
        trio.broker(3).suspend()
        try:
            engine.assign(assignments)
            await engine.reached({ModelPartition(topic, number): 2_000 for number in range(3)}, 20)
        finally:
            trio.broker(3).resume()
        await engine.caught_up(60)
        await engine.stop()
        assert_equal_copies(clusters.a.confluent_config(), trio.confluent_config(), topic, remote)


async def test_target_disk_is_full(clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker) -> None:
    """The broker ends when its disk takes no more; once there is room, copying goes on where the log ends."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 30_000, compressed=False)
    async with Replicated(clusters.a, fragile) as flow:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        engine = await flow.engine(fetch=SMALL_FETCHES)
        (broker,) = fragile.brokers
        engine.assign(await flow.assignments([topic]))
        await more_copied(engine, 100)
        # No file of the broker's can grow beyond it: writing fails in the middle of a batch, as on a full disk.
        psutil.Process(broker.pid).rlimit(psutil.RLIMIT_FSIZE, (500_000, 500_000))
        await engine.until(lambda: not broker.running, 60, "the broker gave up its log directory")
        await asyncio.to_thread(broker.start)
        await engine.caught_up(60)
        await engine.stop()
        assert_equal_copies(clusters.a.confluent_config(), fragile.confluent_config(), topic, remote)


async def test_source_elects_a_leader_that_lacks_what_was_copied(clusters: Clusters, trio: DevCluster) -> None:
    """An unclean leader election: the partition stops and names where the two logs part; nothing new is copied."""
    config, unclean = trio.confluent_config(), {"unclean.leader.election.enable": "true"}
    topic = create_topic(config, f"unclean-{time.time_ns()}", replicas=[[1, 2]], topic_config=unclean)
    async with Replicated(trio, clusters.b) as flow:
        remote = flow.remote(topic)
        produce(config, topic, sample_messages(30))
        engine = await flow.engine()
        engine.assign(await flow.assignments([topic]))
        await engine.reached({ModelPartition(topic, 0): 30})
        trio.broker(2).kill()
        produce(config, topic, sample_messages(20, first=30))
        await engine.reached({ModelPartition(topic, 0): 50})
        trio.broker(1).kill()
        await asyncio.to_thread(trio.broker(2).start)
        produce(config, topic, sample_messages(40, first=1000))
        trouble = await engine.troubled(ModelPartition(topic, 0), "source_truncated", 60)
        assert (trouble.source_from, trouble.source_to, trouble.resume) == (30, 50, OffsetPair(30, 50))
        await engine.stop()
        await asyncio.to_thread(trio.broker(1).start)
        assert len(read_all(clusters.b.confluent_config(), remote)[0]) == 50


def fill(
    cluster: KafkaCluster, topic: str, count: int, age_days: int = 0, first: int = 0, *, compressed: bool = True
) -> None:
    """Write ``count`` numbered records, spread over the partitions, in many small batches."""
    then = int(time.time() * 1000) - age_days * 86_400_000
    messages = (
        Message(f"{number} {'x' * 200}".encode(), partition=number % PARTITIONS, timestamp_ms=then)
        for number in range(first, first + count)
    )
    codec = "lz4" if compressed else "none"
    produce(cluster.confluent_config(), topic, messages, batch_num_messages=20, codec=codec, enable_idempotence=True)


async def more_copied(engine: Engine, count: int) -> None:
    """Wait until so many more records were acknowledged, or there are none left."""
    engine.look()
    wanted = engine.records + count
    await engine.until(
        lambda: engine.records >= wanted or all(0 <= r.source_end <= r.position for r in engine.reports.values()),
        40,
        f"{wanted} records",
    )


def _elect_preferred_leaders(cluster: DevCluster, topic: str) -> None:
    admin = AdminClient(cluster.confluent_config())
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    admin.elect_leaders(ElectionType.PREFERRED, partitions).result(20)
