"""What metadata shows of an assigned topic: an error, or that it was deleted and created again."""

from __future__ import annotations

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import error_info
from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition


def topic_error(cluster: ClusterConnections, partition: TopicPartition) -> str | None:
    """Return the Kafka error that metadata has for a partition's topic, if any."""
    topic = cluster.metadata.topics.get(partition.topic)
    return error_info(topic.error_code).name if topic is not None and topic.error_code else None


def recreated_id(cluster: ClusterConnections, partition: TopicPartition, assigned: TopicId) -> TopicId | None:
    """Return the id of the topic of that name, where it is not the one that was assigned."""
    topic = cluster.metadata.topics.get(partition.topic)
    if topic is None or NO_TOPIC_ID in {topic.topic_id, assigned} or topic.topic_id == assigned:
        return None
    return topic.topic_id
