"""Live traffic for the demo: threads that produce orders, payments and clicks, and groups that read them."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.librdkafka import client_config
from mirror_ray.model.names import TopicPartition

_BURSTS_PER_S = 20


class Traffic:
    """Produces to the topics in turn, at a steady rate, until `stop`."""

    def __init__(self, cluster: ClusterSettings, topics: Sequence[str], records_per_s: int) -> None:
        """``topics`` must exist."""
        #: Acknowledged, by partition.
        self.acknowledged: Counter[TopicPartition] = Counter()
        self.alias = cluster.alias
        self._cluster = cluster
        self._topics = topics
        self._burst = max(1, records_per_s // _BURSTS_PER_S)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._produce, name=f"traffic-{cluster.alias}", daemon=True)

    @property
    def records(self) -> int:
        """Acknowledged in all."""
        return self.acknowledged.total()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End; what has been produced is flushed as far as ``timeout_s`` allows."""
        self._stopped.set()
        self._thread.join(timeout_s)

    def _produce(self) -> None:
        config = client_config(self._cluster, "mirror-ray-demo") | {"compression.type": "zstd", "linger.ms": 20}
        producer = Producer(config)
        numbers = count()
        while not self._stopped.wait(1 / _BURSTS_PER_S):
            for _ in range(self._burst):
                self._send(producer, next(numbers))
            producer.poll(0)
        producer.flush(2.0)

    def _send(self, producer: Producer, number: int) -> None:
        topic = self._topics[number % len(self._topics)]
        value = {"number": number, "cluster": self._cluster.alias, "time_ms": time.time_ns() // 1_000_000}
        # When the cluster is away or behind, a demo's record is not worth waiting for.
        with suppress(BufferError, KafkaException):
            producer.produce(
                topic, key=f"{topic}-{number % 1000}", value=json.dumps(value), on_delivery=self._delivered
            )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[TopicPartition(message.topic() or "", message.partition() or 0)] += 1


class TrafficReader:
    """A consumer group of one member that reads topics and commits about every second, until ``stop``."""

    def __init__(self, cluster: ClusterSettings, group: str, topics: Sequence[str]) -> None:
        self._config = client_config(cluster, "mirror-ray-demo") | {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1_000,
        }
        self._topics = list(topics)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, name=f"group-{group}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Leave the group."""
        self._stopped.set()
        self._thread.join(timeout_s)

    def _read(self) -> None:
        consumer = Consumer(self._config)
        consumer.subscribe(self._topics)
        while not self._stopped.is_set():
            consumer.consume(1_000, timeout=0.2)
        consumer.close()
