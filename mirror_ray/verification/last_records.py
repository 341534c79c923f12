"""What the first pass takes of a compacted partition: the last record of each key, and a digest of all in order.

It is what the record kernel does (``kernel.KeyComparison``) where that was built, and the reference that it is tested
against.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from math import ceil
from typing import NamedTuple
from zlib import crc32

from mirror_ray.records.decode import DecodedRecord
from mirror_ray.verification.difference import record_digest

#: Behind every CRC-32.
_CRCS = 1 << 32
#: Of a key and its digest, beside the key's own bytes.
_KEY_COSTS_BYTES = 200


class KeySlice(NamedTuple):
    """Which keys are compared, by their CRC-32: it is the same ones every time, and with and without the kernel."""

    #: Bounds; the end is not included.
    first: int
    end: int
    #: Records are compared in order whose keys lie below that; with ``_CRCS`` those without a key, too.
    ordered_below: int

    @property
    def keys(self) -> tuple[int, int]:
        """The bounds."""
        return self.first, self.end


def key_slice(fraction: float = 1.0, part: tuple[int, int] = (0, 1)) -> KeySlice:
    """A sample of that fraction of all keys, or the part of it with that number, of so many.

    With the first part all of the sample is compared in order, with the others nothing.
    """
    below = min(ceil(fraction * _CRCS), _CRCS)
    number, count = part
    return KeySlice(below * number // count, below * (number + 1) // count, 0 if number else below)


EVERY_KEY = key_slice()


@dataclass(slots=True)
class LastRecords:
    """Takes the records of one side, in order.

    Attributes:
        found: Digests of last records by key; that of a tombstone is empty.
        records: The number of records whose keys are compared.
        digest: Over all records in order; without sampling also over those without a key: log cleaning drops these, but
            only where it runs.
    """

    timestamps: bool
    keys: KeySlice = EVERY_KEY
    found: dict[bytes, bytes] = field(default_factory=dict)
    records: int = 0
    _key_bytes: int = 0
    _all: blake2b = field(default_factory=lambda: blake2b(digest_size=16))

    @property
    def digest(self) -> bytes:
        """The digest over all records so far."""
        return self._all.digest()

    @property
    def memory_bytes(self) -> int:
        """About what the keys take."""
        return self._key_bytes + _KEY_COSTS_BYTES * len(self.found)

    def take(self, records: Iterable[DecodedRecord]) -> None:
        """Take the next records. Raises CorruptBatchError if one does not parse."""
        first, end, ordered_below = self.keys
        for record in records:
            key, value, _ = record.fields()
            crc = _CRCS - 1 if key is None else crc32(key)
            if crc >= ordered_below and not first <= crc < end:
                continue
            digest = record_digest(record, timestamps=self.timestamps)
            if crc < ordered_below:
                self._all.update(digest)
            if key is not None and first <= crc < end:
                self.records += 1
                if key not in self.found:
                    self._key_bytes += len(key)
                self.found[key] = b"" if value is None else digest


def differing_keys(source: Mapping[bytes, bytes], target: Mapping[bytes, bytes]) -> set[bytes]:
    """The keys whose last records differ; a tombstone counts as no record."""
    return {key for key in source.keys() | target.keys() if source.get(key, b"") != target.get(key, b"")}
