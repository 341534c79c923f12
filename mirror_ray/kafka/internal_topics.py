"""Reads compacted internal topics: heartbeats, checkpoints, offset-syncs, segments, state.

All of them have their records in partition 0, whatever their number of partitions, as MM2 reads and writes them.
Blocking, over a consumer of its own, committed records only: for ``MirrorClient``, which needs no event loop, and for
the state topic, which is read once. ``internal_reader`` is for those who follow topics on an event loop.
"""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore, and are public all the same

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientTopicPartition

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.librdkafka import (
    FENCED_PAUSE_S,
    client_config,
    list_in_service,
    mirror_error,
    no_broker_in_service,
    until_answered,
)
from mirror_ray.model.errors import TopicMissingError

_LOG = logging.getLogger(__name__)

#: Records handed out at once.
_MOST_RECORDS: Final = 10_000
#: A topic that was created a moment ago may be unknown to the broker that we ask.
_PROPAGATION_S: Final = 10.0

_HOPELESS: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})


class CommittedInternalRecord(NamedTuple):
    """A committed record; ``value`` None is a tombstone, which deletes the key."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


class BlockingTopicReader:
    """Reads partition 0 of one topic from its beginning: to its end, and on from there. One call at a time.

    Guarantees: every record that is committed and not compacted away comes once, in order. Where the log ends before
    what was read of it (the topic was created anew, or cut), ``to_end`` begins at its beginning: offsets go back.
    """

    def __init__(self, cluster: ClusterSettings, topic: str, *, patience_s: float = 60.0) -> None:
        """``patience_s``: how long brokers may leave us without any answer."""
        self.cluster = cluster
        self.topic = topic
        self._patience_s = patience_s
        #: Offset of the next record to hand out; -1: not begun.
        self._position = -1
        #: What the client said last, where nothing has come since.
        self._trouble: KafkaError | None = None
        self._consumer = Consumer(
            client_config(cluster, f"mirror-ray-read-{topic}")
            | {
                # Never joined and never committed to: librdkafka only asks for a name.
                "group.id": "mirror-ray",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                # What was held back because much was waiting is asked for again at once, not a second later.
                "fetch.queue.backoff.ms": 10,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def to_end(self) -> Iterator[Sequence[CommittedInternalRecord]]:
        """Yield what was not read yet, up to the end that the log has at this call, some thousands at a time.

        Raises:
            TopicMissingError: There is no such topic.
            ClusterUnreachableError: No answer for as long as patience lasts; what came before is good.
            AdminError: READ is not granted, or the cluster can't serve the topic.
        """
        try:
            end = self._begin()
            while self._position < end:
                if records := self._next():
                    yield records
        except KafkaException as failure:
            raise mirror_error(self.cluster, f"read topic {self.topic}", failure) from failure

    def follow(self, timeout_s: float) -> Sequence[CommittedInternalRecord]:
        """What was written since, at once where there is something; else what comes within ``timeout_s``, or nothing.

        To be called after ``to_end``. Brokers that don't answer are waited for: ask ``to_end`` where that matters.

        Raises:
            AdminError: READ is no longer granted.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while not (records := self._take(max(0.0, deadline - time.monotonic()))):
                if time.monotonic() >= deadline:
                    break
        except KafkaException as failure:
            raise mirror_error(self.cluster, f"read topic {self.topic}", failure) from failure
        return records

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def _begin(self) -> int:
        """Find the log, begin to fetch it, and answer where its committed records end."""
        partition = ClientTopicPartition(self.topic, 0)
        self._wait_until_there()
        start, end = until_answered(
            lambda timeout_s: self._consumer.get_watermark_offsets(partition, timeout=timeout_s), self._patience_s
        )
        if self._position < 0 or end < self._position:
            self._consumer.assign([ClientTopicPartition(self.topic, 0, start)])
            self._position = start
        return end

    def _wait_until_there(self) -> None:
        """Return when the cluster knows the topic; nothing is created by asking."""
        deadline = time.monotonic() + min(self._patience_s, _PROPAGATION_S)
        while True:
            metadata = self._metadata()
            error = metadata.topics[self.topic].error
            if error is None or error.code() == KafkaError.LEADER_NOT_AVAILABLE:
                return
            if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise KafkaException(error)
            if time.monotonic() > deadline:
                raise TopicMissingError(
                    f"cluster {self.cluster.alias} has no topic {self.topic}: check its name, and that our principal "
                    f"may DESCRIBE it"
                )
            time.sleep(0.1)

    def _metadata(self) -> Any:
        """The topic's metadata, as soon as a broker is in service."""
        deadline = time.monotonic() + self._patience_s
        while True:
            left = max(0.1, deadline - time.monotonic())
            metadata = until_answered(lambda timeout_s: list_in_service(self._consumer, self.topic, timeout_s), left)
            if metadata is not None:
                return metadata
            if time.monotonic() > deadline:
                raise no_broker_in_service(self.cluster)
            time.sleep(FENCED_PAUSE_S)

    def _next(self) -> Sequence[CommittedInternalRecord]:
        """The next records; none at an end of the log, which may lie behind markers of transactions."""
        deadline = time.monotonic() + self._patience_s
        before = self._position
        while not (records := self._take(1.0)) and self._position == before:
            if time.monotonic() > deadline:
                raise KafkaException(self._trouble or KafkaError(KafkaError._TIMED_OUT, "no answer to fetches"))
        return records

    def _take(self, timeout_s: float) -> Sequence[CommittedInternalRecord]:
        """Wait for one message, and take all that came with it."""
        first = self._consumer.poll(timeout_s)
        records = []
        for message in () if first is None else (first, *self._consumer.consume(_MOST_RECORDS, 0)):
            if (error := message.error()) is not None:
                self._heed(error, message.offset() or 0)
                continue
            records.append(_record(message))
            self._position = records[-1].offset + 1
            self._trouble = None
        # What came before a refusal is handed out first.
        if not records and self._trouble is not None and self._trouble.code() in _HOPELESS:
            raise KafkaException(self._trouble)
        return records

    def _heed(self, error: KafkaError, offset: int) -> None:
        """Note an end of the log, or what keeps us from reading on."""
        if error.code() == KafkaError._PARTITION_EOF:
            self._position, self._trouble = offset, None
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            # The client looks for the coordinator of the group that we never join, and needs no right to it.
            self._trouble = error
            _LOG.warning("cluster %s: topic %s: %s", self.cluster.alias, self.topic, error.str())


def latest(batches: Iterable[Sequence[CommittedInternalRecord]]) -> dict[bytes, CommittedInternalRecord]:
    """The last record of every key, without deleted ones and those without a key, as compaction would leave them."""
    found: dict[bytes, CommittedInternalRecord] = {}
    for record in (record for records in batches for record in records):
        if record.key is None:
            continue
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record
    return found


def _record(message: Message) -> CommittedInternalRecord:
    # The client declares what producers take, and gives what the class says.
    headers: Any = message.headers() or ()
    return CommittedInternalRecord(message.offset() or 0, message.key(), message.value(), headers)
