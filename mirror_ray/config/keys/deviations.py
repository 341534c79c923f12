"""Defaults that differ from those of MM2 and its clients, on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: Key -> why ours is better.
DEVIATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "refresh.topics.interval.seconds": "a new topic is copied within seconds; looking is cheap",
        "replication.factor": "MM2's 2 can't be created on a single broker",
        "emit.checkpoints.interval.seconds": "a group that fails over re-reads seconds, not a minute",
        "sync.group.offsets.enabled": "groups can fail over without a tool; live groups are never overwritten",
        "sync.group.offsets.interval.seconds": "a group that fails over re-reads seconds, not a minute",
        "refresh.groups.interval.seconds": "a new group is carried over within seconds",
        "checkpoints.topic.replication.factor": "3 can't be created on fewer brokers",
        "offset-syncs.topic.replication.factor": "3 can't be created on fewer brokers",
        "heartbeats.topic.replication.factor": "3 can't be created on fewer brokers",
        "isolation.level": "aborted records are not records: MM2's default copies them, and consumers see them",
        "fetch.max.bytes": "memory of a replicator is bounded",
        "max.partition.fetch.bytes": "one partition alone fills a long link",
        "receive.buffer.bytes": "the kernel sizes it; 64 KiB throttles a long link",
        "metadata.max.age.ms": "moved leaders and new partitions are seen sooner",
        "compression.type": "batches stay compressed as the source has them; none is taken apart",
        "max.request.size": "many partitions share a request on a long link",
        "send.buffer.bytes": "the kernel sizes it; 128 KiB throttles a long link",
    }
)
