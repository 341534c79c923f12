"""What records are compared by, and what a difference between a source partition and its copy is."""

from __future__ import annotations

import struct
from dataclasses import dataclass
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
    hash: RecordHash


def hash_record(record: DecodedRecord, *, timestamps: bool) -> HashedRecord:
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
NULL_HASH = _hashed(record_tail(None, None))


#: ``missing``: on the target. ``doubled``: there twice. ``extra``: on the target, and not on the source. ``swapped``:
#: in the place of the next one, which is in its. ``moved``: out of order. ``changed``: other in some of its fields.
Kind = Literal["missing", "doubled", "extra", "swapped", "moved", "changed"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. Where a record is on one side only, the other offset is its place there."""

    kind: Kind
    source_offset: int
    target_offset: int
    #: Of a changed record: what is other.
    fields: tuple[Field, ...] = ()
    #: The recorded gap that accounts for it; None: none does.
    gap: str | None = None
    #: Of a record that the source does not have there: who wrote it, where that is not the flow.
    producer_id: int | None = None

    def __str__(self) -> str:
        source, target = f"source offset {self.source_offset}", f"target offset {self.target_offset}"
        match self.kind:
            case "missing":
                text = f"the record at {source} is missing on the target, at {target}"
            case "doubled":
                text = f"the record at {source} is on the target once more, at {target}"
            case "extra":
                text = f"the record at {target} is not on the source, at {source}"
            case "swapped":
                text = f"the record at {source} is swapped with the next on the target, at {target}"
            case "moved":
                text = f"the record at {source} is out of order on the target, at {target}"
            case "changed":
                text = f"the record at {source} has another {' and '.join(self.fields)} on the target, at {target}"
        if self.producer_id is not None:
            text += f"; producer {self.producer_id} wrote it, which is none of the flow's"
        return f"{text} (known: {self.gap})" if self.gap else text
