"""Reads source and copy with Kafka's own client, and says what is missing and what is there twice."""

from __future__ import annotations

import time
from array import array
from typing import Final

from confluent_kafka import KafkaError

from mirror_ray.lab.bench.clients import consumer
from mirror_ray.lab.bench.copy_result import CopyResult, Prints, judge
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError

_TIMEOUT_S: Final = 60.0
_AT_ONCE: Final = 20_000
_64_BITS: Final = (1 << 64) - 1


def prints(cluster: DevCluster, topic: str, partitions: int) -> list[Prints[int]]:
    """Every committed record of a topic, by partition. Nobody may write meanwhile.

    Raises:
        MirrorError: It can't be read.
    """
    found: list[Prints[int]] = [array("Q") for _ in range(partitions)]
    reading = consumer(cluster, topic, range(partitions))
    try:
        ended: set[int] = set()
        heard_s = time.monotonic()
        while len(ended) < partitions:
            for message in reading.consume(_AT_ONCE, timeout=0.2):
                heard_s = time.monotonic()
                error, partition = message.error(), message.partition() or 0
                if error is None:
                    # 64 bits: with 32, some two of a hundred thousand records would be taken for the same one.
                    print_ = hash((message.key(), message.value(), message.timestamp()[1]))
                    found[partition].append(print_ & _64_BITS)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - public, in librdkafka's manner
                    ended.add(partition)
                elif not error.retriable():
                    raise MirrorError(f"{topic} can't be read: {error}")
            if time.monotonic() - heard_s > _TIMEOUT_S:
                raise MirrorError(f"{topic} can't be read: nothing came for {_TIMEOUT_S:g} s")
    finally:
        reading.close()
    return found


def compare(
    source: DevCluster, topic: str, target: DevCluster, remote: str, partitions: int, *, finished: bool = True
) -> CopyResult:
    """Compare every record of a topic with its copy. Raises as `prints` does."""
    there, copies = prints(source, topic, partitions), prints(target, remote, partitions)
    found = CopyResult()
    for one, copy in zip(there, copies, strict=True):
        found += judge(one, copy, finished=finished)
    return found
