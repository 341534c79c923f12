"""Kafka's framing, without I/O: request headers, and response frames out of a byte stream.

Sources: RequestHeader.json and ResponseHeader.json.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from typing import Final

from mirror_ray.kafka.primitives import skip_tags

FETCH_KEY: Final = 1
SASL_HANDSHAKE_KEY: Final = 17
API_VERSIONS_KEY: Final = 18
SASL_AUTHENTICATE_KEY: Final = 36

#: An answer before the broker has let us in: a list of numbers, or some hundred bytes of SASL. Before a broker has
#: proved who it is, nothing else is asked for.
SETUP_LIMIT_BYTES: Final = 64 << 10
#: As librdkafka's default (``receive.message.max.bytes``) for all answers: metadata of a million partitions in three
#: replicas is 60 MB, and lists of groups, offsets and configs are asked for in pieces.
ANSWER_LIMIT_BYTES: Final = 100_000_000
#: A fetch brings its first batch whole, however large: far more than any broker's ``message.max.bytes``.
FETCH_LIMIT_BYTES: Final = 256 << 20
_LIMITS: Final = {
    API_VERSIONS_KEY: SETUP_LIMIT_BYTES,
    SASL_HANDSHAKE_KEY: SETUP_LIMIT_BYTES,
    SASL_AUTHENTICATE_KEY: SETUP_LIMIT_BYTES,
    FETCH_KEY: FETCH_LIMIT_BYTES,
}

#: CPython's way to a bytearray whose bytes are to be written next.
_uninitialized = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.c_ssize_t)(
    ("PyByteArray_FromStringAndSize", ctypes.pythonapi)
)
#: Small answers are read many at a time; a large one is received in place from its first 4 KiB on.
_STAGING_BYTES: Final = 4096
_LENGTH: Final = struct.Struct(">i")
_REQUEST_HEAD: Final = struct.Struct(">ihhih")
#: How other protocols begin: TLS's records (an alert, a handshake), and greetings.
_OTHER_PROTOCOLS: Final = {b"\x15\x03": "TLS", b"\x16\x03": "TLS", b"HTTP": "HTTP", b"SSH-": "SSH"}


def request_header(
    *, api_key: int, api_version: int, correlation_id: int, client_id: bytes, flexible: bool, body_bytes: int
) -> bytes:
    """The length field and the header (version 2 when flexible, else 1) of a request with a body of so many bytes."""
    size = _REQUEST_HEAD.size - 4 + len(client_id) + flexible + body_bytes
    head = _REQUEST_HEAD.pack(size, api_key, api_version, correlation_id, len(client_id))
    return head + client_id + (b"\0" if flexible else b"")


def body_start(frame: memoryview, flexible: bool) -> int:
    """Where the body begins in a response frame that starts with the correlation id."""
    if not flexible:
        return 4
    return 5 if frame[4] == 0 else skip_tags(frame, 4)


def largest_answer_bytes(api_key: int) -> int:
    """The largest answer to a request of this API that is received: checked before memory is taken for it."""
    return _LIMITS.get(api_key, ANSWER_LIMIT_BYTES)


class BadFrameError(Exception):
    """The bytes are no Kafka response that could be due. ``protocol``: the one that is spoken instead, where known."""

    def __init__(self, reason: str, protocol: str | None = None) -> None:
        super().__init__(reason)
        self.protocol = protocol


class FrameReader:
    """Splits received bytes into frames: fill :meth:`buffer`, then take the frames from :meth:`received`.

    A frame is a response without its length field, in a writable buffer of its own. All but the first few KiB of a
    large one are received where they stay. ``largest_bytes`` says how large the answer may be that is due next; memory
    is taken as bytes come, whatever length was announced.
    """

    __slots__ = ("_filled", "_largest_bytes", "_staged", "_staging", "_view")

    def __init__(self, largest_bytes: Callable[[], int]) -> None:
        self._staging = memoryview(bytearray(_STAGING_BYTES))
        self._staged = 0
        self._view: memoryview | None = None
        self._filled = 0
        self._largest_bytes = largest_bytes

    def buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        if self._view is not None:
            return self._view[self._filled :]
        return self._staging[self._staged :]

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that ``count`` more bytes in the buffer have completed; take all, each before the next is due.

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
            if not 4 <= size <= self._largest_bytes():
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
        protocol = _OTHER_PROTOCOLS.get(begin) or _OTHER_PROTOCOLS.get(begin[:2])
        if protocol is not None:
            return BadFrameError(f"it speaks {protocol} here, not Kafka's protocol", protocol)
        due = self._largest_bytes()
        what = f"a response of {size} bytes, where {due} at most are due" if due else "an answer that was not due"
        return BadFrameError(f"it does not speak Kafka's protocol here: {what}")


def _lazy_buffer(size_bytes: int) -> memoryview:
    """Memory that the system hands out as it is written to; ``bytearray(n)`` writes zeroes to all of it at once."""
    return memoryview(_uninitialized(None, size_bytes))
