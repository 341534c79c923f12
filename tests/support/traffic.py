"""Records that keep coming, and when they arrive: production and an independent look at the copy, each in a thread."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Collection
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.kafka import ConfluentConfig

LAST_YEAR_MS = 1_750_000_000_000
_TICK_S = 0.02


class Background:
    """``_run`` in a thread as long as the context lasts; it ends when ``_stopping`` is set."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


class Production(Background):
    """Writes numbered records to all partitions of a topic, evenly, as long as the context lasts.

    Records of odd partitions are a year old, those of even ones new: brokers forget a producer by the age of its
    records.
    """

    def __init__(self, config: ConfluentConfig, topic: str, partitions: int, records_per_s: int = 1000) -> None:
        super().__init__()
        self.produced = 0
        self._topic, self._partitions = topic, partitions
        self._per_tick = max(1, int(records_per_s * _TICK_S))
        self._producer = Producer(
            {**config, "enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"},
        )
        self._errors: list[KafkaError] = []

    def stop(self) -> None:
        """Write no more; returns when all is acknowledged."""
        super().stop()
        assert self._producer.flush(60.0) == 0
        assert not self._errors, self._errors[0]

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_S):
            for _ in range(self._per_tick):
                partition = self.produced % self._partitions
                timestamp = LAST_YEAR_MS + self.produced if partition % 2 else 0
                value = b"%d " % self.produced * 20
                self._producer.produce(
                    self._topic, value, b"%d" % partition, partition, self._delivered, timestamp=timestamp
                )
                self.produced += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._errors.append(error)


class Arrivals(Background):
    """Reads a topic as it grows and notes when each partition had something new, as long as the context lasts."""

    def __init__(self, config: ConfluentConfig, topic: str, partitions: int) -> None:
        super().__init__()
        self._consumer = Consumer(
            {**config, "group.id": "arrivals", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._times: dict[int, list[float]] = {number: [] for number in range(partitions)}

    def stop(self) -> None:
        """Read no more."""
        super().stop()
        self._consumer.close()

    def standstill_s(self, partition: int, since_s: float) -> float:
        """The longest time from ``since_s`` (monotonic) until now in which the partition had nothing new."""
        times = [since_s, *(each for each in self._times[partition] if each > since_s), time.monotonic()]
        return max(after - before for before, after in itertools.pairwise(times))

    def first_s(self, partitions: Collection[int], since_s: float) -> float | None:
        """When the last of these partitions had something new for the first time since then; None: not yet."""
        firsts = [next((each for each in self._times[number] if each > since_s), None) for number in partitions]
        times = [each for each in firsts if each is not None]
        return max(times, default=since_s) if len(times) == len(firsts) else None

    def longest_s(self, partitions: Collection[int], since_s: float) -> float:
        """The longest standstill of any of these partitions."""
        return max((self.standstill_s(partition, since_s) for partition in partitions), default=0.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1000, timeout=0.05):
                if message.error() is None:
                    times = self._times[message.partition() or 0]
                    now_s = time.monotonic()
                    if not times or now_s > times[-1]:
                        times.append(now_s)
