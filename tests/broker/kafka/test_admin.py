"""Administrative requests against real brokers."""

from __future__ import annotations

import pickle
import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientTopicPartition

from mirror_ray.config.internal_topics import InternalTopic
from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin import ClusterAdmin, NewRemoteTopic, TopicSummary
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.heartbeats import HeartbeatEmitter
from mirror_ray.kafka.librdkafka import AdminError
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import ClusterUnreachableError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.records.mm2_records import HeartbeatRecord
from tests.support.clusters import TopicMaker
from tests.support.kafka import produce, sample_messages
from tests.support.waiting import wait_until


@pytest.fixture
def admin(settings: ClusterSettings) -> ClusterEditor:
    """An administrative client of cluster B."""
    return ClusterEditor(settings, "test-admin", UNRECORDED)


def test_a_topic_is_created_with_its_configs(admin: ClusterEditor, unique_topic: str) -> None:
    """Partitions and configs arrive, and a second creation is no error."""
    topic = NewRemoteTopic(name=unique_topic, partitions=3, configs={"cleanup.policy": "compact"})
    assert admin.create_topics([topic]) == {unique_topic: None}
    assert admin.create_topics([topic]) == {unique_topic: None}
    # The controller has it; the broker that answers hears of it a moment later.
    asked = [unique_topic, "no-such-topic"]
    described = wait_until(lambda: admin.describe_topics(asked), 10, f"{unique_topic} known to its broker")
    assert list(described) == [unique_topic]
    summary = described[unique_topic]
    assert isinstance(summary, TopicSummary)
    assert summary.partitions == 3
    assert len(summary.topic_id) == 22
    assert set("+/").isdisjoint(summary.topic_id)
    configs = admin.describe_topic_configs([unique_topic, "no-such-topic"])
    assert list(configs) == [unique_topic]
    assert configs[unique_topic]["cleanup.policy"].value == "compact"
    assert configs[unique_topic]["cleanup.policy"].source == "DYNAMIC_TOPIC_CONFIG"
    assert configs[unique_topic]["retention.ms"].is_default


def test_an_explicit_replication_factor_fails_clearly(admin: ClusterEditor, unique_topic: str) -> None:
    """The error names cluster, topic, the broker's reason and what to do, and survives pickling."""
    topic = NewRemoteTopic(name=unique_topic, partitions=1, replication_factor=3)
    error = admin.create_topics([topic])[unique_topic]
    assert isinstance(error, AdminError)
    for part in ("cluster B", unique_topic, "INVALID_REPLICATION_FACTOR", "set a replication factor"):
        assert part in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - pickled by the test itself


def test_one_refused_topic_does_not_keep_others_back(admin: ClusterEditor, unique_topic: str) -> None:
    """Each topic of a request has its own outcome."""
    bad = NewRemoteTopic(name=f"{unique_topic}-bad", partitions=1, configs={"retention.ms": "never"})
    outcomes = admin.create_topics([bad, NewRemoteTopic(name=unique_topic, partitions=1)])
    assert outcomes[unique_topic] is None
    assert "retention.ms" in str(outcomes[bad.name])


def test_validation_creates_nothing(admin: ClusterEditor, unique_topic: str) -> None:
    """It answers as a creation would, and leaves no topic behind."""
    assert admin.would_create([NewRemoteTopic(name=unique_topic, partitions=1)]) == {unique_topic: None}
    assert unique_topic not in admin.list_topics()


def test_partitions_are_added_once(admin: ClusterEditor, target: DevCluster, make_topic: TopicMaker) -> None:
    """Growing to a number that is reached already is no error; a smaller one and a missing topic are."""
    topic = make_topic(target, partitions=2)
    assert admin.create_partitions({topic: 4}) == {topic: None}
    assert admin.create_partitions({topic: 4}) == {topic: None}
    assert "INVALID_PARTITIONS" in str(admin.create_partitions({topic: 1})[topic])
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(admin.create_partitions({"no-such-topic": 2})["no-such-topic"])


def test_a_compacted_topic_is_ensured_once(admin: ClusterEditor, unique_topic: str) -> None:
    """The first call creates it with a replication factor that fits the cluster."""
    assert admin.ensure_compacted_topic(unique_topic, 1, None)
    assert not admin.ensure_compacted_topic(unique_topic, 1, None)
    assert admin.describe_topic_configs([unique_topic])[unique_topic]["cleanup.policy"].value == "compact"


def test_internal_topics_are_created_together(admin: ClusterEditor, unique_topic: str) -> None:
    """Those that are there are left alone; one that can't be created says why, and keeps no other from coming."""
    admin.ensure_compacted_topic(unique_topic, 1, None)
    wanted = [
        InternalTopic(name=unique_topic, why=""),
        InternalTopic(name=f"{unique_topic}-new", why=""),
        InternalTopic(name=f"{unique_topic}-refused", replication_factor=3, why=""),
    ]
    failed = admin.ensure_internal_topics(wanted)
    assert failed.keys() == {f"{unique_topic}-refused"}
    assert "INVALID_REPLICATION_FACTOR" in str(failed[f"{unique_topic}-refused"])
    assert (
        admin.describe_topic_configs([f"{unique_topic}-new"])[f"{unique_topic}-new"]["cleanup.policy"].value
        == "compact"
    )
    assert admin.ensure_internal_topics(wanted[:2]) == {}


def test_log_bounds_tell_what_partitions_hold(admin: ClusterEditor, target: DevCluster, make_topic: TopicMaker) -> None:
    """An empty partition starts at its end; one that does not exist is left out."""
    topic = make_topic(target, partitions=2)
    produce(target.confluent_config(), topic, [message._replace(partition=0) for message in sample_messages(5)])
    partitions = [TopicPartition(topic, number) for number in range(2)]
    bounds = admin.log_bounds([*partitions, TopicPartition("no-such-topic", 0)])
    assert bounds == {partitions[0]: (0, 5), partitions[1]: (0, 0)}


def test_everything_is_authorized_without_an_authorizer(
    admin: ClusterEditor, target: DevCluster, make_topic: TopicMaker
) -> None:
    """Brokers tell what we may do; topics that don't exist are left out."""
    topic = make_topic(target)
    granted = admin.authorized_operations([topic, "no-such-topic"])
    assert granted.cluster is not None
    assert "CREATE" in granted.cluster
    assert list(granted.topics) == [topic]
    assert {"READ", "WRITE", "ALTER"} <= (granted.topics[topic] or frozenset())


def test_an_unreachable_cluster_is_named_in_time() -> None:
    """The error holds the alias, the addresses and the last reason, after the connection setup timeout."""
    nowhere = ClusterSettings(alias="X", bootstrap_servers=("127.0.0.1:1",), connection_setup_timeout_ms=1_000)
    began = time.monotonic()
    with pytest.raises(ClusterUnreachableError, match=r"cluster X: .*Connection refused.*X\.bootstrap\.servers"):
        ClusterAdmin(nowhere, "test").ping()
    assert time.monotonic() - began < 5


def test_heartbeats_are_mm2s(settings: ClusterSettings, unique_topic: str) -> None:
    """One record for each flow, in partition 0 of a compacted topic, with the time of emission."""
    flows = [FlowName("A", "B"), FlowName("C", "B")]
    emitter = HeartbeatEmitter(settings, flows, UNRECORDED, topic=unique_topic)
    emitter.emit(1_700_000_000_000)
    assert emitter.acknowledged == dict.fromkeys(flows, 1_700_000_000_000)
    emitter.close()
    consumer = Consumer({"bootstrap.servers": settings.bootstrap_servers[0], "group.id": "test"})
    consumer.assign([ClientTopicPartition(unique_topic, 0, 0)])
    messages = consumer.consume(2, timeout=20)
    consumer.close()
    assert [HeartbeatRecord.decode(message.key(), message.value()).source_alias for message in messages] == ["A", "C"]
    assert {message.timestamp()[1] for message in messages} == {1_700_000_000_000}
