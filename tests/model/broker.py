"""A target partition as Kafka's brokers were measured to keep one: its log, and what it remembers of producers.

Sources: KIP-98 (sequences, five batches remembered), KIP-360 (an unknown producer may begin anywhere), and the measured
facts that ``docs/decisions/0001`` rests on: a producer is forgotten by the timestamps of the records that it wrote.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mirror_ray.kafka.metadata import topic_id_text
from mirror_ray.model.assignment import NO_END
from mirror_ray.model.names import TopicId
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.records.batch import RecordBatch, iter_batches
from mirror_ray.records.decode import records_of
from mirror_ray.replication.target_log import TargetLog
from tests.support.batches import record, sealed

DAY_MS = 24 * 3600 * 1000
_REMEMBERED = 5
_PRODUCER_AT = 43


@dataclass(slots=True)
class Stored:
    """A batch in the target's log. ``values`` are its records' values, less what compaction took."""

    base_offset: int
    next_offset: int
    producer_id: int
    base_sequence: int
    next_sequence: int
    max_timestamp: int
    data: bytes
    values: list[bytes]

    def parsed(self) -> RecordBatch:
        """The batch as a fetch would bring it."""
        return iter_batches(memoryview(bytearray(struct.pack(">q", self.base_offset) + self.data[8:])))[0]


@dataclass(slots=True)
class Producer:
    """What the broker remembers of a producer: the next sequence, the newest timestamp, the last five batches."""

    next_sequence: int
    timestamp: int
    recent: list[tuple[int, int, int]] = field(default_factory=list)

    def took(self, stored: Stored) -> None:
        """It has written a batch."""
        self.next_sequence, self.timestamp = stored.next_sequence, stored.max_timestamp
        self.recent = [
            *self.recent[1 - _REMEMBERED :],
            (stored.base_sequence, stored.next_sequence, stored.base_offset),
        ]


@dataclass(slots=True)
class Answer:
    """A leader's answer to one partition's batch; ``offset`` is its first one's, also of a batch that was there."""

    error: str | None
    offset: int = -1
    #: The log must be committed so far before an answer of all in-sync replicas may go out.
    end: int = -1
    leader_epoch: int = 0


def topic_id_of(number: int, life: int = 0) -> TopicId:
    """Of the remote topic, as if each partition were one of its own; ``life``: how often it was created again."""
    return topic_id_text(uuid.UUID(int=(number + 1 << 32) + life))


@dataclass(slots=True)
class TargetPartition:
    """A remote partition. ``replicated``: followers lag, and ``replicate`` moves the high watermark.

    ``on_append`` is told each append: the batch, the offset, whether its producer was unknown.
    """

    topic_id: TopicId
    replicated: bool = False
    on_append: Callable[[Stored, bool], None] = lambda stored, unknown: None
    on_truncated: Callable[[int], None] = lambda end: None
    life: int = 0
    leader: int = 0
    #: How often another broker has become the leader.
    leader_epoch: int = 0
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    log: list[Stored] = field(default_factory=list)
    #: Each leader epoch that has begun, and where.
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    producers: dict[int, Producer] = field(default_factory=dict)
    #: All that ever wrote.
    met: set[int] = field(default_factory=set)
    #: Values that it refuses, as a record too large for it; None takes all.
    refuses: Callable[[bytes], bool] | None = None

    def produce(self, data: bytes) -> Answer:
        """Append a batch, or say that it is there, or refuse it."""
        batch = iter_batches(memoryview(bytearray(data)))[0]
        assert batch.base_offset == 0
        assert batch.last_offset_delta + 1 == batch.count, "a broker refuses a batch with holes"
        values = [record.value or b"" for record in records_of(batch)]
        if self.refuses is not None and any(map(self.refuses, values)):
            return Answer("INVALID_RECORD")
        following = (batch.base_sequence + batch.count) % SEQUENCE_MODULUS
        known = self.producers.get(batch.producer_id)
        if known is not None:
            for first, after, offset in known.recent:
                if (first, after) == (batch.base_sequence, following):
                    return Answer(None, offset, offset + batch.count, self.leader_epoch)
            if batch.base_sequence != known.next_sequence:
                return Answer("OUT_OF_ORDER_SEQUENCE_NUMBER")
        stored = Stored(
            self.end, self.end + batch.count, batch.producer_id, batch.base_sequence, following,
            batch.max_timestamp, data, values,
        )  # fmt: skip
        if known is None:
            known = self.producers[batch.producer_id] = Producer(0, 0)
            unknown = batch.producer_id in self.met
            self.met.add(batch.producer_id)
        else:
            unknown = False
        known.took(stored)
        self._append(stored)
        self.on_append(stored, unknown)
        return Answer(None, stored.base_offset, stored.next_offset, self.leader_epoch)

    def write(self, values: Sequence[bytes], timestamp: int, producer_id: int = -1) -> None:
        """Somebody else writes."""
        payload = b"".join(record(delta, value) for delta, value in enumerate(values))
        data = sealed(0, payload, len(values) - 1, len(values), producer_id, 0, timestamp)
        self._append(Stored(self.end, self.end + len(values), producer_id, -1, -1, timestamp, data, list(values)))

    def _append(self, stored: Stored) -> None:
        self.log.append(stored)
        self.end = stored.next_offset
        if not self.replicated:
            self.high_watermark = self.end

    def replicate(self) -> None:
        """The followers have caught up."""
        self.high_watermark = self.end

    def forget(self, now_ms: int) -> None:
        """The check that runs every ten minutes: producers whose newest record is older than a day."""
        for producer_id in [key for key, state in self.producers.items() if now_ms - state.timestamp >= DAY_MS]:
            del self.producers[producer_id]

    def load(self, now_ms: int) -> None:
        """The broker was restarted: producers as the log still tells of them, old ones forgotten at once."""
        self.producers.clear()
        for stored in self.log:
            if stored.producer_id >= 0:
                self.producers.setdefault(stored.producer_id, Producer(0, 0)).took(stored)
        self.forget(now_ms)

    def move(self, leader: int, end: int, now_ms: int) -> None:
        """Another broker leads, whose log ends in the batch that holds ``end``: at or behind the high watermark.

        Below the high watermark the election is unclean, and what was acknowledged is lost.
        """
        self.leader, self.leader_epoch = leader, self.leader_epoch + 1
        kept = [batch for batch in self.log if batch.next_offset <= end]
        cut = max(kept[-1].next_offset if kept else self.start, min(self.start, self.end))
        if cut < self.end:
            self.log, self.end = kept, cut
            self.on_truncated(cut)
            self.load(now_ms)
        self.epochs = [*(entry for entry in self.epochs if entry[1] < cut), (self.leader_epoch, cut)]
        # The new leader's followers fetch from it before it knows what they have.
        self.high_watermark = min(self.high_watermark, self.end)
        if not self.replicated:
            self.high_watermark = self.end

    def remove_below(self, offset: int) -> None:
        """Retention, or DeleteRecords: up to everything that is committed."""
        self.start = max(self.start, min(offset, self.high_watermark))
        self.log = [batch for batch in self.log if batch.next_offset > self.start]

    def compact(self, goes: Callable[[bytes], bool]) -> None:
        """Cleaning, of all but the last batch: records that ``goes`` names, and batches without any left."""
        for stored in self.log[:-1]:
            stored.values = [value for value in stored.values if not goes(value)]
            kept = [record for record in records_of(stored.parsed()) if not goes(record.value or b"")]
            payload = b"".join(record(left.offset - stored.base_offset, left.value or b"", left.key) for left in kept)
            old = stored.parsed()
            data = bytearray(
                sealed(0, payload, old.last_offset_delta, len(kept), old.producer_id, 0, old.base_timestamp)
            )
            struct.pack_into(">qhi", data, _PRODUCER_AT, old.producer_id, old.producer_epoch, old.base_sequence)
            stored.data = bytes(data)
        self.log = [batch for batch in self.log if batch.values or batch is self.log[-1]]

    def seen(self, epoch: int, *, scanned: bool) -> TargetLog:
        """Its end; and where the log that was led in ``epoch`` ends in it, if that is asked (KIP-101)."""
        later = (first for number, first in self.epochs if number > epoch)
        asked = scanned and 0 <= epoch < self.leader_epoch
        return TargetLog(end=self.end, epoch=self.leader_epoch, agrees_to=next(later, self.end) if asked else NO_END)

    def tail(self, end: int) -> RecordBatch | None:
        """The first batch that a fetch from ``end - 1`` brings; None where the log begins behind it or ends before."""
        if end <= self.start or end > self.end:
            return None
        return next((batch.parsed() for batch in self.log if batch.next_offset >= end), None)
