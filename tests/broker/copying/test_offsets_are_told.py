"""What a replicator tells of offsets, read from the topics it tells it in."""

from __future__ import annotations

from mirror_ray.devcluster import DevCluster
from tests.support.kafka import consume


def _records(cluster: DevCluster, topic: str) -> list[tuple[bytes, bytes]]:
    return [(each.key or b"", each.value or b"") for each in consume(cluster.confluent_config(), topic)]
