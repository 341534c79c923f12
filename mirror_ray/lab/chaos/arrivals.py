"""Watches by consumers of its own when records arrive on the targets, whatever the system says of itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Message, TopicPartition

from mirror_ray.lab.chaos.topology import TARGETS, Topic
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import TopicTail, client_config


@dataclass(slots=True)
class _PartitionArrivals:
    """When records of one partition arrived; seconds of ``time.monotonic``."""

    last_s: float
    longest_s: float = 0.0
    since_s: float = 0.0

    def standstill_s(self, now_s: float) -> float:
        return max(self.longest_s, now_s - max(self.last_s, self.since_s))

    def note(self, now_s: float) -> None:
        self.longest_s = self.standstill_s(now_s)
        self.last_s = now_s


class ArrivalWatch:
    """Reads the remote topics as they grow, as long as the context lasts. The remote topics must exist."""

    def __init__(self, clusters: Mapping[str, DevCluster], topics: Sequence[Topic]) -> None:
        now_s = time.monotonic()
        self._arrivals = {
            partition: _PartitionArrivals(now_s) for topic in topics for partition in topic.remote_partitions
        }
        #: Partitions that have new records all the time, not only when a transaction ends.
        self._steady = {
            partition for topic in topics if not topic.transactions for partition in topic.remote_partitions
        }
        self._tails = []
        for alias, cluster in clusters.items():
            copied = [topic.remote_partitions for topic in topics if TARGETS[topic.cluster] == alias]
            partitions = [TopicPartition(*partition, OFFSET_BEGINNING) for partition in chain.from_iterable(copied)]
            self._tails.append(TopicTail(client_config(cluster), partitions, self._note))
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for tail in self._tails:
            self._stack.enter_context(tail)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def mark(self) -> None:
        """Measure standstills from now on."""
        now_s = time.monotonic()
        for partition in self._arrivals.values():
            partition.since_s, partition.longest_s = now_s, 0.0

    def standstill_s(self) -> float:
        """The longest time since `mark` in which a partition had nothing new; topics of transactions are left out."""
        return max(self.standstills_s().values())

    def standstills_s(self) -> dict[str, float]:
        """The same of each remote partition, by name."""
        now_s = time.monotonic()
        steady = sorted(self._steady)
        return {f"{topic}-{number}": self._arrivals[topic, number].standstill_s(now_s) for topic, number in steady}

    def silent_since(self, since_s: float) -> list[str]:
        """The remote partitions that have had nothing new since then."""
        return [
            f"{topic}-{partition}"
            for (topic, partition), arrivals in self._arrivals.items()
            if arrivals.last_s <= since_s
        ]

    def _note(self, message: Message, now_s: float) -> None:
        self._arrivals[message.topic() or "", message.partition() or 0].note(now_s)
