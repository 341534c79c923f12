"""Primitive types of Kafka's protocol, plain and flexible (KIP-482), for requests that are encoded by hand."""

from __future__ import annotations

import struct


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """Decode an unsigned varint; returns it and where it ends.

    Raises:
        IndexError: The buffer ends inside it, or it is longer than 32 bits allow.
    """
    byte = buffer[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        at += 1
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise IndexError(f"varint at {at - 4} is longer than five bytes")


def compact_text(text: bytes) -> bytes:
    """Encode UTF-8 bytes as a compact string."""
    return uvarint(len(text) + 1) + text


def read_compact_text(buffer: bytes | memoryview, at: int) -> tuple[str | None, int]:
    """Decode a compact nullable string; returns it and where it ends. What is no UTF-8 is replaced.

    Raises:
        IndexError: The buffer ends inside its length.
    """
    size, at = read_uvarint(buffer, at)
    if size == 0:
        return None, at
    return str(buffer[at : at + size - 1], "utf-8", "replace"), at + size - 1


def skip_tags(buffer: bytes | memoryview, at: int) -> int:
    """Where a block of tagged fields ends."""
    return at + 1 if buffer[at] == 0 else read_tags(buffer, at)[1]


def read_tags(buffer: bytes | memoryview, at: int) -> tuple[dict[int, bytes | memoryview], int]:
    """Tagged fields by their number, and where they end."""
    fields: dict[int, bytes | memoryview] = {}
    count, at = read_uvarint(buffer, at)
    for _ in range(count):
        tag, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        fields[tag] = buffer[at : at + size]
        at += size
    return fields, at


def array_length(flexible: bool, count: int) -> bytes:
    """The length in front of an array, or of a byte string."""
    return uvarint(count + 1) if flexible else struct.pack(">i", count)


def topic_key(by_id: bool, flexible: bool, topic: bytes) -> bytes:
    """A topic in a request: its 16 id bytes as they are, else its name."""
    if by_id:
        return topic
    return compact_text(topic) if flexible else struct.pack(">h", len(topic)) + topic


def read_topic(by_id: bool, buffer: memoryview, at: int) -> tuple[bytes, int]:
    """A topic in a flexible response: 16 id bytes, or a compact string; and where it ends."""
    size, at = (17, at) if by_id else read_uvarint(buffer, at)
    return bytes(buffer[at : at + size - 1]), at + size - 1


def read_plain_topic(buffer: memoryview, at: int) -> tuple[bytes, int, int]:
    """A topic's name in a response that is not flexible, how many partitions follow, and where both end.

    Raises:
        IndexError: There is no name: reading on would not advance.
    """
    (size,) = struct.unpack_from(">h", buffer, at)
    if size < 0:
        raise IndexError(f"a topic's name of {size} bytes at {at}")
    end = at + 2 + size
    (count,) = struct.unpack_from(">i", buffer, end)
    return bytes(buffer[at + 2 : end]), count, end + 4
