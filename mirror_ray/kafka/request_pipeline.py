"""Requests that are outstanding on one transport, in order, and the bytes of their answers.

A response is received straight into a writable buffer of its own, and requests leave the caller's buffers by one
``sendmsg``; what the kernel does not take at once is copied once. Answers come in the order of the requests (Kafka's
guarantee), so a deque of futures is all the bookkeeping there is.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from mirror_ray.kafka.framing import (
    API_VERSIONS_KEY,
    BadFrameError,
    FrameReader,
    body_start,
    largest_answer_bytes,
    request_header,
)
from mirror_ray.kafka.stall_watch import StallWatch, Unanswered

#: The kernel's limit of parts of one ``sendmsg``.
_MAX_PARTS: Final = 1024
#: Requests below this are copied into one piece.
_JOINED_BYTES: Final = 64 << 10
_CORRELATION_ID: Final = struct.Struct(">i")
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)

Buffer = bytes | bytearray | memoryview
Answer = asyncio.Future[memoryview]


class Request(NamedTuple):
    """A request to be sent: its body is ``parts`` in order."""

    api_key: int
    api_version: int
    flexible: bool
    parts: Sequence[Buffer]
    answer: Answer


class _Outstanding(NamedTuple):
    correlation_id: int
    api_key: int
    flexible_header: bool
    sent_at: float
    end_bytes: int
    answer: Answer


class RequestPipeline(asyncio.BufferedProtocol):
    """Sends requests and delivers their answers; every outstanding future fails when the transport is lost."""

    def __init__(self, host: str, port: int, client_id: str, request_timeout_s: float) -> None:
        self.host = host
        self.port = port
        self._loop = asyncio.get_running_loop()
        self._client_id = client_id.encode()
        self._transport: asyncio.Transport
        #: Beneath TLS, else the transport itself.
        self._raw_transport: asyncio.Transport
        self._socket: socket.socket
        self._plain = True
        self._outstanding: deque[_Outstanding] = deque()
        #: Requests that wait until re-authentication is over; None: there is none under way.
        self._deferred: list[Request] | None = None
        self._correlation_id = 0
        self._frames = FrameReader(self._largest_due_bytes)
        self._written_bytes = 0
        self._watch = StallWatch(
            request_timeout_s,
            unanswered=self._unanswered,
            acknowledged_bytes=self._acknowledged_bytes,
            on_stall=self.abort,
        )
        self._writable: asyncio.Future[None] | None = None
        self._lost: ConnectionError | None = None

    # Requests

    @property
    def name(self) -> str:
        """``host:port``, for messages."""
        return f"{self.host}:{self.port}"

    @property
    def closed(self) -> bool:
        """Whether the connection is lost; then every send fails."""
        return self._lost is not None

    @property
    def stall_timeout_s(self) -> float | None:
        """Give up after this, where several requests are under way and the peer neither answers nor takes the first."""
        return self._watch.stall_timeout_s

    @stall_timeout_s.setter
    def stall_timeout_s(self, seconds: float | None) -> None:
        self._watch.stall_timeout_s = seconds

    def expect_silence(self, seconds: float) -> None:
        """The broker has announced that it will not answer for so long (``throttle_time_ms``, KIP-219)."""
        self._watch.expect_silence(seconds)

    def _transmit(self, requests: Sequence[Request]) -> None:
        pieces: list[Buffer] = []
        now, size = self._loop.time(), 0
        for request in requests:
            self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
            body_bytes = sum(map(len, request.parts))
            head = request_header(
                api_key=request.api_key,
                api_version=request.api_version,
                correlation_id=correlation_id,
                client_id=self._client_id,
                flexible=request.flexible,
                body_bytes=body_bytes,
            )
            pieces.append(head)
            pieces += request.parts
            size += len(head) + body_bytes
            flexible_header = request.flexible and request.api_key != API_VERSIONS_KEY
            end_bytes = self._written_bytes + size
            self._outstanding.append(
                _Outstanding(correlation_id, request.api_key, flexible_header, now, end_bytes, request.answer)
            )
        self._watch.start()
        self._write(pieces, size)

    def _write(self, parts: list[Buffer], size: int) -> None:
        self._written_bytes += size
        if not self._plain or size < _JOINED_BYTES:
            # One piece: each part would become TLS records of its own, and many small ones cost more than a copy.
            self._transport.write(b"".join(parts))
            return
        sent = 0
        if self._transport.get_write_buffer_size() == 0:
            try:
                sent = self._socket.sendmsg(parts[:_MAX_PARTS])
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                self.abort(str(error))
                return
        for part in parts:
            if sent >= len(part):
                sent -= len(part)
                continue
            self._transport.write(memoryview(part)[sent:])
            sent = 0

    # Answers

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """asyncio: where to put the next bytes."""
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio: so many bytes were put there."""
        self._watch.on_bytes()
        try:
            for frame in self._frames.received(nbytes):
                self._deliver(frame)
        except (BadFrameError, IndexError) as error:
            reason = str(error) if isinstance(error, BadFrameError) else "a response header that can't be read"
            self.abort(reason, error)

    def _largest_due_bytes(self) -> int:
        return largest_answer_bytes(self._outstanding[0].api_key) if self._outstanding else 0

    def _deliver(self, frame: memoryview) -> None:
        if self._lost is not None:
            return
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if not self._outstanding or self._outstanding[0].correlation_id != correlation_id:
            self.abort(f"an answer with correlation id {correlation_id} that was not due")
            return
        start = body_start(frame, self._outstanding[0].flexible_header)
        answer = self._outstanding.popleft().answer
        if not answer.done():
            answer.set_result(frame[start:])

    def _unanswered(self) -> Unanswered:
        if not self._outstanding:
            return Unanswered()
        oldest = self._outstanding[0]
        return Unanswered(len(self._outstanding), oldest.sent_at, oldest.end_bytes)

    def _acknowledged_bytes(self) -> int:
        """How much of what was sent the peer's kernel has acknowledged."""
        (queued,) = struct.unpack("i", fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4)))
        return self._written_bytes - int(queued) - self._transport.get_write_buffer_size()

    # Ending

    def abort(self, reason: str, cause: BaseException | None = None) -> None:
        """Reset the connection, throw away what was not sent yet, and fail all outstanding requests."""
        if self._lost is not None:
            return
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._fail(reason, cause)
        self._drop()

    def close(self) -> None:
        """Close the connection once what was written is sent; outstanding requests fail."""
        if self._lost is None:
            self._fail("closed by us")
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the transport is ready."""
        self._transport = cast(asyncio.Transport, transport)
        # The kernel's buffer is large enough; what waited here would be sent after this process was suspended.
        # asyncio's TLS takes a buffer at the mark for too full, and with 0 an empty buffer would stop us.
        self._transport.set_write_buffer_limits(high=0 if self._plain else 1)
        # Beneath TLS is another transport with a buffer of its own, which nothing but this attribute leads to.
        tls: Any = transport
        self._raw_transport = self._transport if self._plain else tls._ssl_protocol._transport  # noqa: SLF001

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection has ended."""
        self._fail(str(exc) if exc else "closed by the broker", exc)

    def pause_writing(self) -> None:
        """asyncio: more is buffered than the high water mark."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """asyncio: the buffer has drained."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def _drop(self) -> None:
        if hasattr(self, "_transport"):
            self._transport.abort()
        elif hasattr(self, "_socket"):
            self._socket.close()

    def _fail(self, reason: str, cause: BaseException | None = None) -> None:
        if self._lost is not None:
            return
        self._lost = ConnectionError(f"{self.name}: {reason}")
        self._lost.__cause__ = cause
        self._watch.stop()
        answers = [outstanding.answer for outstanding in self._outstanding]
        answers += [request.answer for request in self._deferred or ()]
        self._outstanding.clear()
        self._deferred = None
        for answer in answers:
            fail_quietly(answer, self._lost)
        if self._writable is not None:
            fail_quietly(self._writable, self._lost)


def fail_quietly(future: asyncio.Future[Any], lost: ConnectionError) -> None:
    """Fail it with an error of its own; one that nobody awaits is not worth a line in the log."""
    if future.done():
        return
    error = ConnectionError(*lost.args)
    error.__cause__ = lost.__cause__
    future.set_exception(error)
    future.exception()
