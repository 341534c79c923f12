"""What was removed or lost on the target behind a last pair: whose it was is found out, or told; never guessed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from tests.support.clusters import Clusters, KafkaCluster, TopicMaker
from tests.support.engine import Engine
from tests.support.kafka import Message, delete_records, produce, sample_messages
from tests.support.reading import Record, read_all
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until

_WEEK_MS = 7 * 24 * 3600 * 1000
_EAGER_CLEANER: dict[str, Any] = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "segment_ms": "200",
    "max_compaction_lag_ms": "200",
}


def held(cluster: KafkaCluster, topic: str) -> list[Record]:
    """Every record of partition 0."""
    return read_all(cluster.confluent_config(), topic)[0]


async def test_a_broker_that_was_restarted_does_not_know_whose_it_was(
    clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker
) -> None:
    """Nothing is guessed, unless who copied it last had an answer to all that it sent."""
    topic = make_topic(clusters.a)
    partition = TopicPartition(topic, 0)
    async with Replicated(clusters.a, fragile) as flow:
        remote = flow.remote(topic)
        produce(clusters.a.confluent_config(), topic, sample_messages(30))
        await flow.copy([topic])
        delete_records(fragile.confluent_config(), remote, 30)
        await asyncio.to_thread(fragile.brokers[0].restart)
        for settled, kind in ((False, "copy_lost"), (True, "target_foreign")):
            engine = await flow.engine()
            engine.assign(await flow.assignments([topic], {partition: OffsetPair(20, 20)}, settled=settled))
            await engine.troubled(partition, "copy_lost" if kind == "copy_lost" else "target_foreign")
            await engine.stop()
        # The pair is at the end: it does not matter who wrote what was before it.
        engine = await flow.engine()
        engine.assign(await flow.assignments([topic], {partition: OffsetPair(30, 30)}))
        produce(clusters.a.confluent_config(), topic, sample_messages(10, first=30))
        await engine.caught_up()
        await engine.stop()
        assert held(fragile, remote) == held(clusters.a, topic)[30:]


async def _assign_shared(
    flow: Replicated, engine: Engine, topic: str, producer: tuple[int, int], anchor: OffsetPair
) -> None:
    """Hand out the one partition of a topic whose remote topic others write to, too."""
    given = await flow.assignments([topic], {TopicPartition(topic, 0): anchor})
    engine.assign(
        [replace(assignment, shared=True, producer_id=producer[0], producer_epoch=producer[1]) for assignment in given]
    )


async def _copy_shared(flow: Replicated, topic: str, producer: tuple[int, int], anchor: OffsetPair) -> OffsetPair:
    """Copy it to its end, batch by batch; returns the pair there."""
    engine = await flow.engine(merge=False)
    await _assign_shared(flow, engine, topic, producer, anchor)
    reports = await engine.caught_up()
    await engine.stop()
    return reports[TopicPartition(topic, 0)].anchor


async def test_a_shared_topic_that_was_emptied_behind_the_pair(flow: Replicated, make_topic: TopicMaker) -> None:
    """How many of the records that are gone were ours, the broker remembers."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    producer = await flow.new_producer()
    produce(flow.source.confluent_config(), topic, sample_messages(30))
    await _copy_shared(flow, topic, producer, OffsetPair(0, 0, 0))
    produce(flow.target.confluent_config(), remote, [Message(b"another's")] * 5)
    delete_records(flow.target.confluent_config(), remote, 35)
    produce(flow.source.confluent_config(), topic, sample_messages(10, first=30))
    assert await _copy_shared(flow, topic, producer, OffsetPair(0, 0, 0)) == OffsetPair(40, 45, 40)
    assert held(flow.target, remote) == held(flow.source, topic)[30:]


@pytest.mark.parametrize("old", [False, True], ids=["remembered", "forgotten"])
async def test_a_shared_topic_that_was_cleaned_behind_the_pair(
    clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker, old: bool
) -> None:
    """Newer values of others took our newest batches: they don't come again behind those, whatever the broker knows."""
    topic = make_topic(clusters.a)
    stamp = int(time.time() * 1000) - (_WEEK_MS if old else 0)
    async with Replicated(clusters.a, fragile) as flow:
        remote = flow.remote(topic, **_EAGER_CLEANER)
        producer = await flow.new_producer()
        config, target = clusters.a.confluent_config(), fragile.confluent_config()
        for first in (0, 10):
            keys = [Message(b"%d" % n, b"k%d" % n, timestamp_ms=stamp) for n in range(first, first + 10)]
            produce(config, topic, keys, linger_ms=200)
            await asyncio.sleep(0.3)
        await _copy_shared(flow, topic, producer, OffsetPair(0, 0, 0))
        # What the pair is behind stays; all of our newest batch has newer values.
        newer = [Message(b"newer", b"k%d" % n) for n in range(10, 20)]

        def cleaned() -> bool:
            produce(target, remote, [*newer, Message(b"x", b"rolls a segment")])
            values = [record.value for record in held(fragile, remote)]
            return b"10" not in values and b"19" not in values

        await asyncio.to_thread(wait_until, cleaned, 60, "it was cleaned")
        engine = await flow.engine()
        await _assign_shared(flow, engine, topic, producer, OffsetPair(10, 10, 10))
        if old:
            await engine.troubled(TopicPartition(topic, 0), "copy_lost")
        else:
            await engine.caught_up()
        await engine.stop()
        last = {record.key: record.value for record in held(fragile, remote)}
        assert {last[b"k%d" % n] for n in range(10, 20)} == {b"newer"}
