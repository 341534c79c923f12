"""The records that load generators write: each says who wrote it and its number there, so that its position is known.

Half of the records are 8 to 30 days old, in stretches, so that every partition ends now with old ones, now with new
ones: a broker forgets the producer of old records (``producer.id.expiration.ms``, a day) when it starts or checks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

_DAY_MS: Final = 86_400_000
_STRETCH: Final = 1_000
_KEYS: Final = 200
_TOMBSTONE_EVERY: Final = 13
_FILLING: Final = b"all work and no play makes a record dull; " * 8


class LoadRecord(NamedTuple):
    """A record without its offset: a record and its copy are equal."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class PlacedRecord(NamedTuple):
    """A record and its offset."""

    offset: int
    record: LoadRecord


class RecordId(NamedTuple):
    """Who wrote a record, and its number there."""

    writer: str
    number: int


def make_record(writer: str, number: int, partition: int, now_ms: int, *, keyed: bool) -> LoadRecord:
    """The record of that number. A ``keyed`` one has one of a few hundred keys, and is a tombstone now and then."""
    headers: Headers = (("writer", writer.encode()), ("number", b"%d" % number))
    if number % 10 == 0:
        headers += (("empty", b""), ("null", None), ("number", b"again"))
    value: bytes | None = b"%s %d %s" % (writer.encode(), number, _FILLING[: number % 300])
    key = b"key-%d" % (number * 7919 % _KEYS) if keyed else None
    if keyed and number % _TOMBSTONE_EVERY == 0:
        value = None
    return LoadRecord(key, value, headers, now_ms - _age_ms(number, partition))


def record_id(record: LoadRecord) -> RecordId | None:
    """The writer and the number that ``make_record`` was given; None: it did not make this record."""
    found: dict[str, bytes | None] = {}
    for name, value in record.headers:
        found.setdefault(name, value)
    writer, number = found.get("writer"), found.get("number")
    if writer is None or number is None or not number.isdigit():
        return None
    return RecordId(writer.decode(errors="replace"), int(number))


def _age_ms(number: int, partition: int) -> int:
    stretch = number // _STRETCH + partition
    return (8 + stretch * 5 % 23) * _DAY_MS if stretch % 2 else 0
