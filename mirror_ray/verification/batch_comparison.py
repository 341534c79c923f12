"""Compares ranges of two logs, and decodes only what the bytes of the batches can't decide.

A batch that was copied as it is keeps its record section, everything behind its header, byte for byte. If two batches
begin at the same record of a range, and their sections and all that is needed to read them are equal, their records are
equal: neither batch is decoded. Of recompressed batches the unpacked sections are compared. All other batches are
decoded and compared record by record, until both sides are at the same record again. Positions are compared only by the
number of records since the range began: an equal batch is searched for nowhere else.

Where there is the record kernel, it does the same for all batches of magic 2 that were read, cut or compressed on the
target as they may be, and no object is made of a record. It only ever says that records are equal: where it finds that
they are not, or a batch that does not parse, they are compared here once more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from operator import attrgetter

from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.records import kernel
from mirror_ray.records.batch import CODEC_MASK, HEADER_BYTES, TIMESTAMP_TYPE_BIT, RecordBatch
from mirror_ray.records.codecs import decompress
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.verification.ranges import ComparedRange, Span

#: A piece of a log as it was read: a batch whose checksum fits, or records.
LogPiece = RecordBatch | list[DecodedRecord]

_OFFSET = attrgetter("offset")


def have_same_records(mine: RecordBatch, theirs: RecordBatch, *, timestamps: bool) -> bool:
    """Whether two batches of magic 2 certainly hold the same records, at the same distances from their base offsets.

    Both checksums must have been verified. Offsets, producers, transactions and leader epochs may differ; timestamps
    may differ if ``timestamps`` is False. If the answer is False, the records may still be the same.

    Raises:
        CorruptBatchError: One of two that differ in their codec does not unpack.
    """
    if mine.count != theirs.count or mine.last_offset_delta != theirs.last_offset_delta:
        return False
    other_bits = mine.attributes ^ theirs.attributes
    if timestamps and (
        other_bits & TIMESTAMP_TYPE_BIT
        or mine.base_timestamp != theirs.base_timestamp
        or mine.max_timestamp != theirs.max_timestamp
    ):
        return False
    if other_bits & CODEC_MASK:
        return _unpacked(mine) == _unpacked(theirs)
    # Two memoryviews would be compared item by item; a bytearray is compared with a view by memcmp.
    return bytearray(mine.view[HEADER_BYTES:]) == theirs.view[HEADER_BYTES:]


def _unpacked(batch: RecordBatch) -> bytes:
    return decompress(batch.codec, batch.view[HEADER_BYTES:])


def records_in(piece: LogPiece) -> int:
    """The number of records; of a batch, by its header."""
    return piece.count if isinstance(piece, RecordBatch) else len(piece)


class LogPieces:
    """What was read of one log and not compared yet. Ranges are compared in order; one of them is the *current* range.

    Attributes:
        spans: The offsets of each range; they ascend and do not overlap.
        wants: Whether more has to be fed before the comparison can go on.
    """

    def __init__(
        self, spans: Sequence[tuple[int, int]], transform: Callable[[list[DecodedRecord]], list[DecodedRecord]] | None
    ) -> None:
        """``transform`` makes of a batch's records what is compared; None: they are compared as they are."""
        self.spans = spans
        self.wants = False
        self._transform = transform
        self._queue: deque[LogPiece] = deque()
        self._ended = False
        self._removed_before = -1
        self._number = -1
        #: Offsets of the current range that are neither compared nor decoded yet. A log that lost its end and grew
        #: again may return earlier records once more.
        self._start = self._end = 0
        self._decoded: list[DecodedRecord] = []
        self._at = 0

    def feed(self, pieces: Sequence[LogPiece] | None) -> None:
        """Add what was read next, in order; None: the log was read to its end."""
        self.wants = False
        if pieces is None:
            self._ended = True
        else:
            self._queue.extend(pieces)

    def removed(self, before: int) -> None:
        """Records below an offset were removed: ranges from the current one on that begin there are unknown."""
        self._removed_before = max(self._removed_before, before)

    def next_range(self) -> None:
        """Go on to the next range, whatever is left of the current one."""
        self._number += 1
        self._start, self._end = self.spans[self._number]
        self._decoded, self._at = [], 0

    @property
    def start_was_removed(self) -> bool:
        """Whether the beginning of the current range was removed."""
        return self.spans[self._number][0] < self._removed_before

    @property
    def has_decoded(self) -> bool:
        """Whether decoded records are left."""
        return self._at < len(self._decoded)

    def head(self) -> LogPiece | None:
        """The next piece of the current range; None: there is none, or more is wanted. Earlier pieces are dropped."""
        while self._queue and self._start < self._end:
            piece = self._queue[0]
            if isinstance(piece, RecordBatch) and piece.magic != 2:
                # Its base offset may be that of the last record inside.
                self._queue[0] = piece = self._records_of(piece)
            first, behind = _bounds(piece)
            if behind > self._start:
                return piece if first < self._end else None
            self._queue.popleft()
        self.wants = self._start < self._end and not self._ended
        return None

    def deltas(self, batch: RecordBatch) -> tuple[int, int]:
        """The part of a batch that lies in the current range, as deltas to its base offset; the end is not included."""
        base = batch.base_offset
        return max(self._start - base, 0), min(self._end - base, batch.last_offset_delta + 1)

    @property
    def span(self) -> Span:
        """The offsets of the current range that are neither compared nor decoded yet."""
        return self._start, self._end

    def batches(self) -> list[RecordBatch]:
        """The next batches of magic 2 of the current range, as far as they were read; none while records are left."""
        if self.has_decoded or self.head() is None:
            return []
        pieces = takewhile(lambda piece: isinstance(piece, RecordBatch) and piece.magic == 2, self._queue)
        return [piece for piece in pieces if isinstance(piece, RecordBatch) and piece.base_offset < self._end]

    def skip_to(self, offset: int) -> None:
        """Drop what lies before an offset: it was compared."""
        self._start = offset

    def skip(self, batch: RecordBatch) -> None:
        """Drop the next batch: its part of the current range was compared."""
        self._start = min(batch.next_offset, self._end)

    def ready(self) -> int:
        """Decode the next batch if no decoded records are left.

        Returns:
            The number of decoded records that come next; 0: as with ``head``.

        Raises:
            CorruptBatchError: A batch does not parse.
        """
        while self._at == len(self._decoded):
            piece = self.head()
            if piece is None:
                return 0
            self._decode(piece)
        return len(self._decoded) - self._at

    def take(self, count: int) -> list[DecodedRecord]:
        """Take so many of the decoded records."""
        self._at += count
        return self._decoded[self._at - count : self._at]

    def _decode(self, piece: LogPiece) -> None:
        records = self._records_of(piece) if isinstance(piece, RecordBatch) else piece
        first, behind = (bisect_left(records, offset, key=_OFFSET) for offset in (self._start, self._end))
        self._decoded, self._at = records[first:behind], 0
        self._start = min(_bounds(piece)[1], self._end)
        if behind < len(records):
            self._queue[0] = records[behind:]
        else:
            self._queue.popleft()

    def _records_of(self, batch: RecordBatch) -> list[DecodedRecord]:
        records = records_of(batch)
        return records if self._transform is None else self._transform(records)


class RangeComparison:
    """Compares the same ranges of two logs, in order, while both are read.

    Feed the side that ``wants`` more until the comparison is ``done``. It holds what was fed and not compared yet, and
    at most one decoded batch of each side.
    """

    def __init__(
        self,
        ranges: Sequence[ComparedRange],
        *,
        timestamps: bool,
        transform: Callable[[list[DecodedRecord]], list[DecodedRecord]] | None = None,
    ) -> None:
        """The ranges ascend and do not overlap, on either side. ``transform`` changes the source's records first."""
        self.source = LogPieces([(span.source, span.source_end) for span in ranges], transform)
        self.target = LogPieces([(span.target, span.target_end) for span in ranges], None)
        #: The number of records of each finished range, in order; None: the range is not known to be equal.
        self.found: list[int | None] = []
        self._ranges = len(ranges)
        self._timestamps = timestamps
        self._by_bytes = transform is None
        self._next_range()

    @property
    def done(self) -> bool:
        """Whether all ranges are finished."""
        return len(self.found) == self._ranges

    def step(self) -> None:
        """Compare until a side wants more, or it is done. Raises CorruptBatchError if a batch does not parse."""
        while not self.done:
            equal = False if self.source.start_was_removed or self.target.start_was_removed else self._is_equal()
            if equal is None:
                return
            self.found.append(self._records if equal else None)
            self._next_range()

    def _next_range(self) -> None:
        self._records = 0
        self._by_kernel = self._by_bytes and kernel.is_available()
        if not self.done:
            self.source.next_range()
            self.target.next_range()

    def _is_equal(self) -> bool | None:
        """Whether the current range is equal; None: more is wanted."""
        source, target = self.source, self.target
        while True:
            if self._by_kernel:
                self._skip_same_records()
            if self._by_bytes:
                self._skip_same_batches()
            # A batch is decoded only once the other side's next batch is known: the two may be the same.
            counts = (0, 0) if source.wants or target.wants else (source.ready(), target.ready())
            if source.wants or target.wants:
                return None
            count = min(counts)
            if count == 0:
                return counts == (0, 0)
            if not self._are_same(source.take(count), target.take(count)):
                return False
            self._records += count

    def _skip_same_records(self) -> None:
        """Skip what the kernel finds to be the same of the batches that were read."""
        source, target = self.source, self.target
        mine, theirs = source.batches(), target.batches()
        if not mine or not theirs:
            return
        try:
            same = kernel.compare(mine, theirs, source.span, target.span, timestamps=self._timestamps)
        except CorruptBatchError:
            self._by_kernel = False
            return
        self._by_kernel = not same.differs
        self._records += same.records
        source.skip_to(same.source)
        target.skip_to(same.target)

    def _skip_same_batches(self) -> None:
        """Skip batches that certainly hold the same records, without decoding any."""
        source, target = self.source, self.target
        while not (source.has_decoded or target.has_decoded):
            mine, theirs = source.head(), target.head()
            if not (isinstance(mine, RecordBatch) and isinstance(theirs, RecordBatch)):
                return
            first, end = deltas = source.deltas(mine)
            is_complete = end - first > mine.last_offset_delta
            # The header of a compacted batch does not say which of its records are missing.
            if deltas != target.deltas(theirs) or (mine.is_compacted and not is_complete):
                return
            if not have_same_records(mine, theirs, timestamps=self._timestamps):
                return
            self._records += mine.count if is_complete else end - first
            source.skip(mine)
            target.skip(theirs)

    def _are_same(self, mine: list[DecodedRecord], theirs: list[DecodedRecord]) -> bool:
        if [tail for _, _, tail in mine] != [tail for _, _, tail in theirs]:
            return False
        return not self._timestamps or [at for _, at, _ in mine] == [at for _, at, _ in theirs]


def _bounds(piece: LogPiece) -> tuple[int, int]:
    if isinstance(piece, RecordBatch):
        return piece.base_offset, piece.next_offset
    return (piece[0].offset, piece[-1].offset + 1) if piece else (0, 0)
