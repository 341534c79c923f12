"""One raw connection to a broker: own framing, because Fetch and Produce pass through here by the gigabyte.

A response is received straight into a writable buffer of its own, and requests leave the caller's buffers by one
``sendmsg``; what the kernel does not take at once is copied once. Answers come in the order of the requests (Kafka's
guarantee), so a deque of futures is all the bookkeeping there is. Nothing here knows topics, retries or leaders.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import ssl
import struct
import termios
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Self, cast

from kio.static.protocol import RequestPayload

from mirror_ray.kafka import sasl
from mirror_ray.kafka.connection_setup import TCP_USER_TIMEOUT_MS, SetupStep, connected_socket, raise_setup_error
from mirror_ray.kafka.framing import (
    API_VERSIONS_KEY,
    SASL_AUTHENTICATE_KEY,
    BadFrameError,
    FrameReader,
    body_start,
    largest_answer_bytes,
    request_header,
)
from mirror_ray.kafka.handshake import ApiVersions, negotiate
from mirror_ray.kafka.kio_messages import decode, encode
from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.kafka.stall_watch import StallWatch
from mirror_ray.model.errors import KafkaProtocolError

#: The kernel's limit of parts of one ``sendmsg``.
_MAX_PARTS: Final = 1024
#: asyncio has no event for when the buffer beneath TLS has drained.
_POLL_RAW_BUFFER_S: Final = 0.001
#: Requests below this are copied into one piece.
_JOINED_BYTES: Final = 64 << 10
_CORRELATION_ID: Final = struct.Struct(">i")
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)

Buffer = bytes | bytearray | memoryview
Answer = asyncio.Future[memoryview]


class _Request(NamedTuple):
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
    answer: Answer


class Connection(asyncio.BufferedProtocol):
    """A connection that has been opened, and authenticated where the cluster asks for it.

    Make one with :meth:`open`. Every outstanding future fails with ``ConnectionError`` when the connection is lost.
    """

    def __init__(self, host: str, port: int, client_id: str, request_timeout_s: float) -> None:
        self.host = host
        self.port = port
        self.api_versions: ApiVersions = {}
        #: How long the broker took to answer ApiVersions: the link's round trip, measured once.
        self.round_trip_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._client_id = client_id.encode()
        self._request_timeout_s = request_timeout_s
        self._transport: asyncio.Transport
        #: Beneath TLS, else the transport itself.
        self._raw_transport: asyncio.Transport
        self._socket: socket.socket
        self._plain = True
        self._outstanding: deque[_Outstanding] = deque()
        #: Requests that wait until re-authentication is over; None: there is none under way.
        self._deferred: list[_Request] | None = None
        self._correlation_id = 0
        self._frames = FrameReader(self._largest_due_bytes)
        self._written_bytes = 0
        self._watch = StallWatch(
            request_timeout_s,
            outstanding=lambda: (len(self._outstanding), self._outstanding[0].sent_at if self._outstanding else 0.0),
            acknowledged_bytes=self._acknowledged_bytes,
            on_stall=self.abort,
        )
        self._writable: asyncio.Future[None] | None = None
        self._lost: ConnectionError | None = None
        self._session_timer: asyncio.TimerHandle | None = None
        self._reauthentication: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        security: ClientSecurity,
        client_id: str,
        setup_timeout_s: float,
        request_timeout_s: float,
        receive_buffer_bytes: int = -1,
        send_buffer_bytes: int = -1,
        user_timeout_ms: int = TCP_USER_TIMEOUT_MS,
    ) -> Self:
        """Connect, agree on versions and authenticate, all within ``setup_timeout_s``.

        Raises:
            ConnectionError: No connection came about; the text names the broker and why.
            AccessDeniedError: The broker does not accept us, or we do not accept it.
            ClusterUnreachableError: There are no credentials to be had.
        """
        connection, step = cls(host, port, client_id, request_timeout_s), SetupStep.TCP
        try:
            async with asyncio.timeout(setup_timeout_s):
                connection._socket = await connected_socket(
                    host,
                    port,
                    receive_bytes=receive_buffer_bytes,
                    send_bytes=send_buffer_bytes,
                    user_timeout_ms=user_timeout_ms,
                )
                step = SetupStep.TLS if security.ssl_context else SetupStep.VERSIONS
                await connection._start_transport(security.ssl_context)
                step = SetupStep.VERSIONS
                connection.api_versions, connection.round_trip_s = await negotiate(connection.send)
                if security.mechanism is not None:
                    step = SetupStep.SASL
                    await connection._authenticate(security.mechanism, await security.mechanism.begin())
        except BaseException as error:  # noqa: BLE001 - also a cancelled opening leaves no socket behind
            if connection._lost is None:
                connection._fail("the connection was not set up")
            connection._drop()
            raise_setup_error(error, step, connection.name, security, setup_timeout_s)
        return connection

    # Setting up

    async def _start_transport(self, context: ssl.SSLContext | None) -> None:
        self._plain = context is None
        await self._loop.create_connection(
            lambda: self, sock=self._socket, ssl=context, server_hostname=self.host if context else None
        )

    async def _authenticate(self, mechanism: sasl.Mechanism, exchange: sasl.Exchange) -> None:
        version = self.best_version(SASL_AUTHENTICATE_KEY, 0, 2)
        lifetime_s = await sasl.authenticate(self._request_now, mechanism, exchange, version)
        if lifetime_s is not None:
            delay_s = lifetime_s * sasl.SESSION_SHARE
            self._session_timer = self._loop.call_later(delay_s, self._begin_reauthentication, mechanism)

    def _begin_reauthentication(self, mechanism: sasl.Mechanism) -> None:
        self._reauthentication = self._loop.create_task(self._reauthenticate(mechanism))

    async def _reauthenticate(self, mechanism: sasl.Mechanism) -> None:
        """Authenticate again on the same connection, before the broker's session ends (KIP-368).

        The broker accepts no other request between the handshake and its end, so requests are deferred for these round
        trips. Those that were sent before are answered first, as always.
        """
        try:
            async with asyncio.timeout(self._request_timeout_s):
                exchange = await mechanism.begin()
                self._deferred = []
                await self._authenticate(mechanism, exchange)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the session ends
            self.abort(f"re-authentication failed: {error}")
            return
        deferred, self._deferred = self._deferred, None
        if deferred:
            self._transmit(deferred)

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
        """Give up after this, where several requests are under way and the peer neither answers nor takes bytes."""
        return self._watch.stall_timeout_s

    @stall_timeout_s.setter
    def stall_timeout_s(self, seconds: float | None) -> None:
        self._watch.stall_timeout_s = seconds

    def expect_silence(self, seconds: float) -> None:
        """The broker has announced that it will not answer for so long (``throttle_time_ms``, KIP-219)."""
        self._watch.expect_silence(seconds)

    def best_version(self, api_key: int, lowest: int, highest: int) -> int:
        """The highest version within the bounds that the broker speaks too.

        Raises:
            KafkaProtocolError: UNSUPPORTED_VERSION, when there is none.
        """
        theirs = self.api_versions.get(api_key, (0, -1))
        version = min(theirs[1], highest)
        if version < max(theirs[0], lowest):
            what = f"{self.name}: API {api_key} in versions {lowest} to {highest}, the broker has {theirs}"
            raise KafkaProtocolError(35, "UNSUPPORTED_VERSION", what)
        return version

    def send(self, api_key: int, api_version: int, flexible: bool, parts: Sequence[Buffer]) -> Answer:
        """Send a request whose body is ``parts`` in order; they must not change before the answer.

        Returns:
            The future body of the answer, after the response header: writable, and a buffer of its own.
        """
        return self.send_together(api_key, api_version, flexible, [parts])[0]

    def send_together(
        self, api_key: int, api_version: int, flexible: bool, bodies: Sequence[Sequence[Buffer]]
    ) -> list[Answer]:
        """Send requests of one kind, in order, by one write. Parts and answers as with :meth:`send`."""
        requests = [_Request(api_key, api_version, flexible, parts, self._loop.create_future()) for parts in bodies]
        if self._lost is not None:
            for request in requests:
                _fail_quietly(request.answer, self._lost)
        elif self._deferred is not None:
            self._deferred += requests
        else:
            self._transmit(requests)
        return [request.answer for request in requests]

    async def request(self, entity: RequestPayload) -> Any:
        """Send one of kio's request entities and return kio's response entity of the same API and version.

        Raises:
            ConnectionError: The connection was lost, or the answer can't be read.
        """
        return await self._request(entity, self.send)

    async def _request_now(self, entity: RequestPayload) -> Any:
        return await self._request(entity, self._send_now)

    def _send_now(self, api_key: int, api_version: int, flexible: bool, parts: Sequence[Buffer]) -> Answer:
        """As ``send``, also while other requests are deferred."""
        request = _Request(api_key, api_version, flexible, parts, self._loop.create_future())
        if self._lost is not None:
            _fail_quietly(request.answer, self._lost)
        else:
            self._transmit([request])
        return request.answer

    async def _request(self, entity: RequestPayload, send: Callable[[int, int, bool, Sequence[Buffer]], Answer]) -> Any:
        answer = await send(entity.__api_key__, entity.__version__, entity.__flexible__, [encode(entity)])
        try:
            return decode(type(entity), answer)
        except ValueError as error:
            self.abort(str(error), error)
            raise ConnectionError(str(self._lost)) from error

    async def drain(self) -> None:
        """Wait until this process holds no request back: the next one, with nothing awaited before it, leaves at once.

        Raises:
            ConnectionError: The connection was lost.
        """
        while self._lost is None:
            if self._deferred is not None and self._reauthentication is not None:
                await asyncio.wait({self._reauthentication})
            elif self._writable is not None:
                await asyncio.shield(self._writable)
            elif self._raw_transport.get_write_buffer_size():
                await asyncio.sleep(_POLL_RAW_BUFFER_S)
            else:
                return
        raise ConnectionError(str(self._lost))

    def _transmit(self, requests: Sequence[_Request]) -> None:
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
            self._outstanding.append(
                _Outstanding(correlation_id, request.api_key, flexible_header, now, request.answer)
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
        if self._session_timer is not None:
            self._session_timer.cancel()
        answers = [outstanding.answer for outstanding in self._outstanding]
        answers += [request.answer for request in self._deferred or ()]
        self._outstanding.clear()
        self._deferred = None
        for answer in answers:
            _fail_quietly(answer, self._lost)
        if self._writable is not None:
            _fail_quietly(self._writable, self._lost)


def _fail_quietly(future: asyncio.Future[Any], lost: ConnectionError) -> None:
    """Fail it with an error of its own; one that nobody awaits is not worth a line in the log."""
    if future.done():
        return
    error = ConnectionError(*lost.args)
    error.__cause__ = lost.__cause__
    future.set_exception(error)
    future.exception()
