"""Fields as Kafka's ``protocol.types`` writes them: big-endian integers, strings as UTF-8 behind an INT16 length."""

from __future__ import annotations

import struct
from typing import Final

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicPartition

_LONGEST_STRING_BYTES: Final = 0x7FFF
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def pack(layout: str, *numbers: int) -> bytes:
    """Write numbers by a layout of ``struct``.

    Raises:
        ValueError: One does not fit.
    """
    try:
        return struct.pack(layout, *numbers)
    except struct.error as error:
        raise ValueError(f"{numbers} do not fit the format: {error}") from error


def string(text: str) -> bytes:
    """Write a STRING.

    Raises:
        ValueError: It is longer than Kafka's longest.
    """
    data = text.encode()
    if len(data) > _LONGEST_STRING_BYTES:
        raise ValueError(
            f"a string of {len(data)} bytes ({text[:40]!r}...) is over {_LONGEST_STRING_BYTES}, Kafka's longest"
        )
    return len(data).to_bytes(2, "big") + data


class FieldReader:
    """Reads the fields of a key or value in order; ``what`` names it in errors.

    Every method raises CorruptRecordError where the bytes are not as expected.
    """

    __slots__ = ("_data", "_position", "_what")

    def __init__(self, what: str, data: bytes | None) -> None:
        if data is None:
            raise CorruptRecordError(f"{what}: it is null")
        self._what = what
        self._data = data
        self._position = 0

    def string(self) -> str:
        """Read a STRING."""
        (length,) = self.numbers(_INT16)
        if length < 0:
            raise self._error(f"its string length is {length}")
        start = self._position
        self._position = start + length
        raw = self._data[start : self._position]
        if len(raw) < length:
            raise self._too_short(self._position)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self._error(f"its string is not UTF-8 ({error.reason})") from error

    def partition(self) -> TopicPartition:
        """Read a STRING and an INT32: a topic's name and a partition's number."""
        topic = self.string()
        return TopicPartition(topic, *self.numbers(_INT32))

    def version(self, known: int) -> None:
        """Read an INT16 that must be ``known``."""
        (version,) = self.numbers(_INT16)
        if version != known:
            raise self._error(f"its version is {version}, only {known} is known")

    def numbers(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read the numbers of ``layout``."""
        try:
            numbers = layout.unpack_from(self._data, self._position)
        except struct.error:
            raise self._too_short(self._position + layout.size) from None
        self._position += layout.size
        return numbers

    def int64s(self, count: int) -> tuple[int, ...]:
        """Read ``count`` INT64."""
        if not 0 <= count <= len(self._data) // 8:
            raise self._error(f"it can't hold {count} numbers")
        return self.numbers(struct.Struct(f">{count}q"))

    def raw(self, length: int) -> bytes:
        """Read so many bytes."""
        start = self._position
        if not 0 <= length <= len(self._data) - start:
            raise self._too_short(start + max(0, length))
        self._position = start + length
        return self._data[start : self._position]

    def end(self) -> None:
        """Check that nothing follows."""
        left = len(self._data) - self._position
        if left:
            raise self._error(f"{left} bytes follow its end")

    def _too_short(self, needed: int) -> CorruptRecordError:
        return self._error(f"it ends after {len(self._data)} bytes, {needed} are needed")

    def _error(self, problem: str) -> CorruptRecordError:
        return CorruptRecordError(f"{self._what}: {problem}: {self._data[:40].hex(' ')}")
