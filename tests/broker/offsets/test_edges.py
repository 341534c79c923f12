"""Where exactness ends, and what the status is there: log starts, heads, shared topics, doubled records."""

from __future__ import annotations

from dataclasses import replace

from confluent_kafka.admin import AdminClient

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from tests.broker.offsets.syncing import copied_from, numbered, synced, targets
from tests.support.clusters import Clusters, TopicMaker
from tests.support.group_sync import commit_many, followed_maps, group_sync, partition_statuses
from tests.support.kafka import Message, delete_records, produce, produce_transactions
from tests.support.reading import end_offsets, read_placed
from tests.support.replicated import Replicated


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
    found = await synced(clusters, prefix, topic, offsets)
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
        found = await synced(clusters, f"{prefix}-{side}", topics[side], {"old": 20, "mid": 50, "new": 80, "end": 100})
        assert targets(found) == {"old": low, "mid": max(low, 50), "new": 80, "end": 100}


async def test_a_deleted_group(clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str) -> None:
    """On the target it stays; created anew on the source, it goes back with it."""
    topic = make_topic(clusters.a)
    partition = TopicPartition(topic, 0)
    produce(clusters.a.confluent_config(), topic, numbered(0, 20))
    flow.remote(topic)
    await flow.copy([topic])
    await commit_many(clusters.a, {prefix: {partition: 15}})
    async with group_sync(clusters, prefix) as sync:
        await sync.round()
        assert partition_statuses(sync)[prefix, partition].state == "synced"
        admin = AdminClient(dict(clusters.a.confluent_config()))
        admin.delete_consumer_groups([prefix])[prefix].result(30)
        await sync.round()
        assert not partition_statuses(sync)
        await commit_many(clusters.a, {prefix: {partition: 4}})
        await sync.round()
        again = partition_statuses(sync)[prefix, partition]
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
    async with followed_maps(clusters) as maps:
        for topic in topics:
            partition = TopicPartition(topic, 0)
            for offset in range(80):
                wanted = there[f"{topic} {offset}".encode()]
                assert (await maps.own.translator.to_target(partition, offset)).offset == wanted
                assert (await maps.own.translator.to_source(partition, wanted)).offset == offset
            head = await maps.own.translator.to_target(partition, 80)
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
        engine.assign([replace(assignment, producer_id=-1, producer_epoch=-1) for assignment in given])
        await engine.caught_up()
        await engine.stop()
        produce(config, topic, numbered(50, 60))
    there = read_placed(clusters.b.confluent_config(), f"A.{topic}")[0]
    found = targets(await synced(clusters, prefix, topic, {f"{n}": n for n in range(60)}))
    for name, offset in found.items():
        value = next(record.value for at, record in there if at == offset)
        assert value == name.encode()
