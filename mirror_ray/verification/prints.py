"""What is left of a record to compare it by: hashes over what a consumer sees of it. Pure.

A record's ``tail`` (key, value and headers as a v2 batch has them, nulls told from empty ones) can't be read in two
ways, nor can several in a row: each field says its own length.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

from mirror_ray.records.decode import Record, record_tail

Field = Literal["key", "value", "headers", "timestamp"]

_TIMESTAMP = struct.Struct(">q")


class Sum(NamedTuple):
    """The records of a range on one side: how many they are, and a hash of all in their order."""

    records: int
    digest: bytes


class Sums:
    """Sums up the records of spans of one log as they are read, in order.

    ``spans`` ascend and do not overlap; ``timestamps`` False: they are left out.
    """

    def __init__(self, spans: Sequence[tuple[int, int]], *, timestamps: bool) -> None:
        self._spans = spans
        self._timestamps = timestamps
        self._at = 0
        self._found: list[Sum | None] = [None] * len(spans)
        self._torn: set[int] = set()
        self._begin()

    def _begin(self) -> None:
        self._records = 0
        self._tails, self._times = blake2b(digest_size=16), blake2b(digest_size=16)

    def take(self, records: Sequence[Record]) -> None:
        """Take the next records of the log."""
        first = 0
        while first < len(records) and self._at < len(self._spans):
            start, end = self._spans[self._at]
            first = bisect_left(records, start, first, key=_offset_of)
            behind = bisect_left(records, end, first, key=_offset_of)
            self._put(records[first:behind])
            if behind == len(records):
                return
            self._next()
            first = behind

    def removed(self, before: int) -> None:
        """Records below an offset are gone: spans that begin below it are not known."""
        self._torn |= {at for at, (start, _) in enumerate(self._spans[self._at :], self._at) if start < before}

    def finish(self) -> list[Sum | None]:
        """Each span's sum; None where records were removed meanwhile."""
        while self._at < len(self._spans):
            self._next()
        return [None if at in self._torn else found for at, found in enumerate(self._found)]

    def _put(self, records: Sequence[Record]) -> None:
        self._records += len(records)
        self._tails.update(b"".join([tail for _, _, tail in records]))
        if self._timestamps:
            self._times.update(struct.pack(f">{len(records)}q", *[timestamp for _, timestamp, _ in records]))

    def _next(self) -> None:
        self._found[self._at] = Sum(self._records, self._tails.digest() + self._times.digest())
        self._at += 1
        self._begin()


class Print(NamedTuple):
    """One record, field by field."""

    key: bytes
    value: bytes
    headers: bytes
    timestamp: int

    def differs_in(self, other: Print) -> tuple[Field, ...]:
        """The fields that are not equal."""
        fields: tuple[Field, ...] = ("key", "value", "headers", "timestamp")
        return tuple(name for name, mine, theirs in zip(fields, self, other, strict=True) if mine != theirs)


class Printed(NamedTuple):
    """A record's place, and what it is compared by."""

    offset: int
    print: Print


def printed(record: Record, *, timestamps: bool) -> Printed:
    """Hash each field. ``timestamps`` False: all are taken as equal.

    Raises:
        CorruptBatchError: The record does not parse.
    """
    key, value, headers = record.fields()
    content = Print(
        _hashed(record_tail(key, None)),
        _hashed(record_tail(None, value)),
        _hashed(record_tail(None, None, headers)),
        record.timestamp if timestamps else 0,
    )
    return Printed(record.offset, content)


def record_digest(record: Record, *, timestamps: bool) -> bytes:
    """A hash of the whole record but its offset."""
    return _hashed(record.tail + (_TIMESTAMP.pack(record.timestamp) if timestamps else b""))


def _hashed(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _offset_of(record: Record) -> int:
    return record.offset
