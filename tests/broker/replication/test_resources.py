"""What a replicator costs: memory when the target is slow, processor time when there is nothing to do."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import time
from types import FrameType
from typing import Self

import psutil
from confluent_kafka import Producer

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import Message, produce
from tests.support.reading import assert_equal_copies, end_offsets
from tests.support.replicated import Replicated

log = logging.getLogger(__name__)

MIB = 1 << 20
#: Topics of 100 partitions in the idle test; 20 for the figure that is told.
IDLE_TOPICS = int(os.environ.get("MIRROR_RAY_IDLE_TOPICS", "3"))
BUFFER_BYTES = 32 * MIB
#: Half as many again as 300 partitions take, ten of which get a record a second (14,800).
IDLE_CALLS = 22_000


class CallCount:
    """Counts the calls of functions, Python's and C's, by this thread while the context lasts.

    Processor time hangs on the machine and on what else it does; how many calls a second take is the same everywhere.
    """

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        del frame, argument
        self.calls += event in ("call", "c_call")


async def test_memory_is_bounded_while_the_target_stands_still(
    clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker
) -> None:
    """With 150 MB waiting, the replicator holds its budget and what two fetches bring, and copies it all afterwards."""
    topic = make_topic(clusters.a, 8)
    value = os.urandom(20_000)
    messages = (Message(value, partition=number % 8) for number in range(7_500))
    produce(clusters.a.confluent_config(), topic, messages, batch_num_messages=10, linger_ms=50)
    async with Replicated(clusters.a, fragile) as flow:
        remote = flow.remote(topic, 8)
        engine = await flow.engine(buffer_bytes=BUFFER_BYTES)
        assignments = await flow.assignments([topic])
        gc.collect()
        before = psutil.Process().memory_info().rss
        engine.assign(assignments)
        await engine.until(lambda: engine.records > 500, 20, "some records")
        fragile.brokers[0].suspend()
        spent = -time.thread_time()
        most = 0
        for _ in range(30):
            await asyncio.sleep(0.1)
            engine.look()
            most = max(most, psutil.Process().memory_info().rss - before)
        spent += time.thread_time()
        fragile.brokers[0].resume()
        log.info(
            "buffered %.0f MiB, resident %.0f MiB more, processor %.2f s in 3 s",
            engine.most_buffered_bytes / MIB,
            most / MIB,
            spent,
        )
        # An answer may go beyond its limit by a batch (KIP-74).
        most_bytes = BUFFER_BYTES + 2 * (16 * MIB + MIB)
        assert engine.most_buffered_bytes <= most_bytes
        assert most <= 2 * most_bytes
        await engine.caught_up(60)
        log.info("resident in the end %.0f MiB more", (psutil.Process().memory_info().rss - before) / MIB)
        assert engine.core.report().buffered_bytes == 0
        await engine.stop()
        ends = end_offsets(fragile.confluent_config(), remote)
        assert ends == end_offsets(clusters.a.confluent_config(), topic)


async def test_many_partitions_that_are_mostly_idle(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Ten of them get a record now and then: what the engine costs follows what happens, not what it holds."""
    topics = [make_topic(clusters.a, 100) for _ in range(IDLE_TOPICS)]
    config = clusters.a.confluent_config()
    async with Replicated(clusters.a, clusters.b) as flow:
        for topic in topics:
            flow.remote(topic, 100)
        engine = await flow.engine()
        assignments = await flow.assignments(topics)
        gc.collect()
        process = psutil.Process()
        before = process.memory_info().rss
        engine.assign(assignments)
        await engine.caught_up(60)
        memory = process.memory_info().rss - before
        busy = [TopicPartition(topics[n % IDLE_TOPICS], 7 * n) for n in range(10)]
        writer = Producer(config)
        begun, spent = time.monotonic(), -time.thread_time()
        with CallCount() as counted:
            for _ in range(5):
                for partition in busy:
                    writer.produce(partition.topic, b"busy", partition=partition.partition)
                writer.flush(0)
                await asyncio.sleep(1)
                engine.core.report()
        # Of this thread, where the engine runs: librdkafka has its own.
        spent += time.thread_time()
        seconds = time.monotonic() - begun
        calls = counted.calls / seconds
        log.info("%.0f calls a second, %.2f %% of a core counted", calls, 100 * spent / seconds)
        log.info("%.1f MiB for %d partitions", memory / MIB, len(assignments))
        assert calls < IDLE_CALLS
        await engine.stop()
        for partition in busy[:1]:
            assert_equal_copies(config, clusters.b.confluent_config(), partition.topic, f"A.{partition.topic}")
