"""Records and batches for the tests: built by an encoder of their own, from Kafka's description."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from crc32c import crc32c
from hypothesis import strategies as st

from mirror_ray.records.batch import CODECS, Codec
from mirror_ray.records.codecs import compress

Headers = tuple[tuple[bytes, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A record as a test states it."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = b"v"
    headers: Headers = field(default=())

    def body(self) -> tuple[bytes | None, bytes | None, Headers]:
        """What a copy must keep besides the timestamp."""
        return self.key, self.value, self.headers


def varint(number: int) -> bytes:
    """Write a zigzag varint."""
    zigzag = number * 2 if number >= 0 else -number * 2 - 1
    output = b""
    while zigzag >= 128:
        output += bytes([zigzag % 128 + 128])
        zigzag //= 128
    return output + bytes([zigzag])


def nullable(data: bytes | None) -> bytes:
    """Write bytes behind their varint length."""
    return varint(-1) if data is None else varint(len(data)) + data


def payload(records: Sequence[Plain], base_offset: int, base_timestamp: int) -> bytes:
    """Write the uncompressed records of a v2 batch."""
    output = b""
    for record in records:
        body = b"\x00" + varint(record.timestamp - base_timestamp) + varint(record.offset - base_offset)
        body += nullable(record.key) + nullable(record.value) + varint(len(record.headers))
        body += b"".join(nullable(name) + nullable(value) for name, value in record.headers)
        output += varint(len(body)) + body
    return output


def batch_bytes(
    records: Sequence[Plain],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    base_timestamp: int = 0,
    max_timestamp: int | None = None,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    data: bytes | None = None,
) -> bytearray:
    """Write a v2 batch; ``data`` replaces the payload (a compressed one)."""
    last = last_offset if last_offset is not None else max([base_offset, *(r.offset for r in records)])
    latest = max_timestamp if max_timestamp is not None else max([base_timestamp, *(r.timestamp for r in records)])
    data = payload(records, base_offset, base_timestamp) if data is None else data
    covered = struct.pack(">hiqqqhii", attributes, last - base_offset, base_timestamp, latest, *producer, len(records))
    covered += data
    return bytearray(struct.pack(">qiibI", base_offset, len(covered) + 9, 7, 2, crc32c(covered)) + covered)


def compressed_bytes(
    records: Sequence[Plain], codec: Codec, *, attributes: int = 0, max_timestamp: int | None = None
) -> bytearray:
    """Write a v2 batch, as a broker has it."""
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    return batch_bytes(
        records,
        base_offset=base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        attributes=CODECS.index(codec) | attributes,
        data=compress(codec, payload(records, base_offset, base_timestamp)),
    )


def message(
    magic: int, offset: int, value: bytes | None, *, key: bytes | None = None, timestamp: int = -1, attributes: int = 0
) -> bytes:
    """Write one message of magic 0 or 1."""
    covered = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for data in (key, value):
        covered += struct.pack(">i", -1 if data is None else len(data)) + (data or b"")
    return struct.pack(">qiI", offset, len(covered) + 4, zlib.crc32(covered)) + covered


_BYTES = st.none() | st.binary(max_size=200) | st.binary(min_size=1, max_size=4).map(lambda b: b * 2000)
_HEADERS = st.lists(st.tuples(st.text(max_size=10).map(str.encode), _BYTES), max_size=3).map(tuple)
_TIMESTAMPS = st.integers(-1, 1 << 41) | st.integers(-(1 << 61), 1 << 61)


@st.composite
def plain_records(draw: st.DrawFn, min_size: int = 1) -> list[Plain]:
    """Records in offset order, with holes, any timestamps, null keys and values, headers."""
    steps = draw(st.lists(st.integers(1, 3), min_size=min_size, max_size=12))
    offset = draw(st.integers(0, 1 << 50))
    records = []
    for step in steps:
        records.append(
            Plain(
                offset=offset, timestamp=draw(_TIMESTAMPS), key=draw(_BYTES), value=draw(_BYTES), headers=draw(_HEADERS)
            )
        )
        offset += step
    return records
