"""Decodes the records of batches of every magic: for repacking, and for comparing two logs.

Batches that are passed on are never decoded. A record's key, value and headers stay one raw slice until they are asked
for.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.records.batch import (
    CODEC_MASK,
    CODECS,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    ControlType,
    RecordBatch,
    describe,
    legacy_messages,
)
from mirror_ray.records.codecs import DECOMPRESSED_LIMIT_BYTES, decompress

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_LONGEST_VARINT_BITS: Final = 63
#: Memory of a decoded record beside its bytes: a batch of empty records must not take a hundred times its size.
_RECORD_COSTS_BYTES: Final = 192
#: Of the records of one batch: each takes about as much memory as a record does.
HEADERS_LIMIT: Final = DECOMPRESSED_LIMIT_BYTES // _RECORD_COSTS_BYTES
_CONTROL_KEY: Final = struct.Struct(">hh")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class DecodedRecord(NamedTuple):
    """One record. ``tail`` is its key, value and headers, encoded as in a v2 batch."""

    offset: int
    #: Milliseconds since the epoch; -1 for none. In a LogAppendTime batch the one that the broker set.
    timestamp: int
    tail: bytes

    @property
    def key(self) -> bytes | None:
        """The key, None for a null key."""
        return self.fields()[0]

    @property
    def value(self) -> bytes | None:
        """The value, None for a tombstone."""
        return self.fields()[1]

    @property
    def headers(self) -> tuple[tuple[bytes, bytes | None], ...]:
        """The headers in their order, repeated keys included."""
        return self.fields()[2]

    def fields(self) -> tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]:
        """Key, value and headers in one pass.

        Raises:
            CorruptBatchError: The bytes are no record, or have more than ``HEADERS_LIMIT`` headers.
        """
        try:
            key, position = _nullable(self.tail, 0)
            value, position = _nullable(self.tail, position)
            count, position = read_varint(self.tail, position)
            if count > HEADERS_LIMIT:
                raise CorruptBatchError(f"record at source offset {self.offset}: {count} headers are not decoded")
            headers = []
            for _ in range(count):
                name, position = _nullable(self.tail, position)
                content, position = _nullable(self.tail, position)
                if name is None:
                    count = -1
                    break
                headers.append((name, content))
        except IndexError:
            count = -1
        # Kafka's DefaultRecord refuses the same: fewer than no headers, and one without a name.
        if count < 0 or position != len(self.tail):
            raise CorruptBatchError(
                f"record at source offset {self.offset}: its fields don't fill its {len(self.tail)} bytes"
            )
        return key, value, tuple(headers)


def records_of(batch: RecordBatch, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> list[DecodedRecord]:
    """Decode all records of a batch, in order; those of a control batch are its markers.

    The payload, the records' bytes, and their memory beside these are each at most ``limit_bytes``.

    Raises:
        CorruptBatchError: The payload does not parse, unpacks to more than ``limit_bytes``, or has too many records.
    """
    most = limit_bytes // _RECORD_COSTS_BYTES
    if batch.next_offset > _INT64_MAX:
        raise CorruptBatchError(f"{describe(batch)}: its offsets have more than 64 bits")
    if batch.magic != 2:
        legacy = list(islice(_legacy_records(batch.view, limit_bytes), most + 1))
        if len(legacy) > most:
            raise CorruptBatchError(f"{describe(batch)}: more than {most} records in one batch are not decoded")
        offsets = [-1, *(record.offset for record in legacy), _INT64_MAX]
        if not all(offset < following for offset, following in pairwise(offsets)):
            raise CorruptBatchError(f"{describe(batch)}: the offsets of its messages do not ascend")
        return legacy
    if batch.count > most:
        raise CorruptBatchError(f"{describe(batch)}: {batch.count} records, more than {most} are not decoded")
    data = decompress(batch.codec, batch.view[HEADER_BYTES:], limit_bytes)
    try:
        records, stop = _v2_records(batch, data)
    except IndexError:
        raise CorruptBatchError(f"{describe(batch)}: its records end too early") from None
    if stop != len(data):
        raise CorruptBatchError(f"{describe(batch)}: {len(data) - stop} bytes follow its {batch.count} records")
    return records


def reaching_into(batch: RecordBatch, offset: int, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges of offsets, the end not included, that overlap with the batch at ``offset`` and behind it."""
    return [(first, end) for first, end in ranges if first < batch.next_offset and end > offset]


def records_from(batch: RecordBatch, offset: int, leave_out: Sequence[tuple[int, int]]) -> list[DecodedRecord]:
    """The batch's records from ``offset`` on, in order, without those in the ranges ``leave_out``.

    A range does not include its end. Raises as ``records_of`` does.
    """
    return [
        record
        for record in records_of(batch)
        if record.offset >= offset and not any(first <= record.offset < end for first, end in leave_out)
    ]


def control_type(batch: RecordBatch) -> ControlType:
    """The kind of a control batch; ``UNKNOWN`` for markers that are no transaction's, and for one that was cleaned.

    Raises:
        CorruptBatchError: Its record does not parse.
    """
    records = records_of(batch)
    if not records:
        return ControlType.UNKNOWN
    key = records[0].key
    if key is None or len(key) < _CONTROL_KEY.size:
        raise CorruptBatchError(f"{describe(batch)}: its control record has no type")
    _, number = _CONTROL_KEY.unpack_from(key)
    return ControlType(number) if number in (ControlType.ABORT, ControlType.COMMIT) else ControlType.UNKNOWN


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint or varlong: its value and where it ends.

    Raises:
        IndexError: The data ends inside it.
        CorruptBatchError: It is longer than 64 bits.
    """
    byte, behind = data[position], position + 1
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), behind
    # Most others have two bytes.
    if (second := data[behind]) < 0x80:
        return (byte & 0x7F | second << 7) >> 1 ^ -(byte & 1), behind + 1
    shift = number = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= 0xFFFF_FFFF_FFFF_FFFF
            return number >> 1 ^ -(number & 1), position
        shift += 7
        if shift > _LONGEST_VARINT_BITS:
            raise CorruptBatchError("a varint of more than 64 bits")


def _v2_records(batch: RecordBatch, data: bytes) -> tuple[list[DecodedRecord], int]:
    """All records, and where they end in ``data``. One-byte varints are read in place: calls would double the time."""
    records: list[DecodedRecord] = []
    base_offset, base_timestamp, last_delta = batch.base_offset, batch.base_timestamp, batch.last_offset_delta
    append_time = batch.max_timestamp if batch.is_log_append_time else None
    append, make, end = records.append, DecodedRecord._make, len(data)
    position, previous = 0, -1
    for _ in range(batch.count):
        byte = data[position]
        length, position = (byte >> 1 ^ -(byte & 1), position + 1) if byte < 0x80 else read_varint(data, position)
        stop = position + length
        byte = data[position + 1]
        if byte < 0x80:
            delta, position = byte >> 1 ^ -(byte & 1), position + 2
        else:
            delta, position = read_varint(data, position + 1)
        timestamp = base_timestamp + delta if append_time is None else append_time
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            timestamp = wrap_int64(timestamp)
        byte = data[position]
        delta, position = (byte >> 1 ^ -(byte & 1), position + 1) if byte < 0x80 else read_varint(data, position)
        if not (position <= stop <= end and previous < delta <= last_delta):
            raise CorruptBatchError(f"{describe(batch)}: its record number {len(records)} does not parse")
        append(make((base_offset + delta, timestamp, data[position:stop])))
        position, previous = stop, delta
    return records, position


def _nullable(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > len(data):
        raise IndexError
    return data[position:stop], stop


def _legacy_records(view: memoryview, limit_bytes: int) -> Iterator[DecodedRecord]:
    """The records of a magic 0 or 1 message set, those inside compressed messages included (KIP-31, KIP-32)."""
    left_bytes = limit_bytes
    for offset, _, message in legacy_messages(view):
        magic, attributes = message[0], message[1]
        timestamp, key, value = _legacy_fields(offset, message)
        if not attributes & CODEC_MASK:
            yield DecodedRecord(offset, timestamp, record_tail(key, value))
            continue
        if value is None or attributes & CODEC_MASK >= len(CODECS):
            raise CorruptBatchError(
                f"compressed message at source offset {offset}: it holds nothing that can be unpacked"
            )
        inner = decompress(CODECS[attributes & CODEC_MASK], value, left_bytes)
        left_bytes -= len(inner)
        append_time = timestamp if attributes & TIMESTAMP_TYPE_BIT else None
        yield from _wrapped_records(offset, magic, append_time, memoryview(inner))


def _wrapped_records(
    wrapper_offset: int, magic: int, append_time: int | None, view: memoryview
) -> Iterator[DecodedRecord]:
    """The records of a compressed message. In magic 1 inner offsets are relative, the wrapper's is the last one's."""
    last = deque(legacy_messages(view), maxlen=1)
    base = wrapper_offset - last[0][0] if last and magic else 0
    for offset, _, message in legacy_messages(view):
        if message[0] != magic or message[1] & CODEC_MASK or base + offset < 0:
            raise CorruptBatchError(f"compressed message at source offset {wrapper_offset}: its contents do not fit it")
        timestamp, key, value = _legacy_fields(base + offset, message)
        yield DecodedRecord(base + offset, timestamp if append_time is None else append_time, record_tail(key, value))


def _legacy_fields(offset: int, message: memoryview) -> tuple[int, memoryview | None, memoryview | None]:
    """Timestamp, key and value of a message, from its magic byte on."""
    try:
        timestamp, position = (_INT64.unpack_from(message, 2)[0], 10) if message[0] else (-1, 2)
        key, position = _int32_prefixed(message, position)
        value, position = _int32_prefixed(message, position)
    except struct.error:
        position = -1
    if position != len(message):
        raise CorruptBatchError(f"message at source offset {offset}: its fields don't fill its {len(message)} bytes")
    return timestamp, key, value


def _int32_prefixed(data: memoryview, position: int) -> tuple[memoryview | None, int]:
    length = _INT32.unpack_from(data, position)[0]
    start = position + _INT32.size
    return (None, start) if length < 0 else (data[start : start + length], start + length)


def record_tail(
    key: memoryview | bytes | None, value: memoryview | bytes | None, headers: Sequence[tuple[bytes, bytes | None]] = ()
) -> bytes:
    """Key, value and headers as a v2 record has them: a ``DecodedRecord.tail``."""
    encoded = b"".join(prefixed(name) + prefixed(content) for name, content in headers)
    return prefixed(key) + prefixed(value) + write_varint(len(headers)) + encoded


def prefixed(data: memoryview | bytes | None) -> bytes:
    """A key or a value, or a header's, as a v2 record has it: behind its length, -1 where there is none."""
    return b"\x01" if data is None else write_varint(len(data)) + data


def wrap_int64(number: int) -> int:
    """Wrap a sum or difference of two 64-bit numbers as Java's long does."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def write_varint(number: int) -> bytes:
    """Write a 64-bit integer as a zigzag varint; Kafka's varint and varlong are the same bytes."""
    zigzag = (number << 1) ^ (number >> 63)
    output = bytearray()
    while zigzag > 0x7F:
        output.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    output.append(zigzag)
    return bytes(output)
