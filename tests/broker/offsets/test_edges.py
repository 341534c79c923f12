"""Where exactness ends, and what is said there: log starts, heads, cleaned and recreated topics, crashes, restarts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.observe.groups import GroupPartitionStatus
from mirror_ray.offsets.map import SegmentGap
from mirror_ray.records.mm2_records import CheckpointRecord, OffsetSyncRecord
from mirror_ray.records.segment_block import encode_key, encode_value
from tests.support.carrying import (
    CHECKPOINTS,
    SEGMENTS,
    SYNCS,
    carrier,
    commit_many,
    follow,
    internal_topics,
    standings,
)
from tests.support.clusters import Clusters, TopicMaker
from tests.support.engine import Engine, Replicated, logged_batches
from tests.support.kafka import (
    Message,
    alter_broker,
    alter_topic,
    create_topic,
    delete_records,
    end_offsets,
    produce,
    produce_transactions,
    read_placed,
)
from tests.support.kinds import CLEANED_AT_ONCE
from tests.support.waiting import wait_until_async


@pytest.fixture
async def flow(clusters: Clusters) -> AsyncIterator[Replicated]:
    """``A->B``, with the topics that tell of offsets."""
    internal_topics(clusters)
    async with Replicated(clusters.a, clusters.b) as replicated:
        yield replicated


@pytest.fixture
def prefix() -> str:
    """Of the groups of a test."""
    return f"edge-{uuid.uuid4().hex[:6]}"


def numbered(first: int, last: int) -> list[Message]:
    """Records whose values are numbers; every fourth one has a key of its own."""
    return [Message(b"%d" % n, b"%d" % (n if n % 4 == 0 else n % 3)) for n in range(first, last)]


async def asked(
    clusters: Clusters, prefix: str, topic: str, offsets: Mapping[str, int]
) -> dict[str, GroupPartitionStatus]:
    """Commit these offsets of the topic's first partition, by group, carry them over, and return what is said."""
    place = TopicPartition(topic, 0)
    await commit_many(clusters.a, {f"{prefix}-{name}": {place: offset} for name, offset in offsets.items()})
    async with carrier(clusters, f"{prefix}-.*") as carrying:
        await carrying.round()
        found = standings(carrying)
    return {name: found[f"{prefix}-{name}", place] for name in offsets}


def targets(found: Mapping[str, GroupPartitionStatus]) -> dict[str, int | None]:
    """What all of them are on the target; all exact."""
    assert all(each.exact for each in found.values()), found
    return {name: each.target_offset for name, each in found.items()}


async def copied_from(flow: Replicated, topic: str, start: OffsetPair) -> None:
    """Copy the topic from there to its end, and stop."""
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic], {TopicPartition(topic, 0): start}))
    await engine.caught_up()
    await engine.stop()


async def crashed(flow: Replicated, engine: Engine, topic: str) -> Engine:
    """Kill it, and let another one go on from where it was last reported to be."""
    engine.look()
    anchors = {partition: report.anchor for partition, report in engine.reports.items()}
    await engine.crash()
    second = await flow.engine()
    second.assign(await flow.assignments([topic], anchors))
    return second


def places(clusters: Clusters, topic: str) -> dict[int, int]:
    """Target offset by source offset."""
    pairs = zip(
        read_placed(clusters.a.confluent_config(), topic)[0],
        read_placed(clusters.b.confluent_config(), f"A.{topic}")[0],
        strict=True,
    )
    return {source: target for (source, _), (target, _) in pairs}


def tell_nothing(engine: Engine) -> None:
    """From now on, as if it died before each second was over."""
    for each in engine.core._flows.values():
        each._telling._task.cancel()


async def test_the_ends_of_the_copy(clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str) -> None:
    """Below the first copied record, at the head, behind the markers there, and above the source's end."""
    topic = make_topic(clusters.a)
    config = clusters.a.confluent_config()
    produce(config, topic, numbered(0, 50))
    delete_records(config, topic, 30)
    aborted = [([Message(b"aborted")] * 3, False), ([Message(b"last")], True), ([Message(b"aborted")], False)]
    produce_transactions(config, topic, aborted, transactional_id=topic)
    end = end_offsets(config, topic)[0]
    flow.remote(topic)
    await copied_from(flow, topic, OffsetPair(30, 0))
    offsets = {"lowest": 0, "below": 29, "first": 30, "hole": 51, "last": 54, "head": 55, "end": end, "above": end + 1}
    found = await asked(clusters, prefix, topic, offsets)
    above = found.pop("above")
    assert targets(found) == {"lowest": 0, "below": 0, "first": 0, "hole": 20, "last": 20, "head": 21, "end": 21}
    assert (above.target_offset, above.exact, above.state) == (21, False, "behind")
    assert above.reason == f"it stands at {end + 1} on the source, the copy at {end}"


async def test_log_starts_that_have_moved(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """On the source nothing changes; on the target a group begins where the log does."""
    topics = {side: make_topic(clusters.a) for side in ("source", "target", "both")}
    for topic in topics.values():
        produce(clusters.a.confluent_config(), topic, numbered(0, 100))
        flow.remote(topic)
    await flow.copy(topics.values())
    for side in ("source", "both"):
        delete_records(clusters.a.confluent_config(), topics[side], 40)
    for side in ("target", "both"):
        delete_records(clusters.b.confluent_config(), f"A.{topics[side]}", 60)
    for side, low in (("source", 20), ("target", 60), ("both", 60)):
        found = await asked(clusters, f"{prefix}-{side}", topics[side], {"old": 20, "mid": 50, "new": 80, "end": 100})
        assert targets(found) == {"old": low, "mid": max(low, 50), "new": 80, "end": 100}


async def test_a_crash_before_the_last_second_was_told(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """What it copied is found on the source; not where that was cleaned since, and then it is not said to be exact."""
    topic = make_topic(clusters.a)
    config = clusters.a.confluent_config()
    flow.remote(topic)
    engine = await flow.engine()
    produce(config, topic, numbered(0, 100))
    engine.assign(await flow.assignments([topic]))
    await engine.caught_up()
    await engine.until(lambda: not _untold(engine), 20, "told")
    tell_nothing(engine)
    transactions = [(numbered(100 + 10 * each, 110 + 10 * each), each % 2 == 0) for each in range(6)]
    produce_transactions(config, topic, transactions, transactional_id=topic)
    await engine.caught_up()
    engine = await crashed(flow, engine, topic)
    produce(config, topic, numbered(160, 170))
    await engine.caught_up()
    await engine.stop()
    place = TopicPartition(topic, 0)
    truth = places(clusters, topic)
    offsets = {f"{n}": n for n in range(95, 177)}
    async with follow(clusters) as maps:
        page = maps.own.store.find(place)
        assert page is not None
        assert isinstance(page.segments.to_target(120), SegmentGap)
    found = targets(await asked(clusters, prefix, topic, offsets))
    assert found == {name: min((t for s, t in truth.items() if s >= n), default=140) for name, n in offsets.items()}
    await _clean(clusters.a, topic, place)
    for name, each in (await asked(clusters, f"{prefix}-cleaned", topic, offsets)).items():
        assert each.target_offset is not None
        assert each.target_offset == found[name] if each.exact else each.target_offset <= (found[name] or 0)
        assert each.exact or (each.reason or "").endswith("are there: the source was cleaned")
        assert each.exact or 100 <= each.source_offset < 166


def _untold(engine: Engine) -> bool:
    copies = [copy for each in engine.core._flows.values() for copy in each._telling._changed]
    return bool(copies) or any(each._telling._at_work.locked() for each in engine.core._flows.values())


async def _clean(cluster: DevCluster, topic: str, place: TopicPartition) -> None:
    """Until the cleaner has been there."""
    config = cluster.confluent_config()
    alter_broker(config, 1, {"log.cleaner.backoff.ms": "100"})
    alter_topic(config, topic, CLEANED_AT_ONCE)
    await asyncio.sleep(0.3)
    produce(config, topic, numbered(0, 3))

    async def cleaned() -> bool:
        batches = logged_batches(cluster.brokers[0], topic, place.partition)
        return any(0 < each.count <= each.last_offset_delta for each in batches)

    await wait_until_async(cleaned, 30, f"holes in {topic}")


async def test_a_gap_whose_beginning_was_deleted(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """What is left of it can't be counted: some records are read again, none is left out, and the reason is said."""
    topic = make_topic(clusters.a)
    config = clusters.a.confluent_config()
    flow.remote(topic)
    engine = await flow.engine()
    produce(config, topic, numbered(0, 50))
    engine.assign(await flow.assignments([topic]))
    await engine.caught_up()
    await engine.until(lambda: not _untold(engine), 20, "told")
    tell_nothing(engine)
    transactions = [(numbered(50 + 10 * each, 60 + 10 * each), True) for each in range(5)]
    produce_transactions(config, topic, transactions, transactional_id=topic)
    await engine.caught_up()
    engine = await crashed(flow, engine, topic)
    produce(config, topic, numbered(100, 110))
    await engine.caught_up()
    await engine.stop()
    delete_records(config, topic, 70)
    found = await asked(clusters, prefix, topic, {"before": 49, "gone": 60, "there": 80, "behind": 106})
    assert [(found[name].target_offset, found[name].exact) for name in ("before", "behind")] == [
        (49, True),
        (101, True),
    ]
    for name in ("gone", "there"):
        assert (found[name].target_offset, found[name].exact) == (50, False)
        assert found[name].reason == "source offset 50, from which to count, was deleted"


async def test_a_recreated_source_topic(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """Offsets of the new topic are not looked up in the old one's map; once it is copied, they are behind that."""
    topic = make_topic(clusters.a)
    config = clusters.a.confluent_config()
    produce(config, topic, numbered(0, 20))
    flow.remote(topic)
    await flow.copy([topic])
    assert targets(await asked(clusters, prefix, topic, {"g": 15})) == {"g": 15}
    await _delete(clusters.a, topic)
    create_topic(config, topic)
    produce(config, topic, numbered(20, 30))
    (found,) = (await asked(clusters, prefix, topic, {"g": 3})).values()
    assert (found.target_offset, found.state) == (None, "behind")
    assert found.reason == f"topic {topic} on cluster A was created anew, and nothing of that was copied yet"
    await copied_from(flow, topic, OffsetPair(0, 20))
    assert targets(await asked(clusters, prefix, topic, {"g": 3, "other": 0})) == {"g": 23, "other": 20}


async def test_a_recreated_remote_topic(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """It is empty: nothing is committed before it was copied again, and then by the new map."""
    topic = make_topic(clusters.a)
    config = clusters.a.confluent_config()
    produce(config, topic, numbered(0, 20))
    flow.remote(topic)
    await flow.copy([topic])
    await _delete(clusters.b, f"A.{topic}")
    (found,) = (await asked(clusters, prefix, topic, {"missing": 5})).values()
    assert found.reason == f"topic A.{topic} on cluster B is missing"
    flow.remote(topic)
    (found,) = (await asked(clusters, prefix, topic, {"empty": 5})).values()
    assert found.target_offset is None
    delete_records(config, topic, 10)
    await copied_from(flow, topic, OffsetPair(10, 0))
    assert targets(await asked(clusters, prefix, topic, {"g": 15, "low": 5})) == {"g": 5, "low": 0}


async def _delete(cluster: DevCluster, topic: str) -> None:
    admin = AdminClient(dict(cluster.confluent_config()))
    admin.delete_topics([topic])[topic].result(30)

    async def gone() -> bool:
        return topic not in admin.list_topics(timeout=30).topics

    await wait_until_async(gone, 30, f"{topic} is gone")


async def test_a_deleted_group(clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str) -> None:
    """On the target it stays; created anew on the source, it goes back with it."""
    topic = make_topic(clusters.a)
    place = TopicPartition(topic, 0)
    produce(clusters.a.confluent_config(), topic, numbered(0, 20))
    flow.remote(topic)
    await flow.copy([topic])
    await commit_many(clusters.a, {prefix: {place: 15}})
    async with carrier(clusters, prefix) as carrying:
        await carrying.round()
        assert standings(carrying)[prefix, place].state == "synced"
        admin = AdminClient(dict(clusters.a.confluent_config()))
        admin.delete_consumer_groups([prefix])[prefix].result(30)
        await carrying.round()
        assert not standings(carrying)
        await commit_many(clusters.a, {prefix: {place: 4}})
        await carrying.round()
        again = standings(carrying)[prefix, place]
        assert (again.state, again.target_offset) == ("synced", 4)


async def test_a_shared_remote_topic(clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str) -> None:
    """Two sources and somebody else write it: every group stands before the very record of its own source."""
    topics = [make_topic(clusters.a) for _ in range(2)]
    flow.remote(topics[1])
    remote = flow.remote(topics[0])
    shared = (await flow.assignments([topics[0]]))[0]
    engine = await flow.engine()
    for topic in topics:
        producer_id, producer_epoch = await flow.new_producer()
        (own,) = await flow.assignments([topic], {TopicPartition(topic, 0): OffsetPair(0, 0, 0)})
        engine.assign(
            [
                replace(
                    own,
                    target=shared.target,
                    target_topic_id=shared.target_topic_id,
                    shared=True,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                )
            ]
        )
    for part in range(4):
        for topic in topics:
            values = [Message(f"{topic} {n}".encode()) for n in range(20 * part, 20 * part + 20)]
            produce(clusters.a.confluent_config(), topic, values)
        produce(clusters.b.confluent_config(), remote, [Message(b"somebody else")] * 3)
        await engine.caught_up()
    await engine.stop()
    there = {record.value: offset for offset, record in read_placed(clusters.b.confluent_config(), remote)[0]}
    async with follow(clusters) as maps:
        for topic in topics:
            place = TopicPartition(topic, 0)
            for offset in range(80):
                wanted = there[f"{topic} {offset}".encode()]
                assert (await maps.own.translator.to_target(place, offset)).offset == wanted
                assert (await maps.own.translator.to_source(place, wanted)).offset == offset
            head = await maps.own.translator.to_target(place, 80)
            assert head.offset == there[f"{topic} 79".encode()] + 1


async def test_at_least_once(clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str) -> None:
    """Records that are there twice: a group stands before one of its record's copies, and leaves none out."""
    topic = make_topic(clusters.a)
    config = clusters.a.confluent_config()
    flow.remote(topic)
    produce(config, topic, numbered(0, 50))
    for start in (OffsetPair(0, 0), OffsetPair(30, 50)):
        engine = await flow.engine()
        given = await flow.assignments([topic], {TopicPartition(topic, 0): start})
        engine.assign([replace(each, producer_id=-1, producer_epoch=-1) for each in given])
        await engine.caught_up()
        await engine.stop()
        produce(config, topic, numbered(50, 60))
    there = read_placed(clusters.b.confluent_config(), f"A.{topic}")[0]
    found = targets(await asked(clusters, prefix, topic, {f"{n}": n for n in range(60)}))
    for name, offset in found.items():
        value = next(record.value for at, record in there if at == offset)
        assert value == name.encode()


async def test_everything_starts_anew_after_all_topics_were_compacted(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """The map is whole, and so is what was written for each group: nobody is thrown back, or left behind."""
    topic = make_topic(clusters.a)
    place = TopicPartition(topic, 0)
    config = clusters.a.confluent_config()
    flow.remote(topic)
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    group, other = f"{prefix}-g", f"{prefix}-other"
    async with carrier(clusters, f"{prefix}-.*") as carrying:
        for step in range(4):
            transactions = [(numbered(10 * n, 10 * n + 10), n % 3 > 0) for n in range(8 * step, 8 * step + 8)]
            produce_transactions(config, topic, transactions, transactional_id=topic)
            await engine.caught_up()
            await engine.until(lambda: not _untold(engine), 20, "told")
            await commit_many(clusters.a, {name: {place: 20 * step + 10} for name in (group, other)})
            await carrying.round()
    await engine.stop()
    # It has failed over.
    await commit_many(clusters.b, {other: {TopicPartition(f"A.{topic}", 0): 1}})
    for cluster, name, last in _internal(clusters):
        await _compact(cluster, name, last)
    truth = places(clusters, topic)
    async with carrier(clusters, f"{prefix}-.*") as carrying:
        for offset in (*list(truth)[9::9], 15):
            await commit_many(clusters.a, {name: {place: offset} for name in (group, other)})
            await carrying.round()
            found = standings(carrying)
            wanted = min(t for s, t in truth.items() if s >= offset)
            assert (found[group, place].target_offset, found[group, place].exact) == (wanted, True)
            assert found[group, place].state == "synced"
            assert found[other, place].state == "kept"


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
    alter_broker(config, 1, {"log.cleaner.backoff.ms": "100"})
    before = sum(each.count for each in logged_batches(cluster.brokers[0], topic))
    alter_topic(config, topic, CLEANED_AT_ONCE)
    await asyncio.sleep(0.3)
    # A segment is rolled when something comes after its time.
    produce(config, topic, [Message(last[1], last[0])])

    async def cleaned() -> bool:
        return sum(each.count for each in logged_batches(cluster.brokers[0], topic)) < before

    await wait_until_async(cleaned, 30, f"{topic} was cleaned")
    rest = {"segment.ms": "604800000", "min.cleanable.dirty.ratio": "0.5", "max.compaction.lag.ms": str(2**63 - 1)}
    alter_topic(config, topic, rest)
