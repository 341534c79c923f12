"""What is left of a record to compare it by: hashes over what a consumer sees of it. Pure.

A record's ``tail`` (key, value and headers as a v2 batch has them, nulls told from empty ones) can't be read in two
ways: each field says its own length.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Literal, NamedTuple

from mirror_ray.records.decode import DecodedRecord, record_tail

Field = Literal["key", "value", "headers", "timestamp"]

_TIMESTAMP = struct.Struct(">q")


class RecordHash(NamedTuple):
    """One record, field by field."""

    key: bytes
    value: bytes
    headers: bytes
    timestamp: int

    def differs_in(self, other: RecordHash) -> tuple[Field, ...]:
        """The fields that are not equal."""
        fields: tuple[Field, ...] = ("key", "value", "headers", "timestamp")
        return tuple(name for name, mine, theirs in zip(fields, self, other, strict=True) if mine != theirs)


class HashedRecord(NamedTuple):
    """A record's place, and what it is compared by."""

    offset: int
    print: RecordHash


def printed(record: DecodedRecord, *, timestamps: bool) -> HashedRecord:
    """Hash each field. ``timestamps`` False: all are taken as equal.

    Raises:
        CorruptBatchError: The record does not parse.
    """
    key, value, headers = record.fields()
    content = RecordHash(
        _hashed(record_tail(key, None)),
        _hashed(record_tail(None, value)),
        _hashed(record_tail(None, None, headers)),
        record.timestamp if timestamps else 0,
    )
    return HashedRecord(record.offset, content)


def record_digest(record: DecodedRecord, *, timestamps: bool) -> bytes:
    """A hash of the whole record but its offset."""
    return _hashed(record.tail + (_TIMESTAMP.pack(record.timestamp) if timestamps else b""))


def _hashed(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


#: The hash of a key, or a value, that is null.
NOTHING = _hashed(record_tail(None, None))
