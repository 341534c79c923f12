"""Writers that go on through every fault, and remember what was acknowledged to them."""

from __future__ import annotations

import random
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.judge import AcknowledgedIds
from mirror_ray.lab.kafka_client import client_config
from mirror_ray.lab.load_generator import LoadGenerator, ProducedRecord
from mirror_ray.lab.load_record import RecordId, make_record

_TICK_S: Final = 0.02
_CALL_S: Final = 10.0
#: Below Kafka's ``transaction.timeout.ms`` of a minute.
_TRANSACTIONAL_TIMEOUT_MS: Final = 30_000
#: A transaction is open for as many ticks, at random.
_TRANSACTION_TICKS: Final = (2, 60)
_ABORTED_SHARE: Final = 0.33
_CODECS: Final = ("lz4", "zstd", "none")

_Outcome = Literal["written", "aborted", "doubtful"]


def _numbers() -> array[int]:
    return array("Q")


@dataclass(slots=True)
class AcknowledgedRecords:
    """What became of one writer's records: their numbers, by partition."""

    written: dict[int, array[int]] = field(default_factory=lambda: defaultdict(_numbers))
    aborted: dict[int, array[int]] = field(default_factory=lambda: defaultdict(_numbers))
    #: How many may be on the source or not: an error leaves it open.
    doubtful: int = 0


class LoadWriter(LoadGenerator):
    """Writes to all partitions of a topic in turn, by a thread of its own, until it is stopped."""

    def __init__(self, cluster: DevCluster, topic: Topic, name: str, seed: int) -> None:
        """``name`` is in every record; ``seed`` decides lengths and ends of transactions."""
        config = {
            "enable.idempotence": True,
            # A broker that has forgotten the writer takes a batch behind one that it has just refused, and calls the
            # refused one, which comes again, a duplicate: acknowledged, and not there.
            "max.in.flight": 1,
            "linger.ms": topic.linger_ms,
            "compression.type": _CODECS[len(name) % len(_CODECS)],
            # It tries for ever.
            "message.timeout.ms": 0,
            "error_cb": self._on_error,
        }
        super().__init__(name, client_config(cluster, config), topic.records_per_s, self._make_record, tick_s=_TICK_S)
        self.topic = topic
        self.acknowledged = AcknowledgedRecords()
        self._random = random.Random(f"{seed} {name}")  # noqa: S311 - a seed repeats a run
        self._fatal = False

    def _run(self) -> None:
        producer = self._open()
        while not self._stopping.wait(_TICK_S):
            try:
                self._produce_tick(producer)
            except KafkaException as failure:
                # With ZooKeeper a broker that has just started knows no topics.
                if failure.args[0].code() != KafkaError._UNKNOWN_TOPIC:  # noqa: SLF001 - a code of librdkafka's own
                    raise
            if self._fatal:
                producer = self._open()
        while producer.flush(1.0) and not self._fatal:
            continue

    def _open(self, settings: Mapping[str, object] | None = None) -> Producer:
        """A new producer; the one that it replaces has failed all that it still held."""
        self._fatal = False
        return Producer({**self._config, **(settings or {})})

    def _make_record(self, number: int) -> ProducedRecord:
        partition = number % self.topic.partitions
        now_ms = time.time_ns() // 1_000_000
        record = make_record(self.name, number, partition, now_ms, keyed=self.topic.kind == "compacted")
        return ProducedRecord(self.topic.name, record.value, record.key, partition, record.headers, record.timestamp_ms)

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:  # noqa: ARG002
        if error is None:
            self.acknowledged.written[number % self.topic.partitions].append(number)
        else:
            self.acknowledged.doubtful += 1

    def _on_error(self, error: KafkaError) -> None:
        self._fatal = self._fatal or error.fatal()


class TransactionalWriter(LoadWriter):
    """Writes in transactions, most of which it commits."""

    def __init__(self, cluster: DevCluster, topic: Topic, name: str, seed: int) -> None:
        super().__init__(cluster, topic, name, seed)
        #: Numbers that the current transaction has delivered.
        self._sent: list[int] = []

    def _run(self) -> None:
        producer = self._open_transactional()
        while not self._stopping.is_set():
            outcome = self._transaction(producer)
            if outcome == "doubtful":
                self.acknowledged.doubtful += len(self._sent)
            else:
                known = self.acknowledged.written if outcome == "written" else self.acknowledged.aborted
                for number in self._sent:
                    known[number % self.topic.partitions].append(number)
            if self._fatal:
                producer = self._open_transactional()

    def _open_transactional(self) -> Producer:
        while True:
            # A transaction that its predecessor left open is aborted by this.
            producer = self._open({"transactional.id": self.name, "message.timeout.ms": _TRANSACTIONAL_TIMEOUT_MS})
            if _call(producer.init_transactions) == "done":
                return producer

    def _transaction(self, producer: Producer) -> _Outcome:
        self._sent = []
        commits = self._random.random() >= _ABORTED_SHARE
        try:
            producer.begin_transaction()
            for _ in range(self._random.randint(*_TRANSACTION_TICKS)):
                self._produce_tick(producer)
                time.sleep(_TICK_S)
            # Not to abort what never left: an aborted record is to be in the log.
            producer.flush(2 * _TRANSACTIONAL_TIMEOUT_MS / 1000)
        except KafkaException as error:
            return self._abort(producer, fatal=error.args[0].fatal())
        if not commits:
            return self._abort(producer)
        match _call(producer.commit_transaction):
            case "done":
                return "written"
            case "abort":
                return self._abort(producer)
            case _:
                self._fatal = True
                return "doubtful"

    def _abort(self, producer: Producer, *, fatal: bool = False) -> _Outcome:
        if fatal or _call(producer.abort_transaction) != "done":
            # The successor aborts it: no commit was asked for.
            self._fatal = True
        return "aborted"

    def _on_delivery(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        # Bound to this transaction's list: a late answer to an earlier one's record does not count for it.
        return partial(_note, self._sent, number)


def _note(numbers: list[int], number: int, *_: object) -> None:
    numbers.append(number)


def _call(method: Callable[[float], None]) -> Literal["done", "abort", "fatal"]:
    """Call a method of a transaction until it is done, or until only an abort, or another producer, is of use."""
    while True:
        try:
            method(_CALL_S)
            return "done"
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.txn_requires_abort():
                return "abort"
            if not error.retriable():
                return "fatal"


class ChaosLoad:
    """All writers of the run."""

    def __init__(self, clusters: Mapping[str, DevCluster], topics: Sequence[Topic], seed: int) -> None:
        """The topics must exist."""
        self.writers = tuple(
            (TransactionalWriter if topic.transactions else LoadWriter)(
                clusters[topic.cluster], topic, f"{topic.name}-{number}", seed
            )
            for topic in topics
            for number in range(1, topic.writers + 1)
        )

    def start(self) -> None:
        """Start to write."""
        for writer in self.writers:
            writer.start()

    def check(self) -> None:
        """Raise MirrorError where a writer has failed."""
        for writer in self.writers:
            writer.check()

    def ask_to_stop(self) -> None:
        """Write no more; returns at once."""
        for writer in self.writers:
            writer.ask_to_stop()

    def stop(self) -> None:
        """Write no more, and wait until everything is acknowledged. Raises as ``LoadWriter.stop`` does."""
        self.ask_to_stop()
        for writer in self.writers:
            writer.stop()

    def acknowledged(self, topic: Topic, partition: int) -> AcknowledgedIds:
        """What the writers of a partition know. To be asked when they have stopped."""
        known = [(writer.name, writer.acknowledged) for writer in self.writers if writer.topic == topic]
        return AcknowledgedIds(
            written={RecordId(name, number) for name, records in known for number in records.written[partition]},
            aborted={RecordId(name, number) for name, records in known for number in records.aborted[partition]},
        )
