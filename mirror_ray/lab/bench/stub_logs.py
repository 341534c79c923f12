"""The topics of a stub broker: what its partitions hold, and where they end."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass, field
from typing import Final

_LAST_OFFSET_DELTA_AT: Final = 23
_OFFSET: Final = struct.Struct(">q")


@dataclass(slots=True)
class StubLog:
    """One partition: its end, and what of its batches is kept."""

    end: int = 0
    batches: list[tuple[int, bytes]] = field(default_factory=list)

    def append(self, batch: bytes, *, kept: bool) -> int:
        """Append a batch; returns its first offset."""
        first = self.end
        self.end += struct.unpack_from(">i", batch, _LAST_OFFSET_DELTA_AT)[0] + 1
        if kept:
            self.batches.append((first, _OFFSET.pack(first) + batch[8:]))
        return first

    def read(self, offset: int, most_bytes: int) -> bytes:
        """The batches from an offset on, at least one."""
        found = bytearray()
        for first, batch in self.batches if offset < self.end else ():
            if first >= offset:
                if found and len(found) + len(batch) > most_bytes:
                    break
                found += batch
        return bytes(found)


class RepeatedLog(StubLog):
    """A partition that holds one batch several times, once ``fill`` is called: it takes no memory."""

    __slots__ = ("_batch", "_records")

    def __init__(self, batch: bytes) -> None:
        super().__init__()
        self._batch = batch
        self._records = struct.unpack_from(">i", batch, _LAST_OFFSET_DELTA_AT)[0] + 1

    def fill(self, batches: int) -> None:
        """Have so many batches from now on."""
        self.end = batches * self._records

    def read(self, offset: int, most_bytes: int) -> bytes:
        """The batches from an offset on, at least one."""
        many = min((self.end - offset) // self._records, max(1, most_bytes // len(self._batch)))
        tail = self._batch[8:]
        return b"".join(_OFFSET.pack(offset + number * self._records) + tail for number in range(many))


@dataclass(frozen=True, slots=True)
class StubTopic:
    """A topic; ``kept``: whether batches that are written to it can be read."""

    name: str
    logs: tuple[StubLog, ...]
    kept: bool = True

    @property
    def id(self) -> uuid.UUID:
        """The same wherever a topic has this name."""
        return uuid.uuid5(uuid.NAMESPACE_OID, self.name)
