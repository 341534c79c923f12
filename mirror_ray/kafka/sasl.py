"""SASL inside Kafka's own requests (KIP-43, KIP-152), with PLAIN and SCRAM; OAUTHBEARER is in ``oauth``.

A mechanism's exchange is a generator that speaks no protocol: it yields what to send and is sent what came back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol

from kio.index import load_request_schema
from kio.static.protocol import RequestPayload

from mirror_ray.config.secrets import Secret
from mirror_ray.kafka.errors import error_info
from mirror_ray.model.errors import ClusterUnreachableError

HANDSHAKE_KEY = 17
AUTHENTICATE_KEY = 36
#: Part of a session's life after which we authenticate again (KIP-368; Kafka's own client takes 85 to 95 %).
SESSION_SHARE = 0.85

Exchange = Generator[bytes, bytes, None]


class SaslRefusedError(Exception):
    """The other side refused, in the mechanism's own terms; the text is theirs."""


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
class Plain:
    """PLAIN (RFC 4616): the password itself."""

    cluster: str
    principal: str
    password: Secret
    name: str = "PLAIN"

    async def begin(self) -> Exchange:
        """One message, one empty answer."""
        return self._exchange(_as_it_is_now(self.cluster, self.password))

    def _exchange(self, password: str) -> Exchange:
        yield b"\0" + self.principal.encode() + b"\0" + password.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scram:
    """SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802): both sides prove that they know the password."""

    cluster: str
    principal: str
    password: Secret
    name: str

    async def begin(self) -> Exchange:
        """Two messages, two answers; the second proves the broker."""
        return self._exchange(_as_it_is_now(self.cluster, self.password))

    def _exchange(self, password: str) -> Exchange:
        # A tenth of a second to import, for those who use it.
        import scramp

        client = scramp.ScramClient([self.name], self.principal, password)
        try:
            client.set_server_first((yield client.get_client_first().encode()).decode())
            client.set_server_final((yield client.get_client_final().encode()).decode())
        except scramp.ScramException as error:
            raise SaslRefusedError(str(error)) from error


def _as_it_is_now(cluster: str, password: Secret) -> str:
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
        ClusterUnreachableError: The broker refused; names the cluster, the mechanism and the user.
    """
    handshake: Any = load_request_schema(HANDSHAKE_KEY, 1)
    answer = await request(handshake(mechanism=mechanism.name))
    if answer.error_code:
        offered = ", ".join(answer.mechanisms) or "none"
        raise _refusal(mechanism, f"{error_info(answer.error_code).name}, it offers {offered}; check sasl.mechanism")
    schema: Any = load_request_schema(AUTHENTICATE_KEY, version)
    lifetime_s: float | None = None
    try:
        message = next(exchange)
        while True:
            answer = await request(schema(auth_bytes=message))
            if answer.error_code:
                raise _refusal(mechanism, answer.error_message or error_info(answer.error_code).name)
            if version > 0:
                lifetime_s = answer.session_lifetime.total_seconds() or None
            message = exchange.send(answer.auth_bytes)
    except StopIteration:
        return lifetime_s
    except SaslRefusedError as error:
        raise _refusal(mechanism, str(error)) from error


def _refusal(mechanism: Mechanism, reason: str) -> ClusterUnreachableError:
    return ClusterUnreachableError(
        f"cluster {mechanism.cluster} refuses {mechanism.name} for user {mechanism.principal}: {reason}"
    )
