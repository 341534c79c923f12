"""Response frames out of a byte stream, without I/O: where to put what comes next, and which frames that completes."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator

#: Small answers are read many at a time; a large one is received in place from its first 4 KiB on.
_STAGING_BYTES = 4096
_LENGTH = struct.Struct(">i")
#: How those begin who speak another protocol: TLS's records (an alert, a handshake), and greetings.
_OTHERS = {b"\x15\x03": "TLS", b"\x16\x03": "TLS", b"HTTP": "HTTP", b"SSH-": "SSH"}


class BadFrameError(Exception):
    """The bytes are no Kafka response that could be due. ``protocol`` is what is spoken instead, where that shows."""

    def __init__(self, reason: str, protocol: str | None = None) -> None:
        super().__init__(reason)
        self.protocol = protocol


class FrameReader:
    """Give :meth:`room` to the socket, and tell :meth:`received` how much of it was filled.

    A frame is a response without its length field, in a writable buffer of its own. All but the first few KiB of a
    large one are received where they stay. ``most_bytes`` says how large the answer may be that is due next; memory is
    taken as bytes come, whatever length was announced.
    """

    __slots__ = ("_filled", "_most_bytes", "_staged", "_staging", "_view")

    def __init__(self, most_bytes: Callable[[], int]) -> None:
        self._staging = memoryview(bytearray(_STAGING_BYTES))
        self._staged = 0
        self._view: memoryview | None = None
        self._filled = 0
        self._most_bytes = most_bytes

    def room(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        if self._view is not None:
            return self._view[self._filled :]
        return self._staging[self._staged :]

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that ``count`` more bytes in the room have completed; take all, each before the next is due.

        Raises:
            BadFrameError: A length is out of bounds.
        """
        if self._view is None:
            self._staged += count
            yield from self._take_staged()
            return
        self._filled += count
        if self._filled == len(self._view):
            frame, self._view = self._view, None
            yield frame

    def _take_staged(self) -> Iterator[memoryview]:
        at = 0
        while self._staged - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._staging, at)
            if not 4 <= size <= self._most_bytes():
                raise self._bad_frame(size, bytes(self._staging[at : at + 4]))
            start = at + _LENGTH.size
            at = min(start + size, self._staged)
            if at - start == size:
                yield memoryview(bytearray(self._staging[start:at]))
                continue
            self._view = _lazy_buffer(size)
            self._filled = at - start
            self._view[: self._filled] = self._staging[start:at]
        rest = bytes(self._staging[at : self._staged])
        self._staging[: len(rest)] = rest
        self._staged = len(rest)

    def _bad_frame(self, size: int, begin: bytes) -> BadFrameError:
        protocol = _OTHERS.get(begin) or _OTHERS.get(begin[:2])
        if protocol is not None:
            return BadFrameError(f"it speaks {protocol} here, not Kafka's protocol", protocol)
        due = self._most_bytes()
        what = f"a response of {size} bytes, where {due} at most are due" if due else "an answer that was not due"
        return BadFrameError(f"it does not speak Kafka's protocol here: {what}")


def _lazy_buffer(size_bytes: int) -> memoryview:
    """Zeroes that the system hands out as they are written to; a bytearray writes to all of them at once."""
    return io.BytesIO(bytes(size_bytes)).getbuffer()
