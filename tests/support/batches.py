"""Record batches made by hand, byte by byte, independent of the code under test."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c


def varint(value: int) -> bytes:
    """A zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def record(offset_delta: int, value: bytes, key: bytes | None = None) -> bytes:
    """One record of magic 2, without headers."""
    keyed = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(0) + varint(offset_delta) + keyed + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(
    base_offset: int,
    values: Sequence[tuple[int, bytes]],
    last_offset_delta: int | None = None,
    *,
    producer_id: int = -1,
    attributes: int = 0,
    timestamp: int = 1_700_000_000_000,
) -> bytes:
    """A batch of ``(offset delta, value)`` records."""
    payload = b"".join(record(delta, value) for delta, value in values)
    last = values[-1][0] if last_offset_delta is None else last_offset_delta
    return sealed(base_offset, payload, last, len(values), producer_id, attributes, timestamp)


def marker(base_offset: int, producer_id: int, *, commit: bool) -> bytes:
    """A control batch that ends a transaction."""
    key = struct.pack(">hh", 0, 1 if commit else 0)
    payload = record(0, struct.pack(">hi", 0, 0), key)
    return sealed(base_offset, payload, 0, 1, producer_id, 0x30, 1_700_000_000_000)


def sealed(
    base_offset: int, payload: bytes, last: int, count: int, producer_id: int, attributes: int, timestamp: int
) -> bytes:
    """Header and checksum around a payload."""
    head = struct.pack(">hiqqqhii", attributes, last, timestamp, timestamp, producer_id, 0, -1, count)
    crc = crc32c(head + payload)
    return struct.pack(">qiibI", base_offset, 9 + len(head) + len(payload), 0, 2, crc) + head + payload
