"""The load generator: records at a steady rate, by Kafka's own client."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from mirror_ray.lab.background import BackgroundThread
from mirror_ray.model.errors import MirrorError

_TICK_S: Final = 0.02
_FLUSH_S: Final = 180.0


class ProducedRecord(NamedTuple):
    """A record to produce. ``partition`` -1: by the key; ``timestamp_ms`` 0: now."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0


class LoadGenerator(BackgroundThread):
    """Produces records evenly, by a thread of its own, until it is stopped or has produced ``limit`` records.

    What a stall of this process held up is produced at once afterwards. Subclasses decide what an answer means
    (``_delivered``), and what a producer's life is (``_run``).
    """

    def __init__(
        self,
        name: str,
        config: Mapping[str, Any],
        records_per_s: float,
        next_record: Callable[[int], ProducedRecord],
        *,
        tick_s: float = _TICK_S,
        limit: int | None = None,
        stop_timeout_s: float = 360.0,
    ) -> None:
        """``config`` is the producer's, ``next_record`` makes the record of a number; numbers begin at 0.

        There is at least one record in every burst, ``tick_s`` apart. ``stop`` waits for ``stop_timeout_s`` until
        everything is acknowledged.
        """
        super().__init__(name, stop_timeout_s=stop_timeout_s)
        #: How many records the producer was given.
        self.produced = 0
        self._config = dict(config)
        self._next_record = next_record
        self._per_tick = max(1, int(records_per_s * tick_s + 1e-9))
        self._tick_s = tick_s
        self._limit = limit
        self._errors: list[KafkaError] = []

    def check(self) -> None:
        """Raise MirrorError if the thread has failed, or a record was refused."""
        super().check()
        if self._errors:
            raise MirrorError(
                f"{self.name}: {len(self._errors)} records were refused, the first one: {self._errors[0]}"
            )

    def _run(self) -> None:
        producer = Producer(self._config)
        due_s = time.monotonic()
        while not self._stopping.is_set() and self._produce_tick(producer):
            due_s += self._tick_s
            self._stopping.wait(max(0.0, due_s - time.monotonic()))
        if producer.flush(_FLUSH_S):
            raise MirrorError(f"not all was acknowledged {_FLUSH_S:g} s after the last record")

    def _produce_tick(self, producer: Producer) -> bool:
        """Produce one tick's records, fewer where the producer's buffer is full; returns whether more are to come."""
        for _ in range(self._per_tick):
            if self.produced == self._limit:
                return False
            record = self._next_record(self.produced)
            try:
                producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    record.partition,
                    on_delivery=self._on_delivery(self.produced),
                    timestamp=record.timestamp_ms,
                    headers=list(record.headers),
                )
            except BufferError:
                break
            self.produced += 1
        producer.poll(0)
        return True

    def _on_delivery(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        """What is called with the answer to the record of that number."""
        return partial(self._delivered, number)

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:  # noqa: ARG002 - subclasses need both
        """Handle the answer to the record of that number."""
        if error is not None:
            self._errors.append(error)
