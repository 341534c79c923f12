"""A source partition as a leader serves it: transactions, compaction, retention, unclean elections."""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field

from mirror_ray.model.names import TopicId
from tests.support.batches import marker, record, sealed

_EPOCH_AT = 12
_FIRST_PRODUCER = 101


@dataclass(slots=True)
class Held:
    """A batch in the source's log: its records as (offset, key), less what was cleaned away."""

    first: int
    next: int
    epoch: int
    records: list[tuple[int, int]]
    timestamp: int
    #: The transaction's producer; -1: none. A marker has no records, and is never cleaned.
    producer_id: int = -1
    commits: bool | None = None
    data: bytes = b""


@dataclass(slots=True)
class Fetched:
    """What a leader answers to a fetch of one partition."""

    position: int
    error: str | None = None
    diverging_from: int = -1
    records: bytes = b""
    aborted: list[tuple[int, int]] = field(default_factory=list)
    stable_end: int = -1
    end: int = -1


class SourcePartition:
    """A log of records whose values say what they are: ``incarnation.offset``.

    An unclean election begins a new incarnation at the offset in ``forks``; what the log lost is gone from it.
    """

    def __init__(self, keys: int | None = None) -> None:
        """``keys``: so many different ones, for a topic that is compacted; None: every record has its own."""
        self.batches: list[Held] = []
        self.start = self.end = 0
        self.epoch = 0
        self.topic_id = TopicId("s")
        #: Where each incarnation but the first begins.
        self.forks: list[int] = []
        #: Offsets of records that read_committed shows, in this incarnation, not cleaned and not removed.
        self.visible: list[int] = []
        #: Offsets of such records that retention removed.
        self.removed: list[int] = []
        self._keys = keys
        self._epochs: list[tuple[int, int]] = [(0, 0)]
        self._open: dict[int, list[Held]] = {}
        self._aborted: list[tuple[int, int, int]] = []

    @property
    def incarnation(self) -> int:
        """How often it has lost its end."""
        return len(self.forks)

    @property
    def stable_end(self) -> int:
        """The last stable offset: the first one of an open transaction."""
        return min((batches[0].first for batches in self._open.values()), default=self.end)

    # ---- what producers do

    def append(self, size: int, timestamp: int) -> None:
        """A plain batch."""
        self._put(self._batch(size, timestamp))

    def begin(self, size: int, timestamp: int) -> None:
        """The first batch of a transaction that stays open; by a producer that may have ended others before."""
        producer = next(number for number in itertools.count(_FIRST_PRODUCER) if number not in self._open)
        self._open[producer] = []
        self.go_on(sorted(self._open).index(producer), size, timestamp)

    def go_on(self, which: int, size: int, timestamp: int) -> None:
        """Another batch in an open transaction."""
        producer = sorted(self._open)[which % len(self._open)]
        held = self._batch(size, timestamp, producer)
        self._open[producer].append(held)
        self._put(held)

    def conclude(self, which: int, *, commit: bool) -> None:
        """Commit or abort an open transaction."""
        producer = sorted(self._open)[which % len(self._open)]
        batches = self._open.pop(producer)
        if commit:
            for held in batches:
                for offset, _ in held.records:
                    insort(self.visible, offset)
        else:
            self._aborted.append((producer, batches[0].first, self.end))
        data = bytearray(marker(self.end, producer, commit=commit))
        struct.pack_into(">i", data, _EPOCH_AT, self.epoch)
        self._put(Held(self.end, self.end + 1, self.epoch, [], 0, producer, commit, bytes(data)))

    @property
    def open_transactions(self) -> int:
        """How many there are."""
        return len(self._open)

    def _batch(self, size: int, timestamp: int, producer: int = -1) -> Held:
        keys = self._keys
        records = [
            (offset, offset if keys is None else offset * 7919 % keys) for offset in range(self.end, self.end + size)
        ]
        return Held(self.end, self.end + size, self.epoch, records, timestamp, producer)

    def _put(self, held: Held) -> None:
        if held.commits is None:
            self._encode(held)
            if held.producer_id < 0:
                self.visible += [offset for offset, _ in held.records]
        self.batches.append(held)
        self.end = held.next

    def _encode(self, held: Held) -> None:
        payload = b"".join(
            record(offset - held.first, b"%d.%d" % (self._incarnation_of(offset), offset), b"%d" % key)
            for offset, key in held.records
        )
        attributes = 0x10 if held.producer_id >= 0 else 0
        count, last = len(held.records), held.next - held.first - 1
        data = bytearray(sealed(held.first, payload, last, count, held.producer_id, attributes, held.timestamp))
        struct.pack_into(">i", data, _EPOCH_AT, held.epoch)
        held.data = bytes(data)

    def _incarnation_of(self, offset: int) -> int:
        """In which a record of today's log was written."""
        number = self.incarnation
        while number and offset < self.forks[number - 1]:
            number -= 1
        return number

    # ---- what the brokers do

    def lead(self) -> None:
        """Another broker leads, with all that there is."""
        self.epoch += 1
        self._epochs = [*(entry for entry in self._epochs if entry[1] < self.end), (self.epoch, self.end)]

    def clean(self) -> None:
        """Compaction: superseded records and aborted ones go, below the last batch and below open transactions."""
        newest = {key: offset for held in self.batches for offset, key in held.records if self._is_visible(offset)}
        for held in self.batches[:-1]:
            if held.next > self.stable_end or held.commits is not None:
                continue
            kept = [(o, key) for o, key in held.records if self._is_visible(o) and newest[key] == o]
            if len(kept) < len(held.records):
                held.records = kept
                self._encode(held)
        # Of the emptied ones every other stays, as the last one of its producer would.
        emptied = [held for held in self.batches[:-1] if not held.records and held.commits is None]
        gone = {id(held) for held in emptied[::2] if held.next <= self.stable_end}
        self.batches = [held for held in self.batches if id(held) not in gone]
        left = {offset for held in self.batches for offset, _ in held.records}
        self.visible = [offset for offset in self.visible if offset in left]

    def _is_visible(self, offset: int) -> bool:
        at = bisect_left(self.visible, offset)
        return at < len(self.visible) and self.visible[at] == offset

    def remove_below(self, offset: int) -> None:
        """Retention, or DeleteRecords."""
        self.start = max(self.start, min(offset, self.stable_end))
        self.batches = [held for held in self.batches if held.next > self.start]
        below = [number for number, first in self._epochs if first <= self.start]
        self._epochs = [(below[-1], self.start), *(entry for entry in self._epochs if entry[1] > self.start)]
        at = bisect_left(self.visible, self.start)
        self.removed += self.visible[:at]
        del self.visible[:at]

    def truncate(self, offset: int) -> bool:
        """An unclean election: a log that ends at the last batch below ``offset`` goes on as another one."""
        kept = [held for held in self.batches if held.next <= offset]
        if self._open or len(kept) == len(self.batches) or _open_in(kept):
            return False
        self.batches = kept
        self.end = max(kept[-1].next if kept else self.start, self.start)
        del self.visible[bisect_left(self.visible, self.end) :]
        self._aborted = [aborted for aborted in self._aborted if aborted[2] < self.end]
        self.forks.append(self.end)
        self.lead()
        return True

    def recreate(self) -> bool:
        """Deleted, and created again: a log from 0 on, of another topic."""
        if self._open:
            return False
        self.topic_id = TopicId(self.topic_id + "'")
        self.batches, self.visible, self.removed, self._aborted = [], [], [], []
        self.start = self.end = self.epoch = 0
        self._epochs = [(0, 0)]
        self.forks.append(0)
        return True

    # ---- what a consumer sees

    def fetch(self, position: int, last_epoch: int, most: int) -> Fetched:
        """Up to ``most`` batches from the one that holds ``position`` on (KIP-320, KIP-595: diverging epochs)."""
        answer = Fetched(position, stable_end=self.stable_end, end=self.end)
        if last_epoch >= 0:
            epoch, end = self._end_of(last_epoch)
            if epoch < 0 or position < self.start:
                answer.error = "OFFSET_OUT_OF_RANGE"
                return answer
            if epoch < last_epoch or end < position:
                answer.diverging_from = end
                return answer
        if not self.start <= position <= self.end:
            answer.error = "OFFSET_OUT_OF_RANGE"
            return answer
        found = [held for held in self.batches if held.next > position and held.next <= self.stable_end][:most]
        answer.records = b"".join(held.data for held in found)
        if found:
            upper = found[-1].next
            answer.aborted = [(p, first) for p, first, end in self._aborted if end >= position and first < upper]
        return answer

    def _end_of(self, epoch: int) -> tuple[int, int]:
        """The largest epoch of the log that is not above ``epoch``, and where it ends; -1 for one yet to come."""
        latest = self._epochs[-1][0]
        if epoch >= latest:
            return (epoch, self.end) if epoch == latest else (-1, -1)
        at = bisect_right(self._epochs, (epoch, self.end))
        return (self._epochs[at - 1][0] if at else epoch), self._epochs[at][1]


def _open_in(batches: list[Held]) -> set[int]:
    """Producers of transactions that end behind these batches."""
    found: set[int] = set()
    for held in batches:
        if held.commits is None:
            found.add(held.producer_id)
        else:
            found.discard(held.producer_id)
    return found - {-1}
