"""Sending one batch to the leader of a partition, and waiting for its answer from all in-sync replicas."""

from __future__ import annotations

from mirror_ray.kafka import produce
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION, error_info
from mirror_ray.kafka.fetch import PartitionKey
from mirror_ray.kafka.metadata import topic_id_bytes
from mirror_ray.kafka.produce import ProducedPartition
from mirror_ray.model.names import TopicPartition


async def produce_batch(
    cluster: ClusterConnections,
    partition: TopicPartition,
    batch: memoryview,
    *,
    purpose: str,
    transactional_id: str | None = None,
) -> ProducedPartition:
    """Append a batch that is complete, with ``acks=all``; metadata that has turned out to be stale is read again.

    ``purpose``: of the connection. ``transactional_id``: whose open transaction has the partition.

    Raises:
        OSError, MirrorError: It is not known whether it was appended.
    """
    topic = partition.topic
    if cluster.metadata.leader(partition) < 0:
        await cluster.refresh([topic])
    leader, known = cluster.metadata.leader(partition), cluster.metadata.topics.get(topic)
    if known is None or leader < 0:
        return _unanswered(partition, (known and known.error_code) or UNKNOWN_TOPIC_OR_PARTITION)
    connection = await cluster.connect(leader, purpose)
    highest = produce.HIGHEST_VERSION if transactional_id is None else produce.HIGHEST_ADDED_VERSION
    version = connection.best_version(produce.API_KEY, produce.LOWEST_VERSION, highest)
    by_id = version >= produce.FIRST_TOPIC_ID_VERSION
    key = PartitionKey(topic_id_bytes(known.topic_id) if by_id else topic.encode(), partition.partition)
    body = produce.encode_produce(
        version,
        produce.ALL_REPLICAS,
        cluster.settings.request_timeout_ms,
        [(key, batch)],
        None if transactional_id is None else transactional_id.encode(),
    )
    flexible = version >= produce.FIRST_FLEXIBLE_VERSION
    response = produce.decode_produce(version, await connection.send(produce.API_KEY, version, flexible, body))
    answer = response.partitions[0] if response.partitions else _unanswered(partition, UNKNOWN_TOPIC_OR_PARTITION)
    if answer.error_code and error_info(answer.error_code).invalid_metadata:
        await cluster.refresh([topic])
    return answer


def _unanswered(partition: TopicPartition, error_code: int) -> ProducedPartition:
    return ProducedPartition(PartitionKey(partition.topic.encode(), partition.partition), error_code, -1, None)
