"""One raw connection to a broker: own framing, because Fetch and Produce pass through here by the gigabyte.

Nothing here knows topics, retries or leaders.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar

from kio.static.protocol import RequestPayload

from mirror_ray.kafka import sasl
from mirror_ray.kafka.connection_setup import TCP_USER_TIMEOUT_MS, SetupStep, connected_socket, raise_setup_error
from mirror_ray.kafka.framing import SASL_AUTHENTICATE_KEY
from mirror_ray.kafka.handshake import ApiVersions, negotiate
from mirror_ray.kafka.kio_messages import decode, encode
from mirror_ray.kafka.request_pipeline import Answer, Buffer, Request, RequestPipeline, fail_quietly
from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.model.errors import KafkaProtocolError

_T = TypeVar("_T")

__all__ = ["Answer", "Buffer", "Connection"]

#: asyncio has no event for when the buffer beneath TLS has drained.
_POLL_RAW_BUFFER_S: Final = 0.001


class Connection(RequestPipeline):
    """A connection that has been opened, and authenticated where the cluster asks for it.

    Make one with :meth:`open`. Every outstanding future fails with ``ConnectionError`` when the connection is lost.
    """

    def __init__(self, host: str, port: int, client_id: str, request_timeout_s: float) -> None:
        super().__init__(host, port, client_id, request_timeout_s)
        self.api_versions: ApiVersions = {}
        #: How long the broker took to answer ApiVersions: the link's round trip, measured once.
        self.round_trip_s = 0.0
        self._request_timeout_s = request_timeout_s
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
        requests = [Request(api_key, api_version, flexible, parts, self._loop.create_future()) for parts in bodies]
        if self._lost is not None:
            for request in requests:
                fail_quietly(request.answer, self._lost)
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
        return await self.request_by(entity, partial(decode, type(entity)))

    async def request_by(self, entity: RequestPayload, read: Callable[[memoryview], _T]) -> _T:
        """The same, with an answer that ``read`` decodes, which raises a ValueError where it can't."""
        return await self._request(entity, self.send, read)

    async def _request_now(self, entity: RequestPayload) -> Any:
        return await self._request(entity, self._send_now, partial(decode, type(entity)))

    def _send_now(self, api_key: int, api_version: int, flexible: bool, parts: Sequence[Buffer]) -> Answer:
        """As ``send``, also while other requests are deferred."""
        request = Request(api_key, api_version, flexible, parts, self._loop.create_future())
        if self._lost is not None:
            fail_quietly(request.answer, self._lost)
        else:
            self._transmit([request])
        return request.answer

    async def _request(
        self,
        entity: RequestPayload,
        send: Callable[[int, int, bool, Sequence[Buffer]], Answer],
        read: Callable[[memoryview], _T],
    ) -> _T:
        answer = await send(entity.__api_key__, entity.__version__, entity.__flexible__, [encode(entity)])
        try:
            return read(answer)
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

    def _fail(self, reason: str, cause: BaseException | None = None) -> None:
        super()._fail(reason, cause)
        if self._session_timer is not None:
            self._session_timer.cancel()
