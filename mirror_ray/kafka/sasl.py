"""SASL inside Kafka's own requests (KIP-43, KIP-152), with PLAIN and SCRAM; OAUTHBEARER is in ``oauth``.

A mechanism's exchange is a generator that speaks no protocol: it yields what to send and is sent what came back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from kio.index import load_request_schema
from kio.static.protocol import RequestPayload

from mirror_ray.config.secrets import Secret
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.framing import SASL_AUTHENTICATE_KEY, SASL_HANDSHAKE_KEY
from mirror_ray.model.errors import AccessDeniedError, ClusterUnreachableError

if TYPE_CHECKING:
    from scramp import ScramClient

#: Part of a session's life after which we authenticate again (KIP-368; Kafka's own client takes 85 to 95 %).
SESSION_SHARE: Final = 0.85
#: Kafka's ``ScramMechanism``: a proof by fewer iterations is cheap to guess the password from.
LEAST_ITERATIONS: Final = 4096
#: Seconds of a processor; nobody stores credentials with more.
_MOST_ITERATIONS: Final = 1_000_000
_ITERATIONS: Final = re.compile(r"(?:^|,)i=(\d{1,20})(?:,|$)", re.ASCII)
#: Characters of a broker's text that an error repeats.
_QUOTED_CHARACTERS: Final = 300
#: A broker may ask for seconds of computing. The loop's own threads may all be waiting for something.
_COMPUTING: Final = ThreadPoolExecutor(4, "sasl")

Exchange = Generator[bytes, bytes, None]


class SaslRefusedError(Exception):
    """The broker refused, in the mechanism's own terms; the text is the broker's."""


class SaslMistrustError(Exception):
    """We refuse: the broker's answer is not that of one that may know our secret."""


class Mechanism(Protocol):
    """A way to prove who we are. Its properties are for messages, and never secret."""

    @property
    def cluster(self) -> str:
        """Alias of the cluster that is connected to."""

    @property
    def name(self) -> str:
        """The mechanism's name, as SaslHandshake has it."""

    @property
    def principal(self) -> str:
        """The user or client."""

    async def begin(self) -> Exchange:
        """Start an exchange, with fresh credentials where they expire.

        Raises:
            ClusterUnreachableError: There are no credentials to be had.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainMechanism:
    """PLAIN (RFC 4616): the password itself."""

    cluster: str
    principal: str
    password: Secret
    name: str = "PLAIN"

    async def begin(self) -> Exchange:
        """Start an exchange of one message and one empty answer."""
        return self._exchange(_revealed(self.cluster, self.password))

    def _exchange(self, password: str) -> Exchange:
        yield b"\0" + self.principal.encode() + b"\0" + password.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramMechanism:
    """SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): both sides prove that they know the password."""

    cluster: str
    principal: str
    password: Secret
    name: str

    async def begin(self) -> Exchange:
        """Start an exchange of two messages and two answers; the second answer proves the broker."""
        return self._exchange(_revealed(self.cluster, self.password))

    def _exchange(self, password: str) -> Exchange:
        # A tenth of a second to import, for those who use it.
        import scramp

        client = _scram_client(self.name, self.principal, password)
        try:
            server_first = (yield client.get_client_first().encode()).decode()
            _check_iterations(server_first)
            client.set_server_first(server_first)
            client.set_server_final((yield client.get_client_final().encode()).decode())
        except (scramp.ScramException, ValueError, LookupError) as error:
            raise SaslMistrustError(f"its broker's answer is not what SCRAM wants: {error}") from error


async def authenticate(
    request: Callable[[RequestPayload], Awaitable[Any]], mechanism: Mechanism, exchange: Exchange, version: int
) -> float | None:
    """Send SaslHandshake (v1) and SaslAuthenticate (``version`` 0 to 2) by ``request``, until the exchange is over.

    Returns:
        How many seconds the session lasts, None when it does not end (KIP-368).

    Raises:
        AccessDeniedError: The broker refused; names the cluster, the mechanism and the user.
    """
    handshake: Any = load_request_schema(SASL_HANDSHAKE_KEY, 1)
    answer = await request(handshake(mechanism=mechanism.name))
    if answer.error_code:
        raise _refusal(mechanism, _handshake_refusal(mechanism.cluster, answer))
    schema: Any = load_request_schema(SASL_AUTHENTICATE_KEY, version)
    loop = asyncio.get_running_loop()
    lifetime_s: float | None = None
    try:
        message = next(exchange)
        while True:
            answer = await request(schema(auth_bytes=message))
            if answer.error_code:
                why = _quoted(answer.error_message) if answer.error_message else error_info(answer.error_code).name
                raise _refusal(mechanism, f"{why}; check {mechanism.cluster}.sasl.jaas.config")
            if version > 0:
                lifetime_s = answer.session_lifetime.total_seconds() or None
            following = await loop.run_in_executor(_COMPUTING, _next_message, exchange, answer.auth_bytes)
            if following is None:
                return lifetime_s
            message = following
    except SaslRefusedError as error:
        raise _refusal(mechanism, _quoted(str(error))) from error
    except SaslMistrustError as error:
        raise AccessDeniedError(
            f"cluster {mechanism.cluster}: {mechanism.name} for user {mechanism.principal} was broken off by us: "
            f"{_quoted(str(error))}; check {mechanism.cluster}.bootstrap.servers"
        ) from error


def _revealed(cluster: str, password: Secret) -> str:
    """A password as it is now.

    Raises:
        ClusterUnreachableError: It can't be resolved here.
    """
    try:
        return password.reveal()
    except LookupError as error:
        raise ClusterUnreachableError(f"cluster {cluster}: no password: {error.args[0]}") from error


def _next_message(exchange: Exchange, answer: bytes) -> bytes | None:
    """The next message of an exchange; None: it is over."""
    try:
        return exchange.send(answer)
    except StopIteration:
        return None


def _handshake_refusal(cluster: str, answer: Any) -> str:
    name = error_info(answer.error_code).name
    if name == "ILLEGAL_SASL_STATE":
        return f"{name}, that port wants no SASL; check {cluster}.security.protocol"
    offered = _quoted(", ".join(answer.mechanisms)) or "none"
    return f"{name}, it offers {offered}; check {cluster}.sasl.mechanism"


def _quoted(text: str) -> str:
    """The broker's text, as much of it as an error repeats."""
    return text if len(text) <= _QUOTED_CHARACTERS else f"{text[:_QUOTED_CHARACTERS]}…"


def _refusal(mechanism: Mechanism, reason: str) -> AccessDeniedError:
    return AccessDeniedError(
        f"cluster {mechanism.cluster} refuses {mechanism.name} for user {mechanism.principal}: {reason}"
    )


def _scram_client(name: str, principal: str, password: str) -> ScramClient:
    """Scramp's client with user and password as they are, as Kafka's own and librdkafka have them.

    scramp would prepare both by RFC 4013 (SASLprep), so that some characters beyond ASCII were others to the broker.
    """
    import scramp

    client = scramp.ScramClient([name], "user", "password")
    client.username.username, client.password.password = principal, password
    return client


def _check_iterations(server_first: str) -> None:
    found = _ITERATIONS.search(server_first)
    iterations = int(found[1]) if found else LEAST_ITERATIONS
    if iterations < LEAST_ITERATIONS:
        raise SaslMistrustError(
            f"its broker asks for {iterations} iterations, fewer than {LEAST_ITERATIONS} make a password cheap to guess"
        )
    if iterations > _MOST_ITERATIONS:
        raise SaslMistrustError(f"its broker asks for {iterations} iterations, {_MOST_ITERATIONS} are the most")
