"""What records are compared by, and what a difference between a source partition and its copy is."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

from mirror_ray.records.decode import DecodedRecord, record_tail

RecordField = Literal["key", "value", "headers", "timestamp"]

_TIMESTAMP = struct.Struct(">q")


class RecordHash(NamedTuple):
    """The hashes of one record's fields, and its timestamp."""

    key: bytes
    value: bytes
    headers: bytes
    timestamp: int

    def differs_in(self, other: RecordHash) -> tuple[RecordField, ...]:
        """The fields that differ."""
        fields: tuple[RecordField, ...] = ("key", "value", "headers", "timestamp")
        return tuple(name for name, mine, theirs in zip(fields, self, other, strict=True) if mine != theirs)


class HashedRecord(NamedTuple):
    """A record's offset, and what it is compared by."""

    offset: int
    hash: RecordHash


def hash_record(record: DecodedRecord, *, timestamps: bool) -> HashedRecord:
    """Hash field by field; without ``timestamps`` all are equal. Raises CorruptBatchError if it does not parse."""
    key, value, headers = record.fields()
    content = RecordHash(
        _hashed(record_tail(key, None)),
        _hashed(record_tail(None, value)),
        _hashed(record_tail(None, None, headers)),
        record.timestamp if timestamps else 0,
    )
    return HashedRecord(record.offset, content)


def record_digest(record: DecodedRecord, *, timestamps: bool) -> bytes:
    """Hash a whole record except for its offset."""
    return _hashed(record.tail + (_TIMESTAMP.pack(record.timestamp) if timestamps else b""))


def _hashed(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


#: The hash of a null key or value.
NULL_HASH = _hashed(record_tail(None, None))


#: ``missing``: not on the target. ``doubled``: on the target twice. ``extra``: on the target and not on the source.
#: ``swapped``: with the next record. ``moved``: out of order. ``changed``: some of its fields differ.
DifferenceKind = Literal["missing", "doubled", "extra", "swapped", "moved", "changed"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. If a record is on one side only, the other offset is where it would belong there."""

    kind: DifferenceKind
    source_offset: int
    target_offset: int
    #: Fields that differ, of a changed record.
    fields: tuple[RecordField, ...] = ()
    #: The text of the skipped range that explains it; None: none does.
    gap: str | None = None
    #: The producer of a record that the source does not have there, unless the flow wrote it.
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


def by_target_offset(difference: Difference) -> tuple[int, int]:
    """The order of differences: of the target, and then of the source."""
    return difference.target_offset, difference.source_offset
