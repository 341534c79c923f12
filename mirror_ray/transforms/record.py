"""A record as a transform gets it, and how one is encoded again."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn

from mirror_ray.records.decode import DecodedRecord, write_varint

Headers = tuple[tuple[str, bytes | None], ...]
#: Key, value and headers.
Fields = tuple[bytes | None, bytes | None, Headers]

#: What a transform may do without.
FIELDS: Final = ("key", "value", "headers")
#: Names of headers are UTF-8 by Kafka's rule; bytes that are none come back as they were.
ENCODING: Final = ("utf-8", "surrogateescape")
#: Encoded lengths, as far as most records need them.
_KNOWN_LENGTHS: Final = 4096
_LENGTHS: Final = tuple(write_varint(number) for number in range(_KNOWN_LENGTHS))

_make_record = DecodedRecord._make


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


class Unread:
    """In place of a field that is not read: the source's own, which goes on as it is. It can't be looked into."""

    def __init__(self, field: str) -> None:
        self._field = field

    def __repr__(self) -> str:
        return f"<{self._field}, which is not read>"

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(f"the {self._field} is not read: the transform's reads does not name it")

    __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = __add__ = __radd__ = __bytes__ = _refuse
    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __hash__ = _refuse


#: Of each of ``FIELDS``. Records are typed as if all of them were read.
UNREAD: Final[tuple[Any, Any, Any]] = (Unread("key"), Unread("value"), Unread("headers"))


def encode_result(result: Record, source: DecodedRecord, fields: Fields) -> DecodedRecord:
    """Encode what transforms made of a record; ``source`` itself, whose ``fields`` these are, if it is the same.

    Raises as ``encode_fields`` does.
    """
    key, value, headers, timestamp_ms = result[:4]
    key = fields[0] if key is UNREAD[0] else key
    value = fields[1] if value is UNREAD[1] else value
    headers = fields[2] if headers is UNREAD[2] else headers
    if (key, value, headers, timestamp_ms) == (*fields, source.timestamp):
        return source
    return encode_fields(source.offset, key, value, headers, timestamp_ms)


def encode_fields(
    offset: int, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int
) -> DecodedRecord:
    """Encode a record.

    Raises:
        TypeError: A field is of another type than it should be.
        ValueError: A field can't be written.
    """
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
    return _field(name.encode(*ENCODING))
