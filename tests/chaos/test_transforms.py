"""A filter that leaves out two records of three, while replicators and the target's broker are killed."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left

import pytest

from mirror_ray.config.settings import FetchSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import TopicEnds
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.transforms.loading import TransformChains
from tests.chaos.test_brokers_are_killed import KEEP, PARTITIONS, SMALL_FETCHES, fill, more_copied
from tests.support.clusters import Clusters, TopicMaker, logged_batches
from tests.support.group_sync import commit_many, group_sync, internal_topics, partition_statuses
from tests.support.kernels import needs_kernel
from tests.support.reading import read_placed
from tests.support.replicated import Replicated
from tests.support.transforms import THIRD, of_the_third, transforms
from tests.support.waiting import wait_until_async

RECORDS = 30_000
GROUPS = 100
SETTINGS = transforms(THIRD)


@pytest.mark.timeout(300)
async def test_nothing_lost_nothing_doubled_and_groups_where_they_belong(
    clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker
) -> None:
    """Taken over from the first anchor, an old one and the last one; producers of last year's records are forgotten."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, RECORDS, 365)
    pair = Clusters(clusters.a, fragile)
    internal_topics(pair)
    async with Replicated(clusters.a, fragile) as flow:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        identity = TransformChains(SETTINGS.steps).identity(topic)
        history: list[dict[TopicPartition, OffsetPair]] = [{}]
        for turn in range(4):
            engine = await flow.engine(fetch=SMALL_FETCHES, transforms=SETTINGS)
            anchors = (history[0], history[len(history) // 2], history[-1])[turn % 3]
            engine.assign(await flow.assignments([topic], anchors, transforms=identity))
            await more_copied(engine, 1_000)
            if turn == 1:
                fragile.brokers[0].kill()
                await asyncio.to_thread(fragile.brokers[0].start)
                await more_copied(engine, 500)
            history.append({partition: report.anchor for partition, report in engine.reports.items()})
            assert engine.stops == []
            await engine.crash()
            await _until_nothing_is_carried_out(fragile, remote)
        engine = await flow.engine(transforms=SETTINGS)
        engine.assign(await flow.assignments([topic], history[1], transforms=identity))
        await engine.caught_up(60)
        await engine.stop()
        assert engine.stops == []
    pairs = _pairs(clusters.a, fragile, topic, remote)
    await _groups_stand_at_their_records(pair, pairs)


@needs_kernel
@pytest.mark.parametrize("compressed", [False, True])
async def test_cut_codec_and_merging_change_at_every_restart(
    clusters: Clusters, make_topic: TopicMaker, compressed: bool
) -> None:
    """What is left of merged batches is found again by an engine that makes other batches of it."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, RECORDS, compressed=compressed)
    dice = random.Random(compressed)
    async with Replicated(clusters.a, clusters.b) as flow:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        identity = TransformChains(SETTINGS.steps).identity(topic)
        anchors: dict[TopicPartition, OffsetPair] = {}
        for turn in range(6):
            size_bytes = dice.randrange(5_000, 60_000)
            fetch = FetchSettings(max_bytes=4 * size_bytes, max_partition_bytes=size_bytes)
            engine = await flow.engine(fetch=fetch, merge=turn % 3 < 2, transforms=SETTINGS)
            codec = dice.choice((None, "zstd", "lz4", "gzip", "snappy"))
            largest = dice.randrange(8_000, 200_000)
            assigned = await flow.assignments([topic], anchors, largest, compress_with=codec, transforms=identity)
            engine.assign(assigned)
            await more_copied(engine, 1_000)
            if turn % 2:
                anchors = {partition: report.anchor for partition, report in engine.reports.items()}
            assert engine.stops == []
            await engine.crash()
        engine = await flow.engine(transforms=SETTINGS)
        engine.assign(await flow.assignments([topic], anchors, transforms=identity))
        await engine.caught_up()
        await engine.stop()
        assert engine.stops == []
    _pairs(clusters.a, clusters.b, topic, remote)
    ours, theirs = (
        sum(len(logged_batches(cluster.brokers[0], name, number)) for number in range(PARTITIONS))
        for cluster, name in ((clusters.b, remote), (clusters.a, topic))
    )
    assert 0 < ours < theirs


async def _until_nothing_is_carried_out(target: DevCluster, remote: str) -> None:
    """A broker that has forgotten a producer takes what it carries out late at any place (docs/guarantees.md).

    This one forgets within 200 ms, not ten minutes; on a busy machine its requests have waited longer than that.
    """
    ends = TopicEnds(target, remote, range(PARTITIONS))

    async def stands_still() -> bool:
        before = await asyncio.to_thread(ends.total)
        await asyncio.sleep(0.5)
        return await asyncio.to_thread(ends.total) == before >= 0

    await wait_until_async(stands_still, 20, f"{remote} does not grow")


def _pairs(
    source: DevCluster, target: DevCluster, topic: str, remote: str
) -> dict[TopicPartition, list[tuple[int, int]]]:
    """Source and target offset of every record; all that should be there are, once and in order."""
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    there = read_placed(target.confluent_config(), remote)
    for number, records in read_placed(source.confluent_config(), topic).items():
        kept = [(offset, record) for offset, record in records if of_the_third(record.value)]
        wanted = [record._replace(headers=(*record.headers, ("kept", b"yes"))) for _, record in kept]
        assert [each for _, each in there[number]] == wanted
        found[TopicPartition(topic, number)] = [
            (offset, place) for (offset, _), (place, _) in zip(kept, there[number], strict=True)
        ]
    return found


async def _groups_stand_at_their_records(pair: Clusters, pairs: dict[TopicPartition, list[tuple[int, int]]]) -> None:
    """Each at its very record, or at the next one that is there."""
    dice = random.Random(7)
    groups = {
        f"{next(iter(pairs)).topic}-{number}": {
            each: dice.randint(0, found[-1][0] + 1) for each, found in pairs.items()
        }
        for number in range(GROUPS)
    }
    await commit_many(pair.a, groups)
    async with group_sync(pair, f"{next(iter(pairs)).topic}-.*", transforms=SETTINGS) as carrying:

        async def translated() -> bool:
            # What a round does not find within a second the next one has.
            await carrying.round()
            return not any("being read" in (place.reason or "") for place in partition_statuses(carrying).values())

        await wait_until_async(translated, 60, "every offset is translated")
        places = partition_statuses(carrying)
    for group, offsets in groups.items():
        for partition, offset in offsets.items():
            place, found = places[group, partition], pairs[partition]
            at = bisect_left(found, (offset, -1))
            wanted = found[at][1] if at < len(found) else found[-1][1] + 1
            assert (place.target_offset, place.exact) == (wanted, True), (group, partition, offset, place)
