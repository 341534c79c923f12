"""Consumer groups of one member each, which note what they have processed: by Kafka's own client."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException

from mirror_ray.lab.chaos.clients import client_config, record_of
from mirror_ray.lab.chaos.records import Identity, identity
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError

_BATCH: Final = 100
_WAIT_S: Final = 0.1
_END_S: Final = 120.0


class GroupMember:
    """Subscribes, processes, commits, by a thread of its own, until `stop` or until it has read all."""

    def __init__(self, cluster: DevCluster, group: str, topics: Sequence[str], *, to_the_end: bool = False) -> None:
        """``to_the_end``: it stops by itself at the ends of all partitions of ``topics``, which must not grow."""
        self.group = group
        #: Topic and id of each record, in order, noted before it is committed.
        self.processed: list[tuple[str, Identity]] = []
        #: ``time.time()`` of the first one.
        self.first_s: float | None = None
        self._cluster, self._topics, self._to_the_end = cluster, list(topics), to_the_end
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=group, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Process no more than is at hand; returns at once."""
        self._stopping.set()

    def join(self) -> None:
        """Wait until it has left its group.

        Raises:
            MirrorError: It failed, or has not left in two minutes.
        """
        self._thread.join(_END_S)
        if self._thread.is_alive() or self._failure is not None:
            raise MirrorError(f"group {self.group} has not ended well: {self._failure!r}") from self._failure

    def _run(self) -> None:
        try:
            self._consume()
        except BaseException as error:  # noqa: BLE001 - told by `join`
            self._failure = error

    def _consume(self) -> None:
        settings = {
            "group.id": self.group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
        consumer = Consumer(client_config(self._cluster, settings))
        try:
            consumer.subscribe(self._topics)
            ended: set[tuple[str, int]] = set()
            while not self._stopping.is_set():
                self._process(consumer, consumer.consume(_BATCH, timeout=_WAIT_S), ended)
                assigned = {(each.topic, each.partition) for each in consumer.assignment()}
                if self._to_the_end and assigned and assigned <= ended:
                    break
        finally:
            consumer.close()

    def _process(self, consumer: Consumer, messages: Sequence[Any], ended: set[tuple[str, int]]) -> None:
        read = False
        for message in messages:
            if message.error() is not None:
                ended.add((message.topic(), message.partition()))
                continue
            ended.discard((message.topic(), message.partition()))
            who = identity(record_of(message))
            if who is not None:
                self.processed.append((message.topic(), who))
                read, self.first_s = True, self.first_s or time.time()
        if read:
            # A source that was just killed takes no commit: then it was processed, and will be again.
            with suppress(KafkaException):
                consumer.commit(asynchronous=False)
