"""The records of a chaos run: pure. Each says who wrote it and the how many-th it is, so that its place can be checked.

Half of the records are 8 to 30 days old, in stretches, so that every partition ends now with old ones, now with new
ones: a broker forgets the producer of old ones (``producer.id.expiration.ms``, a day) when it starts or looks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

_DAY_MS: Final = 86_400_000
_STRETCH: Final = 1_000
_KEYS: Final = 200
_TOMBSTONE_EVERY: Final = 13
_FILLING: Final = b"all work and no play makes a record dull; " * 8


class ChaosRecord(NamedTuple):
    """A record without its offset: two copies of a record are equal."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class Placed(NamedTuple):
    """A record and its offset."""

    offset: int
    record: ChaosRecord


class Identity(NamedTuple):
    """Who wrote a record, and its running number there."""

    writer: str
    number: int


def make_record(writer: str, number: int, partition: int, now_ms: int, *, keyed: bool) -> ChaosRecord:
    """The record of that number. A ``keyed`` one has one of a few hundred keys, and is a tombstone now and then."""
    headers: Headers = (("writer", writer.encode()), ("number", b"%d" % number))
    if number % 10 == 0:
        headers += (("empty", b""), ("null", None), ("number", b"again"))
    value: bytes | None = b"%s %d %s" % (writer.encode(), number, _FILLING[: number % 300])
    key = b"key-%d" % (number * 7919 % _KEYS) if keyed else None
    if keyed and number % _TOMBSTONE_EVERY == 0:
        value = None
    return ChaosRecord(key, value, headers, now_ms - _age_ms(number, partition))


def identity(record: ChaosRecord) -> Identity | None:
    """What ``make_record`` was told; None where the record is not one of ours."""
    found: dict[str, bytes | None] = {}
    for name, value in record.headers:
        found.setdefault(name, value)
    writer, number = found.get("writer"), found.get("number")
    if writer is None or number is None or not number.isdigit():
        return None
    return Identity(writer.decode(errors="replace"), int(number))


def _age_ms(number: int, partition: int) -> int:
    stretch = number // _STRETCH + partition
    return (8 + stretch * 5 % 23) * _DAY_MS if stretch % 2 else 0
