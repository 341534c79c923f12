"""Consumer groups of one member each, which note what they have processed: by Kafka's own client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException

from mirror_ray.lab.background import BackgroundThread
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import client_config, record_of
from mirror_ray.lab.load_record import RecordId, record_id

_BATCH: Final = 100
_POLL_S: Final = 0.1


class GroupMember(BackgroundThread):
    """Subscribes, processes and commits, by a thread of its own, until it is stopped or has read everything."""

    def __init__(
        self,
        cluster: DevCluster,
        group: str,
        topics: Sequence[str],
        *,
        to_the_end: bool = False,
        session_timeout_s: float = 45.0,
    ) -> None:
        """``to_the_end``: it stops by itself at the ends of all partitions of ``topics``, which must not grow.

        ``session_timeout_s``: how long its group counts a member that could not say that it leaves.
        """
        super().__init__(group)
        #: Topic and id of each record, in order, noted before it is committed.
        self.processed: list[tuple[str, RecordId]] = []
        #: ``time.time()`` when the first record was processed.
        self.first_s: float | None = None
        self._cluster, self._topics, self._to_the_end = cluster, list(topics), to_the_end
        self._session_timeout_s = session_timeout_s

    def _run(self) -> None:
        settings = {
            "group.id": self.name,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
            "session.timeout.ms": int(1000 * self._session_timeout_s),
        }
        consumer = Consumer(client_config(self._cluster, settings))
        try:
            consumer.subscribe(self._topics)
            ended: set[tuple[str, int]] = set()
            while not self._stopping.is_set():
                self._process(consumer, consumer.consume(_BATCH, timeout=_POLL_S), ended)
                assigned = {(partition.topic, partition.partition) for partition in consumer.assignment()}
                if self._to_the_end and assigned and assigned <= ended:
                    break
        finally:
            consumer.close()

    def _process(self, consumer: Consumer, messages: Sequence[Any], ended: set[tuple[str, int]]) -> None:
        processed = False
        for message in messages:
            if message.error() is not None:
                ended.add((message.topic(), message.partition()))
                continue
            ended.discard((message.topic(), message.partition()))
            found = record_id(record_of(message))
            if found is not None:
                self.processed.append((message.topic(), found))
                processed, self.first_s = True, self.first_s or time.time()
        if processed:
            # A source that was just killed takes no commit: its records were processed, and will be again.
            with suppress(KafkaException):
                consumer.commit(asynchronous=False)
