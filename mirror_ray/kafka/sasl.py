"""SASL inside Kafka's own requests (KIP-43, KIP-152): PLAIN, SCRAM, OAUTHBEARER.

A mechanism's exchange is a generator that speaks no protocol: it yields what to send and is sent what came back.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
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

_TOKEN_SHARE = 0.8
_TOKEN_TIMEOUT_S = 10.0
_UNSECURED_LIFETIME_S = 3600.0

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


class TokenSource(Protocol):
    """Where OAUTHBEARER's tokens come from."""

    def fetch(self) -> tuple[str, float]:
        """A token and the seconds that it lives. Blocking."""
        ...


@dataclass(slots=True, kw_only=True)
class OAuthBearer:
    """OAUTHBEARER (RFC 7628, KIP-255): a bearer token, kept until near its expiry."""

    cluster: str
    principal: str
    tokens: TokenSource
    name: str = "OAUTHBEARER"
    _token: str = field(default="", repr=False)
    _renew_at: float = 0.0

    async def begin(self) -> Exchange:
        """One message; an empty answer, or a JSON text that says why not."""
        if not self._token or time.monotonic() >= self._renew_at:
            try:
                self._token, lifetime_s = await asyncio.to_thread(self.tokens.fetch)
            except (OSError, ValueError, LookupError) as error:
                raise ClusterUnreachableError(
                    f"cluster {self.cluster}: no token for {self.principal}: {error}; "
                    "check sasl.oauthbearer.token.endpoint.url and the client's id and secret"
                ) from error
            self._renew_at = time.monotonic() + lifetime_s * _TOKEN_SHARE
        return self._exchange(self._token)

    def _exchange(self, token: str) -> Exchange:
        answer = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        if answer:
            yield b"\x01"
            raise SaslRefusedError(answer.decode(errors="replace"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcTokens:
    """Tokens by the client credentials grant of OpenID Connect (KIP-768)."""

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None = None

    def fetch(self) -> tuple[str, float]:
        """Ask the token endpoint.

        Raises:
            LookupError: The client's secret can't be resolved here.
            OSError: It does not answer, or with an HTTP error.
            ValueError, KeyError: Its answer holds no token.
        """
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        basic = base64.b64encode(f"{self.client_id}:{self.client_secret.reveal()}".encode()).decode()
        if not self.url.lower().startswith(("https://", "http://")):
            raise ValueError(f"{self.url} is not an HTTP URL")
        request = urllib.request.Request(  # noqa: S310 - the scheme has been checked
            self.url,
            data=urllib.parse.urlencode(form).encode(),
            headers={"Authorization": f"Basic {basic}", "Accept": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_TOKEN_TIMEOUT_S) as response:  # noqa: S310
            answer = json.load(response)
        return str(answer["access_token"]), float(answer.get("expires_in", _UNSECURED_LIFETIME_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredTokens:
    """Kafka's unsigned tokens (RFC 7515, ``alg`` none), for development."""

    subject: str

    def fetch(self) -> tuple[str, float]:
        """Make a token that lives for an hour."""
        now = time.time()
        claims = {"sub": self.subject, "iat": now, "exp": now + _UNSECURED_LIFETIME_S}
        return ".".join([_base64url({"alg": "none"}), _base64url(claims), ""]), _UNSECURED_LIFETIME_S


def _base64url(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


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
