"""Reading compacted internal topics on a real broker: all of it, in order, and on from the end."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.internal_topics import BlockingTopicReader, CommittedInternalRecord
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import ClusterUnreachableError, TopicMissingError
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import TopicMaker
from tests.support.kafka import Message, create_topic, produce
from tests.support.waiting import wait_until

COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture
def settings(target: DevCluster) -> ClusterSettings:
    """Cluster B as a configuration names it."""
    return ClusterSettings(alias="B", bootstrap_servers=(target.bootstrap,))


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


def read(reader: BlockingTopicReader) -> list[CommittedInternalRecord]:
    """What is there up to the end."""
    return [record for batch in reader.to_end() for record in batch]


def follow(reader: BlockingTopicReader, count: int) -> list[CommittedInternalRecord]:
    """The next records, as they come."""
    found: list[CommittedInternalRecord] = []

    def enough() -> bool:
        found.extend(reader.follow(1))
        return len(found) >= count

    wait_until(enough, 30, f"{count} more records")
    return found


def as_records(messages: list[Message], first_offset: int) -> list[CommittedInternalRecord]:
    """As the reader gives them."""
    return [
        CommittedInternalRecord(offset, each.key, each.value, list(each.headers) or ())
        for offset, each in enumerate(messages, first_offset)
    ]


def test_a_topic_is_read_to_its_end_and_on_from_there(
    target: DevCluster, settings: ClusterSettings, make_topic: TopicMaker
) -> None:
    """Every record once, in order, with its headers; what is written later follows, by either call."""
    topic = make_topic(target, 2, COMPACTED)
    config = target.confluent_config()
    first, second, third = numbered(0, 25_000), numbered(25_000, 10), numbered(25_010, 10)
    with BlockingTopicReader(settings, topic) as reader:
        assert read(reader) == []
        produce(config, topic, [*first, Message(b"in another partition", b"k", partition=1)])
        assert read(reader) == as_records(first, 0)
        assert list(reader.to_end()) == []
        assert reader.follow(0) == []
        produce(config, topic, second)
        assert follow(reader, 10) == as_records(second, 25_000)
        produce(config, topic, third)
        assert read(reader) == as_records(third, 25_010)
    with BlockingTopicReader(settings, topic) as reader:
        assert read(reader) == as_records([*first, *second, *third], 0)


def test_what_was_not_committed_is_not_read(
    target: DevCluster, settings: ClusterSettings, make_topic: TopicMaker
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
    with BlockingTopicReader(settings, topic) as reader:
        assert read(reader) == [CommittedInternalRecord(0, b"k", b"kept")]
        assert read(reader) == []


def test_a_log_that_begins_late_is_read_from_there(
    target: DevCluster, settings: ClusterSettings, make_topic: TopicMaker
) -> None:
    """Deleted records are no hole that is waited for; a log of nothing but them is empty."""
    topic = make_topic(target)
    messages = numbered(0, 100)
    produce(target.confluent_config(), topic, messages)
    admin = ClusterEditor(settings, "test", UNRECORDED)
    for start in (40, 100):
        admin.delete_records({TopicPartition(topic, 0): start})
        with BlockingTopicReader(settings, topic) as reader:
            assert read(reader) == as_records(messages, 0)[start:]


def test_a_topic_that_is_created_anew_is_read_from_its_beginning(
    target: DevCluster, settings: ClusterSettings, make_topic: TopicMaker
) -> None:
    """A topic that is deleted meanwhile is named; one that is shorter than what was read begins again."""
    topic = make_topic(target)
    config = target.confluent_config()
    produce(config, topic, numbered(0, 3))
    admin = AdminClient(config)
    with BlockingTopicReader(settings, topic, patience_s=1) as reader:
        assert len(read(reader)) == 3
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in admin.list_topics(timeout=30).topics, 30, f"{topic} is gone")
        with pytest.raises(TopicMissingError, match=topic):
            read(reader)
        create_topic(config, topic)
        produce(config, topic, numbered(7, 2))
        assert read(reader) == as_records(numbered(7, 2), 0)


def test_a_topic_that_is_missing_is_named_and_not_created(settings: ClusterSettings, unique_topic: str) -> None:
    """Asking does not create it."""
    with (
        BlockingTopicReader(settings, unique_topic, patience_s=1) as reader,
        pytest.raises(TopicMissingError, match=f"cluster B has no topic {unique_topic}: check"),
    ):
        read(reader)
    assert unique_topic not in ClusterAdmin(settings, "test").list_topics()


def test_a_cluster_that_is_gone_is_named() -> None:
    """With what to look at, when patience is over."""
    nowhere = ClusterSettings(alias="gone", bootstrap_servers=("127.0.0.1:9",))
    began = time.monotonic()
    with (
        BlockingTopicReader(nowhere, "any", patience_s=1) as reader,
        pytest.raises(ClusterUnreachableError, match=r"cluster gone did not answer \(read topic any.*gone\.bootstrap"),
    ):
        read(reader)
    assert time.monotonic() - began < 10
