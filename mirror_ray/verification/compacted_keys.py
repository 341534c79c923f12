"""Compacted partitions: of every key, the last record on both sides. Pure.

Either side may have been cleaned at any time: of what lies between two pairs, only each key's last record is sure to be
there, and not even that where it is a tombstone, or where a newer record of the key lies behind the pair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from mirror_ray.records.decode import DecodedRecord
from mirror_ray.verification.difference import Difference
from mirror_ray.verification.record_hashes import HashedRecord, printed, record_digest


class LastRecord(NamedTuple):
    """The last record of a key, by its hash; an empty one is a tombstone."""

    offset: int
    digest: bytes


@dataclass(slots=True)
class LastRecords:
    """Takes the records of one side, in order.

    Attributes:
        found: By key.
        records: How many there were that have a key.
        digest: Over all of them, in their order, and but for a sample over those without a key: a cleaner drops these,
            but not where it does not run.
    """

    timestamps: bool
    fraction: float = 1.0
    found: dict[bytes, LastRecord] = field(default_factory=dict)
    records: int = 0
    _all: blake2b = field(default_factory=lambda: blake2b(digest_size=16))

    @property
    def digest(self) -> bytes:
        """See above."""
        return self._all.digest()

    def take(self, records: Iterable[DecodedRecord]) -> None:
        """Take the next records."""
        for record in records:
            key, value, _ = record.fields()
            if not (self.fraction >= 1 if key is None else key_is_sampled(key, self.fraction)):
                continue
            digest = record_digest(record, timestamps=self.timestamps)
            self._all.update(digest)
            if key is not None:
                self.records += 1
                self.found[key] = LastRecord(record.offset, b"" if value is None else digest)


@dataclass(slots=True)
class LastHashes:
    """As ``LastRecords``, for these keys alone and field by field. A tombstone is as no record; its offset is kept."""

    timestamps: bool
    keys: Collection[bytes]
    found: dict[bytes, HashedRecord] = field(default_factory=dict)
    dead: dict[bytes, int] = field(default_factory=dict)

    def take(self, records: Iterable[DecodedRecord]) -> None:
        """Take the next records."""
        for record in records:
            key, value, _ = record.fields()
            if key is None or key not in self.keys:
                continue
            if value is None:
                self.found.pop(key, None)
                self.dead[key] = record.offset
            else:
                self.found[key] = printed(record, timestamps=self.timestamps)
                self.dead.pop(key, None)

    def forget(self, keys: Collection[bytes]) -> None:
        """Without these keys."""
        for key in keys:
            self.found.pop(key, None)
            self.dead.pop(key, None)

    def forget_before(self, offset: int) -> None:
        """Without what lies before an offset."""
        self.found = {key: each for key, each in self.found.items() if each.offset >= offset}
        self.dead = {key: each for key, each in self.dead.items() if each >= offset}


def key_is_sampled(key: bytes, fraction: float) -> bool:
    """Whether a key is one of that fraction of all keys: the same ones every time."""
    return fraction >= 1 or crc32(key) < fraction * (1 << 32)


def differing_keys(source: Mapping[bytes, LastRecord], target: Mapping[bytes, LastRecord]) -> set[bytes]:
    """The keys whose last records differ; a tombstone is as no record."""
    nothing = LastRecord(-1, b"")
    return {
        key
        for key in source.keys() | target.keys()
        if source.get(key, nothing).digest != target.get(key, nothing).digest
    }


def key_findings(source: LastHashes, target: LastHashes, ends: tuple[int, int]) -> list[Difference]:
    """What differs between the last records of the same keys.

    One that is missing has its place at the tombstone that is there instead, or at the other side's end.
    """
    found: list[Difference] = []
    for key in source.found.keys() | target.found.keys():
        mine, theirs = source.found.get(key), target.found.get(key)
        if mine is None and theirs is not None:
            found.append(Difference("extra", source.dead.get(key, ends[0]), theirs.offset))
        elif mine is not None and theirs is None:
            found.append(Difference("missing", mine.offset, target.dead.get(key, ends[1])))
        elif mine is not None and theirs is not None and mine.print != theirs.print:
            found.append(Difference("changed", mine.offset, theirs.offset, mine.print.differs_in(theirs.print)))
    return sorted(found, key=lambda each: (each.source_offset, each.target_offset))
