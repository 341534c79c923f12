"""Reading compacted internal topics on a real broker: all of it, in order, and on from the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader, latest_records
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import ClusterUnreachableError, TopicMissingError
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.decode import DecodedRecord
from tests.support.clusters import TopicMaker
from tests.support.kafka import Message, create_topic, produce
from tests.support.waiting import wait_until

COMPACTED = {"cleanup.policy": "compact"}


def numbered(first: int, count: int) -> list[Message]:
    """Messages whose value says their number, every third with a header, of ten keys."""
    return [
        Message(
            key=b"k%d" % (number % 10),
            value=b"%d" % number,
            headers=(("mirror-ray.written", b"%d" % number),) if number % 3 == 0 else (),
        )
        for number in range(first, first + count)
    ]


@pytest.fixture
async def connected(settings: ClusterSettings) -> AsyncIterator[ClusterConnections]:
    """The cluster, as code on an event loop has it."""
    cluster = ClusterConnections(settings, "test")
    yield cluster
    await cluster.close()


def reader_of(cluster: ClusterConnections, topic: str) -> InternalTopicReader:
    """A reader of what is committed."""
    return InternalTopicReader(cluster, topic, read_committed=True)


async def read(reader: InternalTopicReader, patience_s: float = 60.0) -> list[DecodedRecord]:
    """What is there up to the end, and counts."""
    records: list[DecodedRecord] = []
    async for chunk in reader.to_end(patience_s):
        if chunk.restarted:
            records.clear()
        records += chunk.records
    return records


def assert_records(records: list[DecodedRecord], messages: list[Message], first_offset: int) -> None:
    """The records are these messages, from that offset on."""
    assert [record.offset for record in records] == list(range(first_offset, first_offset + len(messages)))
    expected = [
        (message.key, message.value, tuple((name.encode(), value) for name, value in message.headers))
        for message in messages
    ]
    assert [record.fields() for record in records] == expected


async def test_a_topic_is_read_to_its_end_and_on_from_there(
    target: DevCluster, connected: ClusterConnections, make_topic: TopicMaker
) -> None:
    """Every record once, in order, with its headers; what is written later follows, by either call."""
    topic = make_topic(target, 2, COMPACTED)
    config = target.confluent_config()
    first, second, third = numbered(0, 25_000), numbered(25_000, 10), numbered(25_010, 10)
    reader = reader_of(connected, topic)
    assert await read(reader) == []
    await asyncio.to_thread(produce, config, topic, [*first, Message(b"in another partition", b"k", partition=1)])
    assert_records(await read(reader), first, 0)
    assert await read(reader) == []
    assert (await reader.read()).records == []
    await asyncio.to_thread(produce, config, topic, second)
    assert_records((await reader.read(30_000)).records, second, 25_000)
    await asyncio.to_thread(produce, config, topic, third)
    assert_records(await read(reader), third, 25_010)
    assert_records(await read(reader_of(connected, topic)), [*first, *second, *third], 0)


async def test_what_was_not_committed_is_not_read(
    target: DevCluster, settings: ClusterSettings, connected: ClusterConnections, make_topic: TopicMaker
) -> None:
    """Aborted records are skipped, and an end that is made of markers alone is one."""
    topic = make_topic(target, 1, COMPACTED)
    producer = Producer({**target.confluent_config(), "transactional.id": topic})
    producer.init_transactions(30)
    for value, end in ((b"kept", producer.commit_transaction), (b"dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value=value, key=b"k", partition=0)
        producer.flush(30)
        end(30)
    reader = reader_of(connected, topic)
    assert_records(await read(reader), [Message(b"kept", b"k")], 0)
    assert await read(reader) == []
    assert [record.value for record in latest_records(settings, topic, patience_s=30).values()] == [b"kept"]


async def test_a_log_that_begins_late_is_read_from_there(
    target: DevCluster, settings: ClusterSettings, connected: ClusterConnections, make_topic: TopicMaker
) -> None:
    """Deleted records are no hole that is waited for; a log of nothing but them is empty."""
    topic = make_topic(target)
    messages = numbered(0, 100)
    produce(target.confluent_config(), topic, messages)
    admin = ClusterEditor(settings, "test", UNRECORDED)
    for start in (40, 100):
        admin.delete_records({TopicPartition(topic, 0): start})
        assert_records(await read(reader_of(connected, topic)), messages[start:], start)


async def test_a_topic_that_is_created_anew_is_read_from_its_beginning(
    target: DevCluster, connected: ClusterConnections, make_topic: TopicMaker
) -> None:
    """A topic that is deleted meanwhile is named; one that is shorter than what was read begins again."""
    topic = make_topic(target)
    config = target.confluent_config()
    produce(config, topic, numbered(0, 3))
    admin = AdminClient(config)
    reader = reader_of(connected, topic)
    assert len(await read(reader)) == 3
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: topic not in admin.list_topics(timeout=30).topics, 30, f"{topic} is gone")
    with pytest.raises(TopicMissingError, match=topic):
        await read(reader, 1)
    create_topic(config, topic)
    produce(config, topic, numbered(7, 2))
    assert_records(await read(reader, 10), numbered(7, 2), 0)


def test_a_topic_that_is_missing_is_named_and_not_created(settings: ClusterSettings, unique_topic: str) -> None:
    """Asking does not create it."""
    with pytest.raises(TopicMissingError, match=f"cluster B has no topic {unique_topic}: check"):
        latest_records(settings, unique_topic, patience_s=1)
    assert unique_topic not in ClusterAdmin(settings, "test").list_topics()


def test_a_cluster_that_is_gone_is_named() -> None:
    """With what to look at, when patience is over."""
    nowhere = ClusterSettings(alias="gone", bootstrap_servers=("127.0.0.1:9",))
    began = time.monotonic()
    with pytest.raises(ClusterUnreachableError, match=r"cluster gone: no broker answers .*gone\.bootstrap"):
        latest_records(nowhere, "any", patience_s=1)
    assert time.monotonic() - began < 10
