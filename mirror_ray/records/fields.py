"""Fields as Kafka's ``protocol.types`` writes them: big-endian integers, strings as UTF-8 behind an INT16 length."""

from __future__ import annotations

import struct
from typing import Final

from mirror_ray.model.errors import CorruptRecordError

_LONGEST_STRING_BYTES: Final = 0x7FFF


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
    """Takes one field after the other from a key or value; ``what`` it is, for messages.

    Every method raises CorruptRecordError where the bytes are not what it expects.
    """

    def __init__(self, what: str, data: bytes | None) -> None:
        if data is None:
            raise CorruptRecordError(f"{what}: it is null")
        self._what = what
        self._data = data
        self._position = 0

    def string(self) -> str:
        """A STRING."""
        length = self._number(2)
        if length < 0:
            raise self._error(f"its string length is {length}")
        raw = self._take(length)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self._error(f"its string is not UTF-8 ({error.reason})") from error

    def version(self, known: int) -> None:
        """An INT16 that is ``known``."""
        version = self._number(2)
        if version != known:
            raise self._error(f"its version is {version}, only {known} is known")

    def int32(self) -> int:
        """An INT32."""
        return self._number(4)

    def int64(self) -> int:
        """An INT64."""
        return self._number(8)

    def int64s(self, count: int) -> tuple[int, ...]:
        """``count`` INT64."""
        if not 0 <= count <= len(self._data) // 8:
            raise self._error(f"it can't hold {count} numbers")
        return struct.unpack(f">{count}q", self._take(8 * count))

    def end(self) -> None:
        """Nothing follows."""
        left = len(self._data) - self._position
        if left:
            raise self._error(f"{left} bytes follow its end")

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def _take(self, size: int) -> bytes:
        stop = self._position + size
        if stop > len(self._data):
            raise self._error(f"it ends after {len(self._data)} bytes, {stop} are needed")
        piece = self._data[self._position : stop]
        self._position = stop
        return piece

    def _error(self, problem: str) -> CorruptRecordError:
        return CorruptRecordError(f"{self._what}: {problem}: {self._data[:40].hex(' ')}")
