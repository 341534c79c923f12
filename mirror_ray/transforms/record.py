"""A record as a transform gets it: parsed from a decoded one, and encoded again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from mirror_ray.records import decode
from mirror_ray.records.decode import read_varint, write_varint

Headers = tuple[tuple[str, bytes | None], ...]

#: Names of headers are UTF-8 by Kafka's rule; bytes that are none come back as they were.
_ENCODING: Final = ("utf-8", "surrogateescape")
#: Encoded lengths, as far as most records need them.
_KNOWN_LENGTHS: Final = 4096
_LENGTHS: Final = tuple(write_varint(number) for number in range(_KNOWN_LENGTHS))

_make_record = decode.DecodedRecord._make


class Record(NamedTuple):
    """One record of the source. Change it by ``_replace``, but for ``topic``, ``partition`` and ``offset``."""

    #: None: it has none.
    key: bytes | None
    #: None: a tombstone, which deletes the key in a compacted topic.
    value: bytes | None
    #: In their order; a name may be there more than once.
    headers: Headers
    #: Milliseconds since the epoch; -1 for none.
    timestamp_ms: int
    topic: str
    partition: int
    offset: int
    #: The remote topic that it goes to instead of the flow's own; empty: the flow's own.
    destination: str = ""

    def to(self, destination: str) -> Record:
        """The record, sent to another remote topic, one of the ``destinations`` of the transform."""
        return self._replace(destination=destination)


def parse_records(records: Sequence[decode.DecodedRecord], topic: str, partition: int) -> list[Record]:
    """Parse the fields of decoded records.

    Raises:
        CorruptBatchError: The bytes of one are no record.
    """
    found: list[Record] = []
    append, make = found.append, Record._make
    for record in records:
        offset, timestamp_ms, tail = record
        try:
            # Lengths of up to two bytes are read in place: calls would take as long as all the rest.
            low = tail[0]
            if low < 0x80:
                size, at = low >> 1 ^ -(low & 1), 1
            else:
                size, at = read_varint(tail, 0)
            stop = at + size if size >= 0 else at
            key = tail[at:stop] if size >= 0 else None
            low, high = tail[stop], tail[stop + 1]
            if low < 0x80:
                size, at = low >> 1 ^ -(low & 1), stop + 1
            elif high < 0x80:
                low = low & 0x7F | high << 7
                size, at = low >> 1 ^ -(low & 1), stop + 2
            else:
                size, at = read_varint(tail, stop)
            stop = at + size if size >= 0 else at
            value = tail[at:stop] if size >= 0 else None
            plain = tail[stop] == 0 and stop + 1 == len(tail)
        except IndexError:
            plain = False
        if plain:
            append(make((key, value, (), timestamp_ms, topic, partition, offset, "")))
        else:
            key, value, headers = record.fields()
            named = tuple((name.decode(*_ENCODING), content) for name, content in headers)
            append(make((key, value, named, timestamp_ms, topic, partition, offset, "")))
    return found


def encode_record(record: Record) -> decode.DecodedRecord:
    """Encode the fields of a record.

    Raises:
        TypeError: A field is of another type than it should be.
        ValueError: A field can't be written.
    """
    key, value, headers, timestamp_ms, _, _, offset, _ = record
    if type(timestamp_ms) is not int or not -(1 << 63) <= timestamp_ms < 1 << 63:
        raise TypeError(f"timestamp_ms is {timestamp_ms!r}, no 64-bit integer")
    tail = _field(key) + _field(value)
    if not headers:
        return _make_record((offset, timestamp_ms, tail + b"\x00"))
    count = len(headers)
    parts = [tail, _LENGTHS[count] if count < _KNOWN_LENGTHS else write_varint(count)]
    for name, content in headers:
        parts.append(_named(name))
        parts.append(_field(content))
    return _make_record((offset, timestamp_ms, b"".join(parts)))


def _field(data: bytes | None) -> bytes:
    """A length and what follows it."""
    if data is None:
        return b"\x01"
    if type(data) is not bytes:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"key, value and headers' values are bytes or None, not {type(data).__name__}")
        data = bytes(data)
    size = len(data)
    return (_LENGTHS[size] if size < _KNOWN_LENGTHS else write_varint(size)) + data


@lru_cache(maxsize=1024)
def _named(name: str) -> bytes:
    """A header's name, of which there are few."""
    return _field(name.encode(*_ENCODING))
