"""Response frames out of a byte stream, without I/O: where to put what comes next, and which frames that completes."""

from __future__ import annotations

import struct

#: Larger than any response that we ask for; a length above it is not Kafka speaking.
MAX_RESPONSE_BYTES = 256 << 20

#: Small answers are read many at a time; a large one is received in place from its first 4 KiB on.
_STAGING_BYTES = 4096
_LENGTH = struct.Struct(">i")


class BadFrameError(Exception):
    """The bytes are no Kafka response."""


class FrameReader:
    """Give :meth:`room` to the socket, and tell :meth:`received` how much of it was filled.

    A frame is a response without its length field, in a writable buffer of its own. All but the first few KiB of a
    large one are received where they stay.
    """

    __slots__ = ("_filled", "_frame", "_staged", "_staging", "_view")

    def __init__(self) -> None:
        self._staging = memoryview(bytearray(_STAGING_BYTES))
        self._staged = 0
        self._frame: bytearray | None = None
        self._view = memoryview(b"")
        self._filled = 0

    def room(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        if self._frame is not None:
            return self._view[self._filled :]
        return self._staging[self._staged :]

    def received(self, count: int) -> list[memoryview]:
        """The frames that ``count`` more bytes in the room have completed.

        Raises:
            BadFrameError: A length is out of bounds.
        """
        if self._frame is None:
            self._staged += count
            return self._take_staged()
        self._filled += count
        if self._filled < len(self._frame):
            return []
        frame, self._frame = self._view, None
        self._view = memoryview(b"")
        return [frame]

    def _take_staged(self) -> list[memoryview]:
        frames: list[memoryview] = []
        at = 0
        while self._staged - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._staging, at)
            if not 4 <= size <= MAX_RESPONSE_BYTES:
                raise BadFrameError(f"it does not speak Kafka's protocol here: a response of {size} bytes")
            start = at + _LENGTH.size
            at = min(start + size, self._staged)
            if at - start == size:
                frames.append(memoryview(bytearray(self._staging[start:at])))
                continue
            self._frame = bytearray(size)
            self._view = memoryview(self._frame)
            self._filled = at - start
            self._view[: self._filled] = self._staging[start:at]
        rest = bytes(self._staging[at : self._staged])
        self._staging[: len(rest)] = rest
        self._staged = len(rest)
        return frames
