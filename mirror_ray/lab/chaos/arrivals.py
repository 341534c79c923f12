"""Sees by consumers of its own when records arrive on the targets, whatever the system says of itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from mirror_ray.lab.chaos.clients import consumer
from mirror_ray.lab.chaos.topology import TARGETS, TOPICS
from mirror_ray.lab.devcluster import DevCluster


@dataclass(slots=True)
class _Arrivals:
    """Of one partition; seconds of ``time.monotonic``."""

    last_s: float
    longest_s: float = 0.0
    since_s: float = 0.0

    def standstill_s(self, now_s: float) -> float:
        return max(self.longest_s, now_s - max(self.last_s, self.since_s))

    def note(self, now_s: float) -> None:
        self.longest_s = self.standstill_s(now_s)
        self.last_s = now_s


class ArrivalWatch:
    """Reads every remote topic as it grows, as long as the context lasts. The remote topics must exist."""

    def __init__(self, clusters: Mapping[str, DevCluster]) -> None:
        now_s = time.monotonic()
        self._arrivals = {
            (topic.remote_name, number): _Arrivals(now_s) for topic in TOPICS for number in range(topic.partitions)
        }
        #: Those that have records all the time, not only when a transaction ends.
        self._steady = {
            (topic.remote_name, number)
            for topic in TOPICS
            for number in range(topic.partitions)
            if not topic.transactions
        }
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=(cluster, alias), daemon=True)
            for alias, cluster in clusters.items()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def mark(self) -> None:
        """Measure standstills from now on."""
        now_s = time.monotonic()
        for each in self._arrivals.values():
            each.since_s, each.longest_s = now_s, 0.0

    def standstill_s(self) -> float:
        """The longest that any partition had nothing new since `mark`; topics of transactions are left out."""
        now_s = time.monotonic()
        return max(self._arrivals[each].standstill_s(now_s) for each in self._steady)

    def silent_since(self, since_s: float) -> list[str]:
        """Remote partitions that had nothing new since then."""
        return [f"{topic}-{partition}" for (topic, partition), each in self._arrivals.items() if each.last_s <= since_s]

    def _read(self, cluster: DevCluster, alias: str) -> None:
        reader = consumer(cluster)
        reader.assign(
            [
                TopicPartition(topic.remote_name, number, OFFSET_BEGINNING)
                for topic in TOPICS
                if TARGETS[topic.cluster] == alias
                for number in range(topic.partitions)
            ]
        )
        while not self._stopping.is_set():
            for message in reader.consume(1_000, timeout=0.1):
                if message.error() is None:
                    self._arrivals[message.topic() or "", message.partition() or 0].note(time.monotonic())
        reader.close()
