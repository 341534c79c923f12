"""Logs that begin at another offset than 0, as those do that retention has shortened."""

from __future__ import annotations

import asyncio

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.offset_prefix import OffsetPrefix, fill_prefix
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import KafkaCluster, cluster_settings
from tests.support.kafka import alter_topic, delete_records


async def begin_at(cluster: KafkaCluster, partition: TopicPartition, start: int, *, compacted: bool = False) -> None:
    """Have an empty log begin there; ``compacted``: that of a topic that is compacted alone."""
    await fill_log(cluster, partition, start, keyed=compacted)
    config, topic = cluster.confluent_config(), partition.topic
    if compacted:
        # Such a topic deletes nothing.
        await asyncio.to_thread(alter_topic, config, topic, {"cleanup.policy": "delete"})
    await asyncio.to_thread(delete_records, config, topic, start, partition.partition)
    if compacted:
        await asyncio.to_thread(alter_topic, config, topic, {"cleanup.policy": "compact"})


async def fill_log(
    cluster: KafkaCluster,
    partition: TopicPartition,
    end: int,
    producer: tuple[int, int] | None = None,
    *,
    keyed: bool = False,
) -> None:
    """Fill an empty log up to there; by a producer of its own, unless it is somebody's."""
    connections = ClusterConnections(cluster_settings("X", cluster), "test")
    try:
        await connections.refresh()
        prefix = OffsetPrefix(
            partition=partition,
            log_end=0,
            end=end,
            producer=producer or await connections.init_producer_id(),
            max_message_bytes=1_048_588,
            keyed=keyed,
        )
        await fill_prefix(connections, prefix)
    finally:
        await connections.close()
