"""SASL inside Kafka's own requests (KIP-43, KIP-152), and PLAIN; the others are in ``scram`` and ``oauth``.

A mechanism's exchange is a generator that speaks no protocol: it yields what to send and is sent what came back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from kio.index import load_request_schema
from kio.static.protocol import RequestPayload

from mirror_ray.config.secrets import Secret
from mirror_ray.kafka.errors import error_info
from mirror_ray.model.errors import AccessDeniedError, ClusterUnreachableError

HANDSHAKE_KEY = 17
AUTHENTICATE_KEY = 36
#: Part of a session's life after which we authenticate again (KIP-368; Kafka's own client takes 85 to 95 %).
SESSION_SHARE = 0.85
_MOST_SAID = 300
#: A broker may ask for seconds of computing. The loop's own threads may all be waiting for something.
_COMPUTING = ThreadPoolExecutor(4, "sasl")

Exchange = Generator[bytes, bytes, None]


class SaslRefusedError(Exception):
    """The other side refused, in the mechanism's own terms; the text is theirs."""


class SaslMistrustError(Exception):
    """We refuse: what the other side says is not what one says who may know our secret."""


class Mechanism(Protocol):
    """A way to prove who we are. Its properties are for messages, and never secret."""

    @property
    def cluster(self) -> str:
        """Alias of the cluster that is being entered."""
        ...

    @property
    def name(self) -> str:
        """The mechanism's name, as SaslHandshake has it."""
        ...

    @property
    def principal(self) -> str:
        """The user or client."""
        ...

    async def begin(self) -> Exchange:
        """Start an exchange, with fresh credentials where they expire.

        Raises:
            ClusterUnreachableError: There are no credentials to be had.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainMechanism:
    """PLAIN (RFC 4616): the password itself."""

    cluster: str
    principal: str
    password: Secret
    name: str = "PLAIN"

    async def begin(self) -> Exchange:
        """One message, one empty answer."""
        return self._exchange(revealed(self.cluster, self.password))

    def _exchange(self, password: str) -> Exchange:
        yield b"\0" + self.principal.encode() + b"\0" + password.encode()


def revealed(cluster: str, password: Secret) -> str:
    """A password as it is now.

    Raises:
        ClusterUnreachableError: It can't be resolved here.
    """
    try:
        return password.reveal()
    except LookupError as error:
        raise ClusterUnreachableError(f"cluster {cluster}: no password: {error.args[0]}") from error


async def authenticate(
    request: Callable[[RequestPayload], Awaitable[Any]], mechanism: Mechanism, exchange: Exchange, version: int
) -> float | None:
    """Handshake (v1) and authenticate (``version`` 0 to 2) on a connection, by its ``request``.

    Returns:
        How many seconds the session lasts, None when it does not end (KIP-368).

    Raises:
        NotLetInError: The broker refused; names the cluster, the mechanism and the user.
    """
    handshake: Any = load_request_schema(HANDSHAKE_KEY, 1)
    answer = await request(handshake(mechanism=mechanism.name))
    if answer.error_code:
        raise _refusal(mechanism, _handshake_refusal(mechanism.cluster, answer))
    schema: Any = load_request_schema(AUTHENTICATE_KEY, version)
    loop = asyncio.get_running_loop()
    lifetime_s: float | None = None
    try:
        message = next(exchange)
        while True:
            answer = await request(schema(auth_bytes=message))
            if answer.error_code:
                said = _short(answer.error_message) if answer.error_message else error_info(answer.error_code).name
                raise _refusal(mechanism, f"{said}; check {mechanism.cluster}.sasl.jaas.config")
            if version > 0:
                lifetime_s = answer.session_lifetime.total_seconds() or None
            following = await loop.run_in_executor(_COMPUTING, _answer_of, exchange, answer.auth_bytes)
            if following is None:
                return lifetime_s
            message = following
    except SaslRefusedError as error:
        raise _refusal(mechanism, _short(str(error))) from error
    except SaslMistrustError as error:
        raise AccessDeniedError(
            f"cluster {mechanism.cluster}: {mechanism.name} for user {mechanism.principal} was broken off by us: "
            f"{_short(str(error))}; check {mechanism.cluster}.bootstrap.servers"
        ) from error


def _answer_of(exchange: Exchange, said: bytes) -> bytes | None:
    """The next message of an exchange; None: it is over."""
    try:
        return exchange.send(said)
    except StopIteration:
        return None


def _handshake_refusal(cluster: str, answer: Any) -> str:
    name = error_info(answer.error_code).name
    if name == "ILLEGAL_SASL_STATE":
        return f"{name}, that port wants no SASL; check {cluster}.security.protocol"
    offered = _short(", ".join(answer.mechanisms)) or "none"
    return f"{name}, it offers {offered}; check {cluster}.sasl.mechanism"


def _short(said: str) -> str:
    """Words of the other side, as many as fit into a message."""
    return said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]}…"


def _refusal(mechanism: Mechanism, reason: str) -> AccessDeniedError:
    return AccessDeniedError(
        f"cluster {mechanism.cluster} refuses {mechanism.name} for user {mechanism.principal}: {reason}"
    )
