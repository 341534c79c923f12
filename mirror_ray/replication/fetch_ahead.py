"""Asking for what comes next before the last answer is there: from a guessed offset, and taken only if it continues.

A broker answers one connection's requests in order, and takes up the next one once an answer has gone out. So on a long
link a request that waits there saves a round trip. Where the answers on their way will end is not known yet: it is
guessed from how many offsets the last full answer had to a byte, a little too low, so that an answer begins within the
one before it.

An answer asked for ahead is taken only if it holds, unchanged, the very batch that was read last: same offset, leader
epoch and checksum. That shows that nothing is left out between the two, and that both are of one log. It is more than
the broker's own check of the epoch before an offset (KIP-595), which a guess can't be asked with.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror_ray.kafka.fetch import PartitionKey
from mirror_ray.records.batch import LOG_OVERHEAD_BYTES, RecordBatch

#: On a shorter round trip nothing is to be gained.
_LONG_ROUND_TRIP_S = 0.01
#: By how much of an answer a guess is too low: at first, at least, and at most.
_FIRST_MARGIN, _LEAST_MARGIN, _MOST_MARGIN = 1 / 16, 1 / 64, 1 / 2
_NARROWED = 0.9
#: An answer may begin a batch early, and end with a part of one; the one before that must be within.
_OVERLAP_BATCHES = 3
#: What is read twice may not be a larger share of an answer.
_MOST_OVERLAP = 1 / 4
#: Base offset, length, partition leader epoch, magic, CRC.
_BATCH_START = struct.Struct(">qiibI")
_MAGIC = 2


class BatchMark(NamedTuple):
    """What tells a batch from every other one that could be at its place."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int


@dataclass(slots=True)
class _Pace:
    """What a partition's answers were like, and where the last request for it will have ended."""

    #: The batch that was read last, and the offset behind it.
    last: BatchMark
    next_offset: int
    offsets_per_byte: float
    largest_batch_offsets: int
    margin: float = _FIRST_MARGIN
    asked_to: float = -1.0


class FetchAhead:
    """Guesses offsets of the partitions of one connection, and judges what came of it. Nothing here does I/O.

    Guesses are chained: each begins where the request before is expected to end. So once one of them missed, or an
    answer was smaller than asked for, there are none (``ready``) until ``begin_anew``.
    """

    def __init__(self, round_trip_s: float) -> None:
        self._long = round_trip_s >= _LONG_ROUND_TRIP_S
        self._paces: dict[PartitionKey, _Pace] = {}
        self._broken = False

    @property
    def ready(self) -> bool:
        """Whether to guess at all."""
        return self._long and not self._broken and bool(self._paces)

    def give_up(self) -> None:
        """Guess no more on this connection."""
        self._long = False

    def begin_anew(self) -> None:
        """No request is under way: the next one asks from where each partition is."""
        self._broken = False

    def asked(self, key: PartitionKey, offset: int, limit_bytes: int) -> None:
        """A request for so many bytes from ``offset`` on goes out."""
        pace = self._paces.get(key)
        if pace is not None:
            pace.asked_to = offset + pace.offsets_per_byte * limit_bytes

    def guesses(self, ends: Mapping[PartitionKey, int], limit_bytes: int) -> dict[PartitionKey, int]:
        """Where to ask for so many bytes more of each of ``ends``; empty where that can't be told of all of them.

        None reaches beyond a partition's end.
        """
        found: dict[PartitionKey, int] = {}
        for key, end in ends.items():
            offset = self._guess(key, limit_bytes, end)
            if offset is None:
                return {}
            found[key] = offset
        return found

    def _guess(self, key: PartitionKey, limit_bytes: int, end: int) -> int | None:
        pace = self._paces.get(key)
        if pace is None or pace.asked_to < 0:
            return None
        expected = pace.offsets_per_byte * limit_bytes
        overlap = max(pace.margin * expected, _OVERLAP_BATCHES * pace.largest_batch_offsets)
        offset = int(pace.asked_to - overlap)
        if overlap > max(_MOST_OVERLAP, pace.margin) * expected or offset + expected > end:
            return None
        return max(offset, 0)

    def continues(self, key: PartitionKey, fetch_offset: int, records: memoryview) -> bool:
        """Whether an answer asked for ahead goes on from ``fetch_offset``, where the partition is now."""
        pace = self._paces.get(key)
        if pace is None or pace.next_offset != fetch_offset or not _holds(records, pace.last):
            self.missed(key)
            return False
        pace.margin = max(pace.margin * _NARROWED, _LEAST_MARGIN)
        return True

    def missed(self, key: PartitionKey) -> None:
        """A guess was of no use."""
        pace = self._paces.get(key)
        if pace is not None and not self._broken:
            pace.margin = min(2 * pace.margin, _MOST_MARGIN)
        self._broken = True

    def received(self, key: PartitionKey, batches: Sequence[RecordBatch], *, full: bool) -> None:
        """An answer was taken; ``full``: it was as large as asked for."""
        if not self._long:
            return
        last = batches[-1] if batches else None
        if not full or last is None or last.magic != _MAGIC:
            self._broken |= self._paces.pop(key, None) is not None
            return
        mark = BatchMark(last.base_offset, last.length, last.partition_leader_epoch, last.magic, last.crc)
        offsets = last.next_offset - batches[0].base_offset
        per_byte = offsets / sum(batch.size_bytes for batch in batches)
        largest = max(batch.last_offset_delta for batch in batches) + 1
        pace = self._paces.get(key)
        if pace is None:
            self._paces[key] = _Pace(mark, last.next_offset, per_byte, largest)
        else:
            pace.last, pace.next_offset = mark, last.next_offset
            pace.offsets_per_byte, pace.largest_batch_offsets = per_byte, largest

    def forget(self, key: PartitionKey) -> None:
        """Nothing of the partition is asked for any more."""
        self._paces.pop(key, None)


def _holds(records: memoryview, mark: BatchMark) -> bool:
    """Whether that batch is in there, whole; what lies before it is passed over by its lengths."""
    at, end = 0, len(records)
    while at + _BATCH_START.size <= end:
        found = BatchMark(*_BATCH_START.unpack_from(records, at))
        stop = at + LOG_OVERHEAD_BYTES + found.length
        if found.base_offset >= mark.base_offset:
            return found == mark and stop <= end
        if found.length <= 0:
            return False
        at = stop
    return False
