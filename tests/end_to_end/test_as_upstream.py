"""What MM2's own integration tests assert of the data, on our system ."""

from __future__ import annotations

import uuid

import pytest

from mirror_ray.config.settings import ClusterSettings, FetchSettings, HeartbeatSettings, TopicSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.mirror import Mirror
from tests.support.clusters import Clusters
from tests.support.kafka import Message, create_topic, produce, sample_messages
from tests.support.reading import end_offsets, read_all
from tests.support.systems import run, settings_of, topics_with, wait_caught_up
from tests.support.waiting import wait_until

PARTITIONS = 10
RECORDS = 100


@pytest.fixture
def pair(clusters: Clusters) -> dict[str, DevCluster]:
    """Upstream's primary and backup."""
    return {"A": clusters.a, "B": clusters.b}


@pytest.fixture
def mark() -> str:
    """A part of all topic names of a test."""
    return f"u{uuid.uuid4().hex[:8]}"


def messages(first: int = 0) -> list[Message]:
    """Ten records in each of ten partitions, all with keys: the topic may be compacted."""
    return [Message(b"value", b"key-%d" % n, (), n % PARTITIONS) for n in range(first, first + RECORDS)]


def topic_config(cluster: DevCluster, topic: str) -> dict[str, str | None]:
    """The topic's configs, defaults among them."""
    admin = ClusterAdmin(ClusterSettings(alias=cluster.name, bootstrap_servers=(cluster.bootstrap,)), "upstream-test")
    return {key: entry.value for key, entry in admin.describe_topic_configs([topic])[topic].items()}


def count(cluster: DevCluster, topic: str) -> int:
    """How many records a read_committed consumer sees."""
    return sum(map(len, read_all(cluster.confluent_config(), topic).values()))


def has_topics(cluster: DevCluster, *topics: str) -> None:
    """Wait until the cluster has these topics."""
    wait_until(lambda: topics_with(cluster, "") >= set(topics), 20, f"{topics} on {cluster.name}")


def copied(mirror: Mirror, flow: str, topic: str, records: int, timeout_s: float = 30.0) -> None:
    """Wait until that many records were copied."""
    wait_until(
        lambda: sum(each.target_end for each in mirror.partitions(flow) if each.topic == topic) == records,
        timeout_s,
        f"{records} records of {topic} in {flow}",
    )


def test_replication(pair: dict[str, DevCluster], mark: str, system: str) -> None:
    """testReplication: both ways, configs at creation, heartbeats both ways, topics that come later."""
    for cluster in pair.values():
        create_topic(
            cluster.confluent_config(),
            mark,
            PARTITIONS,
            topic_config={"cleanup.policy": "compact", "retention.bytes": "1000", "delete.retention.ms": "2000"},
        )
        produce(cluster.confluent_config(), mark, messages())
    topics = TopicSettings(
        include=(f".*{mark}.*",), refresh_interval_s=1.0, config_properties_exclude=("delete\\.retention\\.ms",)
    )
    mirror = run(system, settings_of(pair, "A->B", "B->A", topics=topics, heartbeats=HeartbeatSettings()))
    wait_caught_up(mirror, {("A->B", mark): PARTITIONS, ("B->A", mark): PARTITIONS})
    for here, there in (("A", "B"), ("B", "A")):
        remote = f"{here}.{mark}"
        assert count(pair[there], mark) == RECORDS
        assert count(pair[there], remote) == RECORDS
        config = topic_config(pair[there], remote)
        assert config["cleanup.policy"] == "compact"
        assert config["retention.bytes"] == "1000"
        assert config["delete.retention.ms"] != "2000"
        has_topics(pair[there], "heartbeats", f"{here}.heartbeats")
    for number in (2, 3):
        later = f"{mark}-{number}"
        create_topic(pair["A"].confluent_config(), later, 1)
        produce(pair["A"].confluent_config(), later, sample_messages(10))
        copied(mirror, "A->B", later, 10)


def test_replication_with_empty_partition(pair: dict[str, DevCluster], mark: str, system: str) -> None:
    """testReplicationWithEmptyPartition: one partition of ten stays empty on both sides, and lags by nothing."""
    create_topic(pair["A"].confluent_config(), mark, PARTITIONS)
    produce(pair["A"].confluent_config(), mark, [each for each in messages() if each.partition != 9])
    mirror = run(system, settings_of(pair, "A->B", topics=mark))
    wait_caught_up(mirror, {("A->B", mark): PARTITIONS})
    ends = end_offsets(pair["B"].confluent_config(), f"A.{mark}")
    assert ends == {**dict.fromkeys(range(9), 10), 9: 0}


def test_replicate_from_latest(pair: dict[str, DevCluster], mark: str, system: str) -> None:
    """testReplicateFromLatest: of a topic that was there before, exactly what comes after the start is copied."""
    create_topic(pair["A"].confluent_config(), mark, PARTITIONS)
    produce(pair["A"].confluent_config(), mark, messages())
    mirror = run(system, settings_of(pair, "A->B", topics=f"{mark}.*", fetch=FetchSettings(auto_offset_reset="latest")))
    wait_caught_up(mirror, {("A->B", mark): PARTITIONS})
    produce(pair["A"].confluent_config(), mark, messages(RECORDS))
    copied(mirror, "A->B", mark, RECORDS)
    assert end_offsets(pair["B"].confluent_config(), f"A.{mark}") == dict.fromkeys(range(PARTITIONS), 10)
    later = f"{mark}-later"
    create_topic(pair["A"].confluent_config(), later, 1)
    produce(pair["A"].confluent_config(), later, sample_messages(10))
    copied(mirror, "A->B", later, 10)
