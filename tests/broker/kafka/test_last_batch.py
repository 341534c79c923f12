"""The last batch below a log's end, as it was when the end was read."""

from __future__ import annotations

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.last_batch import read_last_batches
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import Clusters, TopicMaker, cluster_settings
from tests.support.kafka import produce, sample_messages


async def test_what_was_written_since_is_left_alone(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Another copier of the flow may append between the two reads; its batch is not the one that was asked for."""
    topic = make_topic(clusters.b)
    for first in (0, 3, 8):
        produce(clusters.b.confluent_config(), topic, sample_messages(5 if first == 3 else 3, first=first))
    partition = TopicPartition(topic, 0)
    cluster = ClusterConnections(cluster_settings("B", clusters.b), "test")
    await cluster.refresh([topic])
    ids = {partition: cluster.metadata.topics[topic].topic_id}
    found = await read_last_batches(cluster, ids, {partition: 8})
    await cluster.close()
    tail = found.batches[partition]
    assert (tail.base_offset, tail.next_offset) == (3, 8)
