"""Writers that go on through everything, and remember what was acknowledged to them."""

from __future__ import annotations

import random
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from confluent_kafka import KafkaError, KafkaException, Producer

from mirror_ray.lab.chaos.clients import client_config
from mirror_ray.lab.chaos.records import Identity, make_record
from mirror_ray.lab.chaos.topology import TOPICS, Topic
from mirror_ray.lab.chaos.verdict import Acknowledged
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError

_TICK_S: Final = 0.02
_CALL_S: Final = 10.0
#: From the end of the faults until the last record is acknowledged.
_FINISH_S: Final = 120.0
#: Below Kafka's ``transaction.timeout.ms`` of a minute.
_TRANSACTIONAL_TIMEOUT_MS: Final = 30_000
#: A transaction is open for as many ticks, at random.
_TICKS: Final = (2, 60)
_ABORTED: Final = 0.33
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


class LoadWriter:
    """Writes to all partitions of a topic in turn, by a thread of its own, until `stop`."""

    def __init__(self, cluster: DevCluster, topic: Topic, name: str, seed: int) -> None:
        """``name`` is in every record; ``seed`` decides lengths and ends of transactions."""
        self.topic = topic
        self.name = name
        self.ledger = AcknowledgedRecords()
        self.produced = 0
        self._cluster = cluster
        self._random = random.Random(f"{seed} {name}")  # noqa: S311 - a seed repeats a run
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._fatal = threading.Event()
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def check(self) -> None:
        """Raise MirrorError where the writer has failed: the run itself is at fault."""
        if self._failure is not None:
            raise MirrorError(f"writer {self.name} failed: {self._failure!r}") from self._failure

    def ask_to_stop(self) -> None:
        """Write no more; returns at once."""
        self._stopping.set()

    def stop(self) -> None:
        """Write no more, and wait until what was written is acknowledged.

        Raises:
            MirrorError: It is not after two minutes, or as ``check`` does.
        """
        self.ask_to_stop()
        self._thread.join(_FINISH_S)
        if self._thread.is_alive():
            raise MirrorError(f"writer {self.name} has not finished after {_FINISH_S:g} s")
        self.check()

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:  # noqa: BLE001 - told by `stop`, in the thread that can do something about it
            self._failure = error

    def _write(self) -> None:
        producer = self._open()
        while not self._stopping.wait(_TICK_S):
            self._send_some(producer, self._delivered)
            if self._fatal.is_set():
                producer = self._open()
        while producer.flush(1.0) and not self._fatal.is_set():
            continue

    def _open(self, more: Mapping[str, object] | None = None) -> Producer:
        """A producer that tries for ever; one that it replaces has failed all that it still held."""
        self._fatal.clear()
        settings = {
            "enable.idempotence": True,
            # A broker that has forgotten the writer takes a batch behind one that it has just refused, and calls the
            # refused one, which comes again, a duplicate: acknowledged, and not there.
            "max.in.flight": 1,
            "linger.ms": 10,
            "compression.type": _CODECS[len(self.name) % len(_CODECS)],
            "message.timeout.ms": 0,
            "error_cb": self._on_error,
        }
        return Producer(client_config(self._cluster, {**settings, **(more or {})}))

    def _send_some(self, producer: Producer, delivered: Callable[..., None]) -> None:
        """One tick's share of the records."""
        now_ms = time.time_ns() // 1_000_000
        for _ in range(max(1, int(self.topic.records_per_s * _TICK_S))):
            partition = self.produced % self.topic.partitions
            record = make_record(self.name, self.produced, partition, now_ms, keyed=self.topic.kind == "compacted")
            try:
                producer.produce(
                    self.topic.name,
                    record.value,
                    record.key,
                    partition,
                    on_delivery=partial(delivered, partition, self.produced),
                    timestamp=record.timestamp_ms,
                    headers=list(record.headers),
                )
            except BufferError:
                break
            self.produced += 1
        producer.poll(0)

    def _delivered(self, partition: int, number: int, error: KafkaError | None, _: object) -> None:
        if error is None:
            self.ledger.written[partition].append(number)
        else:
            self.ledger.doubtful += 1

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal.set()


class TransactionalWriter(LoadWriter):
    """Writes in transactions, most of which it commits."""

    def _write(self) -> None:
        producer = self._open_transactional()
        while not self._stopping.is_set():
            outcome, sent = self._transaction(producer)
            if outcome == "doubtful":
                self.ledger.doubtful += len(sent)
            else:
                numbers = self.ledger.written if outcome == "written" else self.ledger.aborted
                for partition, number in sent:
                    numbers[partition].append(number)
            if self._fatal.is_set():
                producer = self._open_transactional()

    def _open_transactional(self) -> Producer:
        while True:
            # A transaction that its predecessor left open is aborted by this.
            producer = self._open({"transactional.id": self.name, "message.timeout.ms": _TRANSACTIONAL_TIMEOUT_MS})
            if _call(producer.init_transactions) == "done":
                return producer

    def _transaction(self, producer: Producer) -> tuple[_Outcome, list[tuple[int, int]]]:
        sent: list[tuple[int, int]] = []
        commits = self._random.random() >= _ABORTED
        try:
            producer.begin_transaction()
            for _ in range(self._random.randint(*_TICKS)):
                self._send_some(producer, lambda partition, number, *_: sent.append((partition, number)))
                time.sleep(_TICK_S)
            # Not to abort what never left: an aborted record is to be in the log.
            producer.flush(2 * _TRANSACTIONAL_TIMEOUT_MS / 1000)
        except KafkaException as error:
            return self._abort(producer, fatal=error.args[0].fatal()), sent
        if not commits:
            return self._abort(producer), sent
        match _call(producer.commit_transaction):
            case "done":
                return "written", sent
            case "abort":
                return self._abort(producer), sent
            case _:
                self._fatal.set()
                return "doubtful", sent

    def _abort(self, producer: Producer, *, fatal: bool = False) -> _Outcome:
        if fatal or _call(producer.abort_transaction) != "done":
            # The successor aborts it: no commit was asked for.
            self._fatal.set()
        return "aborted"


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

    def __init__(self, clusters: Mapping[str, DevCluster], seed: int) -> None:
        """The topics must exist."""
        self.writers = tuple(
            (TransactionalWriter if topic.transactions else LoadWriter)(
                clusters[topic.cluster], topic, f"{topic.name}-{number}", seed
            )
            for topic in TOPICS
            for number in range(1, topic.writers + 1)
        )

    def start(self) -> None:
        """Begin to write."""
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
        """Write no more, and wait until all is acknowledged. Raises as ``LoadWriter.stop`` does."""
        self.ask_to_stop()
        for writer in self.writers:
            writer.stop()

    def acknowledged(self, topic: Topic, partition: int) -> Acknowledged:
        """What the writers of a partition know. To be asked when they have stopped."""
        writers = [writer for writer in self.writers if writer.topic == topic]
        return Acknowledged(
            written={Identity(each.name, number) for each in writers for number in each.ledger.written[partition]},
            aborted={Identity(each.name, number) for each in writers for number in each.ledger.aborted[partition]},
        )
