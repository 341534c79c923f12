"""How soon what is new on the source is copied, on a machine on which nothing else runs."""

from __future__ import annotations

import uuid

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from mirror_ray.config.settings import TopicSettings
from mirror_ray.mirror import Mirror
from tests.support.clusters import Clusters
from tests.support.kafka import Message, create_topic, produce, sample_messages
from tests.support.reading import end_offsets
from tests.support.systems import run, settings_of
from tests.support.waiting import wait_until

#: Discovery every 4 s by default, and what it takes to create and copy.
FOUND_WITHIN_S = 9.0


def test_single_node_cluster(clusters: Clusters, system: str) -> None:
    """Upstream's testSingleNodeCluster: a topic and a partition that come after the start are copied soon."""
    topic, source = f"u{uuid.uuid4().hex[:8]}", clusters.a.confluent_config()
    mirror = run(
        system, settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=TopicSettings(include=(topic,)))
    )
    wait_until(lambda: mirror.flows[0].discovered, 20, "the first discovery")
    create_topic(source, topic, 1)
    produce(source, topic, sample_messages(10))
    _copied(mirror, topic, 10)
    admin = AdminClient(dict(source))
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    wait_until(lambda: len(end_offsets(source, topic)) == 2, 10, "two partitions")
    produce(source, topic, [Message(b"x", b"k", (), 1)] * 10)
    _copied(mirror, topic, 20)


def _copied(mirror: Mirror, topic: str, records: int) -> None:
    wait_until(
        lambda: (
            sum(partition.target_end for partition in mirror.partitions("A->B") if partition.topic == topic) == records
        ),
        FOUND_WITHIN_S,
        f"{records} records of {topic}",
    )
