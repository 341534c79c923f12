"""Reads a topic and its copy by Kafka's own client, and counts what is missing and what is there twice."""

from __future__ import annotations

from array import array
from typing import Final

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.judge import CopyResult, count_differences
from mirror_ray.lab.kafka_client import read_messages

_64_BITS: Final = (1 << 64) - 1


def hash_records(cluster: DevCluster, topic: str, partitions: int) -> list[array[int]]:
    """Hashes of a topic's committed records, by partition; nobody may write. Raises MirrorError if it can't be read."""
    hashes: list[array[int]] = [array("Q") for _ in range(partitions)]
    for message in read_messages(cluster, topic, range(partitions)):
        # 64 bits: with 32, two of a hundred thousand records would have the same hash.
        record_hash = hash((message.key(), message.value(), message.timestamp()[1])) & _64_BITS
        hashes[message.partition() or 0].append(record_hash)
    return hashes


def check_copy(
    source: DevCluster, topic: str, target: DevCluster, remote_topic: str, partitions: int, *, finished: bool = True
) -> CopyResult:
    """Compare a topic with its copy; ``finished`` as in ``count_differences``. Raises as ``hash_records`` does."""
    found = CopyResult()
    for wanted, copied in zip(
        hash_records(source, topic, partitions), hash_records(target, remote_topic, partitions), strict=True
    ):
        found += count_differences(wanted, copied, finished=finished)
    return found
