"""Statistics for tests."""

from __future__ import annotations

from typing import Any

from mirror_ray.records.statistics import PartitionStatistics

_SOME: dict[str, Any] = {
    "flow": "A->B",
    "topic": "orders",
    "partition": 0,
    "target_topic": "A.orders",
    "target_partition": 0,
    "source_topic_id": "",
    "target_topic_id": "",
    "shared": False,
    "replicator": "r-0",
    "epoch": 1,
    "from_ms": 60_000,
    "to_ms": 120_000,
    "source_from": 0,
    "source_to": 10,
    "target_from": 0,
    "target_to": 10,
    "records": 10,
    "batches": 1,
    "wire_bytes": 1000,
    "sampled_wire_bytes": 1000,
    "sampled_uncompressed_bytes": 1000,
    "codec": "none",
    "latency_ms": {10: 10},
    "lag_records": 0,
    "lag_ms": 0,
    "lag_records_max": 5,
    "restarts": 0,
}


def partition_statistics(**changes: object) -> PartitionStatistics:
    """Ten records of one partition in one minute, but for ``changes``."""
    return PartitionStatistics(**(_SOME | changes))
