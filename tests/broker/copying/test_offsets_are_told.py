"""What a replicator tells of offsets, read from the topics it tells it in."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_ray.devcluster import DevCluster
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.internal import OffsetSync
from mirror_ray.records.segment_block import decode_block
from tests.support.clusters import Clusters, TopicMaker
from tests.support.engine import Replicated
from tests.support.kafka import Message, append, consume, create_topic


def _records(cluster: DevCluster, topic: str) -> list[tuple[bytes, bytes]]:
    return [(each.key or b"", each.value or b"") for each in consume(cluster.confluent_config(), topic)]
