"""RecordBatch v2 headers: read, checked and rewritten in place, without decoding the records inside.

Everything here runs once per batch. Records are decoded in ``mirror_ray.records.repack``, for the few batches
that can't be passed on as they are. The layout is Kafka's ``DefaultRecordBatch`` (KIP-98, KIP-534).
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from crc32c import crc32c

from mirror_ray.model.errors import CorruptBatchError, IncompleteBatchError

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
#: Codecs by their number in the attributes, bits 0 to 2.
CODECS: Final[tuple[Codec, ...]] = ("none", "gzip", "snappy", "lz4", "zstd")

RepackReason = Literal["magic", "log_append_time", "before_position", "compacted", "too_large"]

#: Base offset, length, partition leader epoch, magic, CRC, attributes, last offset delta, base timestamp, max
#: timestamp, producer id, producer epoch, base sequence, record count.
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
#: What the length field does not count: the base offset and itself.
LOG_OVERHEAD_BYTES: Final = 12

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_CRC: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">i")
#: Attributes that belong to the source's log and not to the records.
_SOURCE_BITS: Final = TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT

_LEGACY_V0: Final = struct.Struct(">qiIbb")
_LEGACY_V1: Final = struct.Struct(">qiIbbq")
#: Smallest length field of a message, by magic: its header and two empty length-prefixed fields.
_LEGACY_MIN_LENGTH: Final = (14, 22)


class ControlType(enum.IntEnum):
    """The kind of a control batch, from its record's key (Kafka's ``ControlRecordType``)."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1


class RecordBatch(NamedTuple):
    """One record batch as the source has it: its bytes, and its header as it was when it was read.

    The fields keep the source's values when ``rewrite`` changes the bytes in ``view``. With magic 0 or 1 it is a run of
    messages of the same attributes: ``base_offset`` is then the first message's own (of a compressed one, the offset of
    the last record inside), ``count`` the number of outer messages, and only ``verify`` and ``repack`` are of use.
    """

    view: memoryview
    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which no batch needs

    @property
    def size_bytes(self) -> int:
        """Bytes on the wire and on disk, the header included: what ``max.message.bytes`` bounds."""
        return len(self.view)

    @property
    def last_offset(self) -> int:
        """The source offset of the last record that the batch had when it was produced."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The source offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether it holds a marker instead of records; see ``control_type``."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_log_append_time(self) -> bool:
        """Whether ``max_timestamp``, set by the source's broker, is every record's timestamp."""
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether ``base_timestamp`` is a cleaner's delete horizon (KIP-534); deltas count from it all the same."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def is_compacted(self) -> bool:
        """Whether records are missing from it, so that a broker would refuse it as it is."""
        return self.last_offset_delta + 1 != self.count

    @property
    def is_empty(self) -> bool:
        """Whether compaction left no record; the broker keeps it for its producer's sequence only."""
        return self.count == 0

    @property
    def codec(self) -> Codec:
        """How the records are compressed.

        Raises:
            CorruptBatchError: The attributes name a codec that Kafka does not have.
        """
        number = self.attributes & CODEC_MASK
        if number >= len(CODECS):
            raise CorruptBatchError(f"{describe(self)}: codec {number} is unknown, 0 to 4 are")
        return CODECS[number]


def describe(batch: RecordBatch) -> str:
    """Name the batch in an error: its offsets and size."""
    return f"batch at source offsets {batch.base_offset} to {batch.last_offset} ({batch.size_bytes} bytes)"


def iter_batches(buffer: memoryview) -> list[RecordBatch]:
    """Split the records of one partition of a Fetch response into batches, without copying.

    ``buffer`` has format ``B``, and is writable if the batches are to be rewritten. Returns the whole batches, in
    order, without one that the broker cut off at the end; messages of magic 0 and 1 as runs.

    Raises:
        IncompleteBatchError: Not even the first batch is whole; it says how many bytes to fetch.
        CorruptBatchError: A header that no broker writes.
    """
    batches: list[RecordBatch] = []
    append, make, unpack = batches.append, RecordBatch._make, HEADER.unpack_from
    position, end = 0, len(buffer)
    while end - position > _MAGIC_AT:
        if buffer[position + _MAGIC_AT] != 2:
            run = _legacy_run(buffer, position)
            if run is None:
                break
            append(run)
            position += len(run.view)
            continue
        if end - position < HEADER_BYTES:
            break
        fields = unpack(buffer, position)
        length = fields[1]
        if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            raise CorruptBatchError(f"batch at source offset {fields[0]}: its length field says {length}")
        stop = position + LOG_OVERHEAD_BYTES + length
        if stop > end:
            break
        append(make((buffer[position:stop], *fields)))
        position = stop
    if end and not batches:
        raise IncompleteBatchError(_first_batch_bytes(buffer), end)
    return batches


def verify(batch: RecordBatch) -> None:
    """Compare the batch's checksum with its bytes; to be called before ``rewrite``, which makes a new checksum.

    Raises:
        CorruptBatchError: They differ, or the header contradicts itself.
    """
    if batch.magic != 2:
        for offset, crc, message in legacy_messages(batch.view):
            if zlib.crc32(message) != crc:
                raise CorruptBatchError(f"message at source offset {offset}: CRC-32 is not {crc:#010x}, as it says")
        return
    actual = crc32c(batch.view[_CRC_FROM:])
    if actual != batch.crc:
        raise CorruptBatchError(
            f"{describe(batch)}: CRC-32C is {actual:#010x}, its header says {batch.crc:#010x}; "
            "the source's log or the network damaged it: check the source's replicas of this partition"
        )
    if batch.last_offset_delta < 0 or not 0 <= batch.count <= batch.last_offset_delta + 1:
        raise CorruptBatchError(f"{describe(batch)}: {batch.count} records can't be in it")


def rewrite(
    batch: RecordBatch, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
) -> None:
    """Make a verified batch ready to be produced, in place. May be called again with another sequence.

    Base offset 0 (a broker refuses others), no partition leader epoch, neither control nor with a delete horizon, the
    given producer, ``transactional`` or not whatever it was, a new CRC. Record bytes, timestamps, timestamp type, codec
    and count stay. A base timestamp that is a delete horizon stays too: the records' deltas are counted from it.

    Raises:
        TypeError: ``batch.view`` is read-only.
    """
    view = batch.view
    HEADER.pack_into(
        view,
        0,
        0,
        batch.length,
        -1,
        2,
        0,
        batch.attributes & ~_SOURCE_BITS | (TRANSACTIONAL_BIT if transactional else 0),
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        batch.count,
    )
    _CRC.pack_into(view, _CRC_AT, crc32c(view[_CRC_FROM:]))


def needs_repack(batch: RecordBatch, position: int, max_message_bytes: int) -> RepackReason | None:
    """Why a batch with records can't be passed on as it is, or None when it can.

    Neither a control batch nor an empty one: those are dropped before. ``position``: the next source offset to copy.
    """
    if batch.magic != 2:
        return "magic"
    if batch.attributes & TIMESTAMP_TYPE_BIT:
        return "log_append_time"
    if batch.base_offset < position:
        return "before_position"
    if batch.last_offset_delta + 1 != batch.count:
        return "compacted"
    if len(batch.view) > max_message_bytes:
        return "too_large"
    return None


def legacy_messages(view: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Walk a magic 0 or 1 message set: offset, CRC-32, and the bytes that the CRC covers (from magic on) of each.

    Raises:
        CorruptBatchError: A message's length field is wrong.
    """
    position = 0
    while position < len(view):
        if len(view) - position < _LEGACY_V0.size:
            raise CorruptBatchError(f"message set ends inside a message, {len(view) - position} bytes before its end")
        offset, length, crc, _, _ = _LEGACY_V0.unpack_from(view, position)
        stop = position + LOG_OVERHEAD_BYTES + length
        if length < _LEGACY_MIN_LENGTH[0] or stop > len(view):
            raise CorruptBatchError(f"message at source offset {offset}: its length field says {length}")
        yield offset, crc, view[position + _MAGIC_AT : stop]
        position = stop


def _legacy_run(buffer: memoryview, start: int) -> RecordBatch | None:
    """Take the whole messages from ``start`` on that share magic and attributes; None if the first is cut off."""
    magic = buffer[start + _MAGIC_AT]
    offset = int.from_bytes(buffer[start : start + 8], "big", signed=True)
    if magic > 1:
        raise CorruptBatchError(f"batch at source offset {offset}: magic {magic} is unknown, 0 to 2 are")
    position, last, count, first_timestamp, max_timestamp = start, offset, 0, -1, -1
    layout, minimum = (_LEGACY_V1, _LEGACY_MIN_LENGTH[1]) if magic else (_LEGACY_V0, _LEGACY_MIN_LENGTH[0])
    kind = None
    while len(buffer) - position >= minimum + LOG_OVERHEAD_BYTES:
        message_offset, length, _, *message_kind, timestamp = (*layout.unpack_from(buffer, position), -1)[:6]
        stop = position + LOG_OVERHEAD_BYTES + length
        if kind is not None and message_kind != kind:
            break
        if length < minimum:
            raise CorruptBatchError(f"message at source offset {message_offset}: its length field says {length}")
        if stop > len(buffer):
            break
        kind = message_kind
        first_timestamp = timestamp if not count else first_timestamp
        last, max_timestamp = message_offset, max(max_timestamp, timestamp)
        count += 1
        position = stop
    if kind is None:
        return None
    view = buffer[start:position]
    return RecordBatch(
        view, offset, len(view) - LOG_OVERHEAD_BYTES, -1, magic, 0, kind[1] & (CODEC_MASK | TIMESTAMP_TYPE_BIT),
        last - offset, first_timestamp, max_timestamp, -1, -1, -1, count,
    )  # fmt: skip


def _first_batch_bytes(buffer: memoryview) -> int:
    """The size of the first batch in the buffer, as far as it can be read."""
    if len(buffer) < LOG_OVERHEAD_BYTES:
        return LOG_OVERHEAD_BYTES
    length: int = _LENGTH.unpack_from(buffer, 8)[0]
    return LOG_OVERHEAD_BYTES + max(length, 0)
