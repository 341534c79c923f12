"""Everything starts anew from internal topics that were compacted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.records.mm2_records import CheckpointRecord, OffsetSyncRecord
from mirror_ray.records.segment_block import encode_key, encode_value
from tests.broker.offsets.syncing import numbered, target_offsets, unpublished
from tests.support.clusters import Clusters, TopicMaker, logged_batches
from tests.support.group_sync import CHECKPOINTS, SEGMENTS, SYNCS, commit_many, group_sync, partition_statuses
from tests.support.kafka import Message, alter_topic, produce, produce_transactions
from tests.support.kinds import CLEANED_AT_ONCE
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until_async


async def test_everything_starts_anew_after_all_topics_were_compacted(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """The map is whole, and so is what was written for each group: nobody is thrown back, or left behind."""
    topic = make_topic(clusters.a)
    partition = TopicPartition(topic, 0)
    config = clusters.a.confluent_config()
    flow.remote(topic)
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    group, other = f"{prefix}-g", f"{prefix}-other"
    async with group_sync(clusters, f"{prefix}-.*") as sync:
        for step in range(4):
            transactions = [(numbered(10 * n, 10 * n + 10), n % 3 > 0) for n in range(8 * step, 8 * step + 8)]
            produce_transactions(config, topic, transactions, transactional_id=topic)
            await engine.caught_up()
            await engine.until(lambda: not unpublished(engine), 20, "published")
            await commit_many(clusters.a, {name: {partition: 20 * step + 10} for name in (group, other)})
            await sync.round()
    await engine.stop()
    # It has failed over.
    await commit_many(clusters.b, {other: {TopicPartition(f"A.{topic}", 0): 1}})
    for cluster, name, last in _internal(clusters):
        await _compact(cluster, name, last)
    truth = target_offsets(clusters, topic)
    async with group_sync(clusters, f"{prefix}-.*") as sync:
        for offset in (*list(truth)[9::9], 15):
            await commit_many(clusters.a, {name: {partition: offset} for name in (group, other)})
            await sync.round()
            found = partition_statuses(sync)
            wanted = min(t for s, t in truth.items() if s >= offset)
            assert (found[group, partition].target_offset, found[group, partition].exact) == (wanted, True)
            assert found[group, partition].state == "synced"
            assert found[other, partition].state == "kept"


def _internal(clusters: Clusters) -> Iterator[tuple[DevCluster, str, tuple[bytes, bytes]]]:
    """The topics, each with a record that means nothing to anybody."""
    nobody = TopicPartition("nobody", 0)
    sync = OffsetSyncRecord(partition=nobody, upstream_offset=0, downstream_offset=0)
    yield clusters.a, SYNCS, sync.encode()
    block = SegmentBlock(
        source=nobody,
        source_topic_id=TopicId(""),
        target_topic_id=TopicId(""),
        epoch=1,
        segments=(Segment(0, 0, 0, 0),),
        source_next=0,
    )
    yield clusters.b, SEGMENTS, (encode_key(block.key), encode_value(block))
    checkpoint = CheckpointRecord(group="nobody", partition=nobody, upstream_offset=0, downstream_offset=0)
    yield clusters.b, CHECKPOINTS, checkpoint.encode()


async def _compact(cluster: DevCluster, topic: str, last: tuple[bytes, bytes]) -> None:
    """Let the cleaner run over all that is in it, and then rest."""
    config = cluster.confluent_config()
    before = sum(batch.count for batch in logged_batches(cluster.brokers[0], topic))
    alter_topic(config, topic, CLEANED_AT_ONCE)
    await asyncio.sleep(0.3)
    # A segment is rolled when something comes after its time.
    produce(config, topic, [Message(last[1], last[0])])

    async def cleaned() -> bool:
        return sum(batch.count for batch in logged_batches(cluster.brokers[0], topic)) < before

    await wait_until_async(cleaned, 30, f"{topic} was cleaned")
    rest = {"segment.ms": "604800000", "min.cleanable.dirty.ratio": "0.5", "max.compaction.lag.ms": str(2**63 - 1)}
    alter_topic(config, topic, rest)
