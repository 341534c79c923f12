"""Live traffic for the demo: records of orders, payments and clicks, and consumer groups that read them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, Message

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.librdkafka import client_config
from mirror_ray.lab.background import BackgroundThread
from mirror_ray.lab.load_generator import LoadGenerator, ProducedRecord
from mirror_ray.model.names import TopicPartition

_CLIENT_ID = "mirror-ray-demo"
_TICK_S = 0.05
#: A demo does not wait longer for a cluster that does not answer.
_STOP_S = 5.0


def value_schema(topic: str) -> str:
    """A JSON Schema of the values of a topic's records."""
    return json.dumps(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": topic,
            "type": "object",
            "properties": {
                "number": {"type": "integer"},
                "cluster": {"type": "string"},
                "time_ms": {"type": "integer"},
            },
        }
    )


class Traffic(LoadGenerator):
    """Produces to the topics in turn, at a steady rate, until it is stopped."""

    def __init__(
        self,
        cluster: ClusterSettings,
        topics: Sequence[str],
        records_per_s: int,
        *,
        schema_ids: Mapping[str, int] | None = None,
    ) -> None:
        """``topics`` must exist. Values of those in ``schema_ids`` begin with the id, as serializers write it."""
        config = client_config(cluster, _CLIENT_ID) | {"compression.type": "zstd", "linger.ms": 20}
        super().__init__(f"traffic-{cluster.alias}", config, records_per_s, self._record, tick_s=_TICK_S)
        #: How many records were acknowledged, by partition.
        self.acknowledged: Counter[TopicPartition] = Counter()
        self.alias = cluster.alias
        self._topics = topics
        self._prefixes = {topic: b"\0" + number.to_bytes(4, "big") for topic, number in (schema_ids or {}).items()}

    @property
    def records(self) -> int:
        """How many records were acknowledged."""
        return self.acknowledged.total()

    def stop(self) -> None:
        """Produce no more; what was produced is flushed as far as five seconds allow."""
        self.ask_to_stop()
        self._thread.join(_STOP_S)

    def _record(self, number: int) -> ProducedRecord:
        topic = self._topics[number % len(self._topics)]
        value = {"number": number, "cluster": self.alias, "time_ms": time.time_ns() // 1_000_000}
        text = self._prefixes.get(topic, b"") + json.dumps(value).encode()
        return ProducedRecord(topic, text, f"{topic}-{number % 1000}".encode())

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:  # noqa: ARG002
        # When the cluster is away, a demo's record is not worth an error.
        if error is None:
            self.acknowledged[TopicPartition(message.topic() or "", message.partition() or 0)] += 1


class TrafficReader(BackgroundThread):
    """A consumer group of one member that reads topics and commits about every second, until it is stopped."""

    def __init__(self, cluster: ClusterSettings, group: str, topics: Sequence[str]) -> None:
        super().__init__(f"group-{group}")
        self._config = client_config(cluster, _CLIENT_ID) | {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1_000,
        }
        self._topics = list(topics)

    def stop(self) -> None:
        """Leave the group, if that takes no longer than five seconds."""
        self.ask_to_stop()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        consumer = Consumer(self._config)
        consumer.subscribe(self._topics)
        while not self._stopping.is_set():
            consumer.consume(1_000, timeout=0.2)
        consumer.close()
