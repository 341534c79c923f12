"""Records that keep coming, and when they arrive: a load, and a consumer of the copy, each in a thread of its own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping

from confluent_kafka import Message, TopicPartition

from mirror_ray.lab.kafka_client import TopicTail
from mirror_ray.lab.load_generator import LoadGenerator, ProducedRecord
from tests.support.kafka import ConfluentConfig

LAST_YEAR_MS = 1_750_000_000_000


class Production(LoadGenerator):
    """Writes numbered records to all partitions of a topic, evenly, as long as the context lasts.

    Records of odd partitions are a year old, those of even ones new: brokers forget a producer by the age of its
    records.
    """

    def __init__(self, config: ConfluentConfig, topic: str, partitions: int, records_per_s: int = 1000) -> None:
        producer = {**config, "enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"}
        super().__init__(f"production of {topic}", producer, records_per_s, self._record)
        self._topic, self._partitions = topic, partitions

    def _record(self, number: int) -> ProducedRecord:
        partition = number % self._partitions
        timestamp_ms = LAST_YEAR_MS + number if partition % 2 else 0
        return ProducedRecord(
            self._topic, b"%d " % number * 20, b"%d" % partition, partition, timestamp_ms=timestamp_ms
        )


class Arrivals(TopicTail):
    """Reads a topic as it grows and notes when each partition had something new, as long as the context lasts.

    ``begin``: the offsets to begin at, where that is not the beginning.
    """

    def __init__(
        self, config: ConfluentConfig, topic: str, partitions: int, begin: Mapping[int, int] | None = None
    ) -> None:
        begins = [TopicPartition(topic, number, (begin or {}).get(number, 0)) for number in range(partitions)]
        super().__init__(config, begins, self._note)
        self._times: dict[int, list[float]] = {number: [] for number in range(partitions)}

    def standstill_s(self, partition: int, since_s: float) -> float:
        """The longest time from ``since_s`` (monotonic) until now in which the partition had nothing new."""
        times = [since_s, *(at_s for at_s in self._times[partition] if at_s > since_s), time.monotonic()]
        return max(after - before for before, after in itertools.pairwise(times))

    def first_s(self, partitions: Collection[int], since_s: float) -> float | None:
        """When the last of these partitions had something new for the first time since then; None: not yet."""
        firsts = [next((at_s for at_s in self._times[number] if at_s > since_s), None) for number in partitions]
        times = [at_s for at_s in firsts if at_s is not None]
        return max(times, default=since_s) if len(times) == len(firsts) else None

    def longest_s(self, partitions: Collection[int], since_s: float) -> float:
        """The longest standstill of any of these partitions."""
        return max((self.standstill_s(partition, since_s) for partition in partitions), default=0.0)

    def _note(self, message: Message, now_s: float) -> None:
        self._times[message.partition() or 0].append(now_s)
