"""Thousands of committed offsets, and where they are on the target: ours, and what MM2's algorithm makes of them."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pytest

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import OffsetSyncRecord
from tests.support.clusters import Clusters, logged_batches
from tests.support.engine import Engine
from tests.support.group_sync import SYNCS, commit_many, group_sync, internal_topics, partition_statuses
from tests.support.kafka import Message, alter_topic, create_topic, produce, produce_transactions
from tests.support.kinds import CLEANED_AT_ONCE
from tests.support.mm2_offset_sync_store import TOO_OLD, Mm2OffsetSyncStore
from tests.support.mm2_syncs import Pair, emitted
from tests.support.reading import read_all, read_placed
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until_async

GROUPS = 400
PARTITIONS = 3
RECORDS = 6_000
CLEANED = {**CLEANED_AT_ONCE, "retention.ms": "-1"}


class Topics(NamedTuple):
    """Each kind of topic. Values are unique; in all but ``transactional`` they are the record's source offset."""

    plain: str
    transactional: str
    #: Cleaned while it is copied.
    compacted: str
    #: Cleaned when it was copied: on the source, and on the target.
    cleaned_source: str
    cleaned_target: str


@dataclass
class Truth:
    """One partition's copy, record by record."""

    #: (source offset, target offset), in order.
    pairs: list[Pair]

    def target(self, source: int) -> int:
        """Of the first copied record that is not before ``source``; behind the last one, the end."""
        at = bisect_left(self.pairs, (source, -1))
        return self.pairs[at][1] if at < len(self.pairs) else self.pairs[-1][1] + 1


async def test_the_very_record(clusters: Clusters, capsys: pytest.CaptureFixture[str]) -> None:
    """For every group and partition, whatever happened to the topics; MM2 reads thousands of records again."""
    internal_topics(clusters)
    topics = _create(clusters)
    async with Replicated(clusters.a, clusters.b) as flow:
        for topic in topics:
            flow.remote(topic, PARTITIONS)
        await _copy_while_it_comes(clusters.a, topics, flow)
    truths = _truths(clusters, topics)
    await _clean_afterwards(clusters, topics)
    dice, prefix = random.Random(5), uuid.uuid4().hex[:6]
    groups = {
        f"{prefix}-{number}": {p: dice.randint(0, truth.pairs[-1][0] + 1) for p, truth in truths.items()}
        for number in range(GROUPS)
    }
    await commit_many(clusters.a, groups)
    asked = [(group, p, offset) for group, offsets in groups.items() for p, offset in offsets.items()]
    async with group_sync(clusters, f"{prefix}-.*") as sync:
        await sync.round()
        found = partition_statuses(sync)
    places = [found[group, partition] for group, partition, _ in asked]
    assert {place.state for place in places} == {"synced"}, {place.reason for place in places}
    assert all(place.exact for place in places)
    wrong = [
        (group, str(partition), offset, place.target_offset, truths[partition].target(offset))
        for (group, partition, offset), place in zip(asked, places, strict=True)
        if place.target_offset != truths[partition].target(offset)
    ]
    assert not wrong, (len(wrong), wrong[:10])
    lines = [f"{len(asked)} offsets: records that are read again{'':11}ours  MM2: mean     max  unknown"]
    syncs = _published(clusters.a, truths)
    for kind, topic in topics._asdict().items():
        of_topic = [(p, offset) for _, p, offset in asked if p.topic == topic]
        told = [sync for p, truth in truths.items() if p.topic == topic for sync in emitted(p, truth.pairs)]
        lines.append(_figures(f"{kind}, MM2's own pairs", told, of_topic, truths))
        lines.append(_figures(f"{kind}, ours as MM2 reads them", syncs, of_topic, truths))
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *lines, ""]))


def _create(clusters: Clusters) -> Topics:
    mark, config = uuid.uuid4().hex[:8], clusters.a.confluent_config()
    topics = Topics(*(f"exact-{mark}-{kind}" for kind in Topics._fields))
    for topic in topics:
        cleaned = CLEANED if topic == topics.compacted else {}
        create_topic(config, topic, PARTITIONS, topic_config=cleaned)
    return topics


async def _copy_while_it_comes(source: DevCluster, topics: Topics, flow: Replicated) -> None:
    """Two replicators after each other; the first one crashes."""
    plain = [topics.plain, topics.cleaned_source, topics.cleaned_target]
    await asyncio.to_thread(_fill, source, topics, plain, 0)
    await wait_until_async(lambda: _holes(source, topics.compacted), 30, "holes before it is copied")
    engine = await flow.engine()
    engine.assign(await flow.assignments(topics))
    await asyncio.to_thread(_fill, source, topics, plain, 1)
    await engine.caught_up()
    await asyncio.to_thread(_fill, source, topics, [topics.plain], 2)
    engine = await _crashed_and_taken_over(engine, flow, topics)
    await asyncio.to_thread(_fill, source, topics, [topics.plain], 3)
    await engine.caught_up()
    await engine.stop()


async def _crashed_and_taken_over(engine: Engine, flow: Replicated, topics: Topics) -> Engine:
    """In the midst of it; what is cleaned afterwards had been told."""
    engine.look()
    anchors = {partition: report.anchor for partition, report in engine.reports.items()}
    await engine.crash()
    second = await flow.engine()
    second.assign(await flow.assignments(topics, anchors))
    return second


def _fill(source: DevCluster, topics: Topics, plain: Iterable[str], part: int) -> None:
    """A quarter of everything; of ``plain`` only so many topics."""
    config, count = source.confluent_config(), RECORDS // 4
    for topic in plain:
        produce(config, topic, _numbered(part * count, count, keys=count))
    few = count // 6
    for step in range(3):
        produce(config, topics.compacted, _numbered((3 * part + step) * few, few, keys=40))
        # A segment is rolled when something comes after its time.
        time.sleep(0.3)
    transactions = [
        (_numbered(1_000 * (12 * part + step), 10 + 7 * step, keys=1), (part + step) % 3 > 0) for step in range(12)
    ]
    produce_transactions(config, topics.transactional, transactions, transactional_id=topics.transactional)


def _numbered(first: int, count: int, keys: int) -> list[Message]:
    """So many in each partition, numbered from ``first`` on; every other one replaces one that is ``keys`` before."""
    return [
        Message(b"%d" % number, b"%d" % (number % keys if number % 2 else number), partition=partition)
        for number in range(first, first + count)
        for partition in range(PARTITIONS)
    ]


async def _holes(cluster: DevCluster, topic: str) -> bool:
    """Whether the cleaner has left holes in every partition."""
    batches = [logged_batches(cluster.brokers[0], topic, partition) for partition in range(PARTITIONS)]
    return all(any(0 < batch.count <= batch.last_offset_delta for batch in found) for found in batches)


async def _clean_afterwards(clusters: Clusters, topics: Topics) -> None:
    for cluster, topic in ((clusters.a, topics.cleaned_source), (clusters.b, f"A.{topics.cleaned_target}")):
        config = cluster.confluent_config()
        alter_topic(config, topic, CLEANED)
        # A segment is rolled when something comes after its time.
        await asyncio.sleep(0.3)
        produce(config, topic, [Message(b"", b"0", partition=number) for number in range(PARTITIONS)])
        await wait_until_async(partial(_holes, cluster, topic), 30, f"holes in {topic}")


def _truths(clusters: Clusters, topics: Topics) -> dict[TopicPartition, Truth]:
    """As long as the source and the target of the transactional topic, and all other targets, have everything."""
    transactional = read_placed(clusters.a.confluent_config(), topics.transactional)
    truths: dict[TopicPartition, Truth] = {}
    for topic in topics:
        for partition, records in read_placed(clusters.b.confluent_config(), f"A.{topic}").items():
            of_value = {record.value: offset for offset, record in transactional[partition]}
            pairs = [
                (of_value[record.value] if topic == topics.transactional else int(record.value or b""), target)
                for target, record in records
            ]
            assert pairs == sorted(pairs)
            truths[TopicPartition(topic, partition)] = Truth(pairs)
    return truths


def _published(source: DevCluster, truths: Mapping[TopicPartition, Truth]) -> list[OffsetSyncRecord]:
    """What MM2 can read of ours."""
    records = read_all(source.confluent_config(), SYNCS)[0]
    syncs = [OffsetSyncRecord.decode(record.key, record.value) for record in records]
    return [sync for sync in syncs if sync.partition in truths]


def _figures(
    title: str,
    syncs: Iterable[OffsetSyncRecord],
    asked: Sequence[tuple[TopicPartition, int]],
    truths: Mapping[TopicPartition, Truth],
) -> str:
    """What MM2's algorithm makes of pairs, beside ours; it is never ahead."""
    store = Mm2OffsetSyncStore()
    store.start()
    for sync in syncs:
        store.add(sync)
    answers = [(store.translate(p, offset), truths[p].target(offset)) for p, offset in asked]
    again = [truth - answer for answer, truth in answers if answer is not None and answer != TOO_OLD]
    assert min(again) >= 0
    unknown = len(answers) - len(again)
    return f"  {title:<45}{0:>5}{statistics.mean(again):>11.1f}{max(again):>8}{unknown:>9}"
