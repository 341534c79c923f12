"""Replicators end without warning, or do not know that they were replaced: nothing is lost, nothing is there twice."""

from __future__ import annotations

import asyncio
import random

import pytest

from mirror_ray.config.settings import FetchSettings
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from tests.chaos.test_brokers_are_killed import KEEP, PARTITIONS, SMALL_FETCHES, fill, more_copied
from tests.support.clusters import Clusters, TopicMaker
from tests.support.reading import assert_equal_copies
from tests.support.replicated import Replicated


@pytest.mark.parametrize("age_days", [0, 365])
async def test_engine_crashes_in_full_flight(clusters: Clusters, make_topic: TopicMaker, age_days: int) -> None:
    """Again and again, taken over from the first anchor, from an old one, and from the last one reported."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 40_000, age_days)
    async with Replicated(clusters.a, clusters.b) as flow:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        history: list[dict[TopicPartition, OffsetPair]] = [{}]
        for turn in range(6):
            engine = await flow.engine(fetch=SMALL_FETCHES)
            anchors = (history[0], history[len(history) // 2], history[-1])[turn % 3]
            engine.assign(await flow.assignments([topic], anchors))
            await more_copied(engine, 4_000)
            history.append({partition: report.anchor for partition, report in engine.reports.items()})
            await engine.crash()
        engine = await flow.engine()
        engine.assign(await flow.assignments([topic], history[1]))
        await engine.caught_up()
        await engine.stop()
        assert engine.stops == []
        assert_equal_copies(clusters.a.confluent_config(), clusters.b.confluent_config(), topic, remote)


@pytest.mark.parametrize("compressed", [False, True])
async def test_cut_codec_and_merging_change_at_every_restart(
    clusters: Clusters, make_topic: TopicMaker, compressed: bool
) -> None:
    """What an engine has sent is found again by one that makes other batches of the same records."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 40_000, compressed=compressed)
    chance = random.Random(compressed)
    async with Replicated(clusters.a, clusters.b) as flow:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        anchors: dict[TopicPartition, OffsetPair] = {}
        for turn in range(6):
            size_bytes = chance.randrange(5_000, 60_000)
            fetch = FetchSettings(max_bytes=4 * size_bytes, max_partition_bytes=size_bytes)
            engine = await flow.engine(fetch=fetch, merge=turn % 3 < 2)
            codec = chance.choice((None, "zstd", "lz4", "gzip", "snappy"))
            largest = chance.randrange(8_000, 200_000)
            engine.assign(await flow.assignments([topic], anchors, max_message_bytes=largest, compress_with=codec))
            await more_copied(engine, 4_000)
            if turn % 2:
                anchors = {partition: report.anchor for partition, report in engine.reports.items()}
            await engine.crash()
        engine = await flow.engine()
        engine.assign(await flow.assignments([topic], anchors))
        await engine.caught_up()
        await engine.stop()
        assert engine.stops == []
        assert_equal_copies(clusters.a.confluent_config(), clusters.b.confluent_config(), topic, remote)


async def test_two_engines_copy_the_same_partitions(clusters: Clusters, make_topic: TopicMaker) -> None:
    """A replicator that was given up but lives writes nothing twice, and the new one gets to the end."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 30_000, 365)
    async with Replicated(clusters.a, clusters.b) as flow:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        twins = [await flow.engine(fetch=SMALL_FETCHES) for _ in range(2)]
        # With one epoch, or the first one would give up by itself.
        assignments = await flow.assignments([topic])
        for twin in twins:
            twin.assign(assignments)
        await asyncio.gather(*(twin.caught_up(60) for twin in twins))
        fill(clusters.a, topic, 2_000, first=30_000)
        await asyncio.gather(*(twin.caught_up(60) for twin in twins))
        for twin in twins:
            await twin.stop()
            assert twin.stops == []
        assert_equal_copies(clusters.a.confluent_config(), clusters.b.confluent_config(), topic, remote)
