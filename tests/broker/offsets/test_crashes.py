"""A replicator that crashes before it has published its last segments: the source is read for them."""

from __future__ import annotations

import asyncio

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.map import SegmentGap
from tests.broker.offsets.syncing import crash_unpublished, numbered, synced, target_offsets, targets
from tests.support.clusters import Clusters, TopicMaker, logged_batches
from tests.support.group_sync import followed_maps
from tests.support.kafka import alter_topic, delete_records, produce
from tests.support.kinds import CLEANED_AT_ONCE
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until_async


async def test_a_crash_before_the_last_second_was_told(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """What it copied is found on the source; not where that was cleaned since, and then it is not said to be exact."""
    topic = make_topic(clusters.a)
    transactions = [(numbered(first, first + 10), first % 20 == 0) for first in range(100, 160, 10)]
    await crash_unpublished(flow, topic, numbered(0, 100), transactions, after=numbered(160, 170))
    partition = TopicPartition(topic, 0)
    truth = target_offsets(clusters, topic)
    offsets = {f"{n}": n for n in range(95, 177)}
    async with followed_maps(clusters) as maps:
        page = maps.own.store.find(partition)
        assert page is not None
        assert isinstance(page.segments.to_target(120), SegmentGap)
    found = targets(await synced(clusters, prefix, topic, offsets))
    assert found == {name: min((t for s, t in truth.items() if s >= n), default=140) for name, n in offsets.items()}
    await _clean(clusters.a, topic, partition)
    for name, status in (await synced(clusters, f"{prefix}-cleaned", topic, offsets)).items():
        assert status.target_offset is not None
        assert status.target_offset == found[name] if status.exact else status.target_offset <= (found[name] or 0)
        assert status.exact or (status.reason or "").endswith("are there: the source was cleaned")
        assert status.exact or 100 <= status.source_offset < 166


async def _clean(cluster: DevCluster, topic: str, place: TopicPartition) -> None:
    """Until the cleaner has been there."""
    config = cluster.confluent_config()
    alter_topic(config, topic, CLEANED_AT_ONCE)
    await asyncio.sleep(0.3)
    produce(config, topic, numbered(0, 3))

    async def cleaned() -> bool:
        batches = logged_batches(cluster.brokers[0], topic, place.partition)
        return any(0 < batch.count <= batch.last_offset_delta for batch in batches)

    await wait_until_async(cleaned, 30, f"holes in {topic}")


async def test_a_gap_whose_beginning_was_deleted(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """What is left of it can't be counted: some records are read again, none is left out, and the reason is said."""
    topic = make_topic(clusters.a)
    transactions = [(numbered(first, first + 10), True) for first in range(50, 100, 10)]
    await crash_unpublished(flow, topic, numbered(0, 50), transactions, after=numbered(100, 110))
    delete_records(clusters.a.confluent_config(), topic, 70)
    found = await synced(clusters, prefix, topic, {"before": 49, "gone": 60, "there": 80, "behind": 106})
    assert [(found[name].target_offset, found[name].exact) for name in ("before", "behind")] == [
        (49, True),
        (101, True),
    ]
    for name in ("gone", "there"):
        assert (found[name].target_offset, found[name].exact) == (50, False)
        assert found[name].reason == "source offset 50, from which to count, was deleted"
