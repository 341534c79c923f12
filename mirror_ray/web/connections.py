"""Connections to the gateway: how many there may be, for how long they may wait, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aiohttp import web

from mirror_ray.web.authorization import Handler, refuse, with_safe_headers
from mirror_ray.web.client_limits import ClientLimits
from mirror_ray.web.refusal_log import RefusalLog

_log = logging.getLogger(__name__)

_K = TypeVar("_K")
#: Until files may be opened again.
_PAUSE_S: Final = 0.2


class ClientConnection(web.RequestHandler):
    """One connection. What can't be read as HTTP is answered without a traceback, and counted."""

    __slots__ = ("_bounds", "_malformed", "_own", "answering", "ended")

    def __init__(self, server: web.Server, bounds: ClientLimits, malformed: RefusalLog) -> None:
        """``malformed``: counts what can't be read."""
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=bounds.head_s,
            lingering_time=bounds.linger_s,
            access_log=None,  # type: ignore[arg-type] # as AppRunner has it
        )
        self._bounds, self._malformed = bounds, malformed
        #: RequestHandler lets go of it before all is sent.
        self._own: asyncio.WriteTransport | None = None
        #: Whether a request is being answered now.
        self.answering = False
        #: Done when the connection is gone.
        self.ended: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to close the connection by."""
        super().connection_made(transport)
        if isinstance(transport, asyncio.WriteTransport):
            self._own = transport

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note that the connection has ended."""
        super().connection_lost(exc)
        if not self.ended.done():
            self.ended.set_result(None)

    @property
    def _address(self) -> str:
        peer = self._own.get_extra_info("peername") if self._own is not None else None
        return str(peer[0]) if peer else "an unknown address"

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,  # noqa: ARG002 - as RequestHandler has it
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """Refuse what can't be parsed, without the traceback that aiohttp would log for whatever a client sends."""
        self._malformed.count(self._address)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        answer = with_safe_headers(refuse(status, "this can't be read as an HTTP request"))
        answer.force_close()
        return answer

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Count the error, without a traceback: clients may cause it as often as they like."""
        self._malformed.count(self._address)
        _log.debug("a connection ended: %r", kw.get("exc_info") or args)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write the answer, and close the connection of a client that does not take it in time."""
        try:
            async with asyncio.timeout(self._bounds.write_s):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            self.abort()
            return resp, True
        finally:
            self.answering = False

    def abort(self) -> None:
        """Close at once, whatever is still to be sent."""
        if self._own is not None:
            self._own.abort()

    async def end(self) -> None:
        """Wait until the connection is gone. One that is closed, and whose other side takes nothing, is ended."""
        was_closing = False
        while not self.ended.done():
            await asyncio.wait({self.ended}, timeout=self._bounds.write_s)
            closing = self._own is not None and self._own.is_closing()
            if closing and was_closing:
                self.abort()
            was_closing = closing


@web.middleware
async def marking(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A middleware: while an answer is made the connection counts as in use."""
    if isinstance(request.protocol, ClientConnection):
        request.protocol.answering = True
    return await handler(request)


@dataclass(frozen=True, slots=True)
class _Guest:
    address: str
    since_s: float
    connection: ClientConnection


class ConnectionLimiter:
    """Accepts connections, and lets no more be open than there may be, the TLS handshakes among them."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], ClientConnection],
        context: Callable[[], ssl.SSLContext | None],
        bounds: ClientLimits,
    ) -> None:
        """``make``: the protocol of a connection; ``context``: how it is to speak TLS, if at all."""
        self._listening, self._make, self._context, self._bounds = listening, make, context, bounds
        self._guests: dict[asyncio.Task[None], _Guest] = {}
        listening.setblocking(False)

    async def accept(self) -> None:
        """For as long as it listens."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._listening)
            except OSError as error:
                # No more files can be opened, or the guest has gone again.
                _log.debug("a connection could not be accepted: %s", error)
                await asyncio.sleep(_PAUSE_S)
                continue
            if len(self._guests) >= self._bounds.connections:
                self._make_room()
            guest = _Guest(str(peer[0]), loop.time(), self._make())
            task = asyncio.create_task(self._serve(accepted, guest))
            self._guests[task] = guest
            # One that made room is not there any more.
            task.add_done_callback(lambda ended: self._guests.pop(ended, None))

    async def close(self) -> None:
        """End all that is open."""
        tasks = list(self._guests)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _make_room(self) -> None:
        guests = {
            task: (guest.address, guest.connection.answering, guest.since_s) for task, guest in self._guests.items()
        }
        task = victim(guests)
        self._guests.pop(task)
        task.cancel()

    async def _serve(self, accepted: socket.socket, guest: _Guest) -> None:
        context = self._context()
        secure: dict[str, Any] = (
            {"ssl": context, "ssl_handshake_timeout": self._bounds.handshake_s} if context is not None else {}
        )
        try:
            with contextlib.suppress(OSError):
                loop = asyncio.get_running_loop()
                await loop.connect_accepted_socket(lambda: guest.connection, accepted, **secure)
                await guest.connection.end()
        finally:
            guest.connection.abort()


def victim(guests: Mapping[_K, tuple[str, bool, float]]) -> _K:
    """Whom to let go for somebody new: of whoever has most, what is not being answered, or else the oldest.

    ``guests``: the address, whether it is being answered, and what is the less the longer it is there.
    """
    counted = Counter(address for address, _, _ in guests.values())

    def order(key: _K) -> tuple[int, bool, float]:
        address, answering, since_s = guests[key]
        return -counted[address], answering, since_s

    return min(guests, key=order)
