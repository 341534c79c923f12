"""Copies of every kind of topic, at rest and under way: no false alarm, and nothing that passes for checked."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import TopicMaker, logged_batches
from tests.support.engine import Engine
from tests.support.kafka import Message, alter_topic, delete_records, produce, produce_transactions, sample_messages
from tests.support.kinds import CLEANED_AT_ONCE, KINDS, compact, create_every_kind, fill_every_kind
from tests.support.replicated import Replicated
from tests.support.verifying import verified
from tests.support.waiting import wait_until_async

CLEANED = {**CLEANED_AT_ONCE, "delete.retention.ms": "0"}


async def test_every_kind_of_topic_is_equal(flow: Replicated) -> None:
    """Codecs, transactions, holes, headers, tombstones, large records, LogAppendTime, empty partitions."""
    mark = f"verify-{uuid.uuid4().hex[:6]}"
    topics = create_every_kind(flow.source, mark)
    fill_every_kind(flow.source, mark)
    compact(flow.source, mark)
    for topic, (partitions, _) in zip(topics, KINDS.values(), strict=True):
        flow.remote(topic, partitions, retention_ms="-1")
    await flow.copy(topics)
    report = await verified(flow.settings(), topics, range_offsets=40)
    assert [partition.text for partition in report.partitions if partition.outcome != "equal"] == []
    records = {topic: sum(p.checked.records for p in report.partitions if p.topic == topic) for topic in topics}
    assert [topic for topic, count in records.items() if not count] == [f"{mark}-nothing"]
    assert {p.topic for p in report.partitions if p.compacted} == {f"{mark}-compacted"}


async def test_a_target_that_sets_timestamps(flow: Replicated, make_topic: TopicMaker) -> None:
    """They are not compared, and it says so."""
    topic = make_topic(flow.source)
    flow.remote(topic, message_timestamp_type="LogAppendTime")
    produce(flow.source.confluent_config(), topic, sample_messages(50))
    await flow.copy([topic])
    (partition,) = (await verified(flow.settings(), [topic])).partitions
    assert partition.outcome == "equal"
    assert "timestamps were not compared" in partition.checked.notes[0]


async def test_while_records_come_and_are_removed(flow: Replicated, make_topic: TopicMaker) -> None:
    """Traffic, aborts, and records deleted on either side while they are read: what is left is equal."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    partition = TopicPartition(topic, 0)
    config = flow.source.confluent_config()
    produce(config, topic, sample_messages(3000))
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    await engine.caught_up()
    await _wait_until_published(flow, topic)
    over = asyncio.Event()
    traffic = asyncio.create_task(_traffic(config, topic, over))
    try:
        for deleted in range(300, 2400, 300):
            cluster, name = ((flow.source, topic), (flow.target, remote))[deleted // 300 % 2]
            verifying = asyncio.create_task(verified(flow.settings(), [topic], range_offsets=100))
            await asyncio.to_thread(delete_records, cluster.confluent_config(), name, deleted)
            report = await verifying
            assert report.equal, report.plain()
            assert engine.look()[partition].state == "copying"
    finally:
        over.set()
        await traffic
    await engine.caught_up()
    await engine.stop()
    (found,) = (await verified(flow.settings(), [topic])).partitions
    assert found.outcome == "equal"
    assert found.source_from == 2100
    assert found.checked.records > 900


async def _wait_until_published(flow: Replicated, topic: str) -> None:
    """Wait until the segments topic tells of the copy: here is no coordinator that would know."""

    async def is_published() -> bool:
        return (await verified(flow.settings(), [topic])).outcome != "not_checked"

    await wait_until_async(is_published, 20, "the copy is told of")


async def _traffic(config: dict[str, str | int | float | bool], topic: str, over: asyncio.Event) -> None:
    number = 0
    while not over.is_set():
        number += 1
        messages = [(sample_messages(30), number % 3 != 0)]
        await asyncio.to_thread(produce_transactions, config, topic, messages, transactional_id=topic)


@pytest.mark.timeout(300)
async def test_compacted_on_both_sides_at_different_times(flow: Replicated, make_topic: TopicMaker) -> None:
    """Under traffic, with cleaners at work on the one side and then on the other; tombstones go at once."""
    topic = make_topic(flow.source, topic_config=CLEANED)
    remote = flow.remote(topic, cleanup_policy="compact")
    config = flow.source.confluent_config()
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    await _write(config, topic, 99)
    await _wait_until_published(flow, topic)
    for step in range(12):
        await _write(config, topic, step)
        if step == 6:
            alter_topic(flow.target.confluent_config(), remote, CLEANED)
        report = await verified(flow.settings(), [topic])
        assert report.equal, report.plain()
    await _cleaned(engine, flow, remote)
    await engine.caught_up()
    await engine.stop()
    (found,) = (await verified(flow.settings(), [topic])).partitions
    assert found.outcome == "equal"
    assert found.compacted
    assert found.checked.keys > 20


async def _write(config: dict[str, str | int | float | bool], topic: str, step: int) -> None:
    messages = [
        Message(None if (n + step) % 5 == 0 else b"%d %d" % (step, n), b"key %d" % (n if n % 3 else n + 10 * step))
        for n in range(40)
    ]
    await asyncio.to_thread(produce, config, topic, messages, batch_num_messages=15)
    await asyncio.sleep(0.25)


async def _cleaned(engine: Engine, flow: Replicated, remote: str) -> None:
    async def holes() -> bool:
        engine.look()
        batches = logged_batches(flow.target.brokers[0], remote)
        return any(0 < batch.count <= batch.last_offset_delta for batch in batches)

    await wait_until_async(holes, 30, "the target was cleaned")


async def test_what_can_not_be_checked_is_said(flow: Replicated, make_topic: TopicMaker) -> None:
    """A topic of which nothing was copied, one without a remote topic; a name that is not copied is an error."""
    copied, never = make_topic(flow.source), make_topic(flow.source)
    flow.remote(copied)
    produce(flow.source.confluent_config(), copied, sample_messages(10))
    produce(flow.source.confluent_config(), never, sample_messages(10))
    report = await verified(flow.settings(), [copied, never])
    assert not report.equal
    assert [partition.outcome for partition in report.partitions] == ["not_checked", "not_checked"]
    reasons = {partition.topic: partition.checked.reason or "" for partition in report.partitions}
    assert "nothing was copied" in reasons[copied]
    assert f"A.{never}-0 is missing on cluster B" in reasons[never]
    with pytest.raises(ConfigError, match="no such topic"):
        await verified(flow.settings(), ["no-such-topic"])


async def test_a_cluster_that_is_not_there(flow: Replicated) -> None:
    """It is named."""
    settings = flow.settings()
    gone = ClusterSettings(alias="B", bootstrap_servers=("127.0.0.1:1",))
    settings = settings.model_copy(update={"clusters": {**settings.clusters, "B": gone}})
    with pytest.raises(ClusterUnreachableError, match="cluster B"):
        await verified(settings, [])
