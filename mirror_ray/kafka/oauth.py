"""OAUTHBEARER (RFC 7628, KIP-255): tokens from an OpenID Connect endpoint (KIP-768), or unsigned ones for development.

Raw connections and confluent-kafka take the same tokens: librdkafka's own way to an endpoint has other rules.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
import time
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from mirror_ray.config.secrets import Secret
from mirror_ray.config.token_endpoint import TOKEN_ENDPOINT_KEY, token_endpoint_problem
from mirror_ray.kafka.blocking import run_blocking
from mirror_ray.kafka.sasl import Exchange, SaslRefusedError
from mirror_ray.model.errors import ClusterUnreachableError

_TOKEN_SHARE: Final = 0.8
_UNSECURED_LIFETIME_S: Final = 3600.0

_TIMEOUT_S: Final = 10.0
#: Far more than a token with all of a user's groups in it.
_ANSWER_LIMIT_BYTES: Final = 1 << 20
_USUAL_LIFETIME_S: Final = 3600.0
#: No endpoint means a number beyond a year.
_MOST_LIFETIME_S: Final = 366 * 86_400.0
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
#: RFC 6749, section 5.2. Other words of a refusal are not repeated: they may hold our secret.
_REFUSALS: Final = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    }
)


class NoTokenError(Exception):
    """There is no token to be had; the text says why, and holds no secret."""


class TokenSource(Protocol):
    """Where OAUTHBEARER's tokens come from."""

    def fetch(self) -> tuple[str, float]:
        """A token and its lifetime in seconds. Blocking.

        Raises:
            NoTokenError: There is none to be had.
        """


@dataclass(slots=True, kw_only=True)
class OAuthBearer:
    """OAUTHBEARER: a bearer token, kept until near its expiry."""

    cluster: str
    principal: str
    tokens: TokenSource
    name: str = "OAUTHBEARER"
    _token: str = field(default="", repr=False)
    _renew_at: float = 0.0

    async def begin(self) -> Exchange:
        """Start an exchange: one message; an empty answer, or a JSON text that says why not."""
        return self._exchange(await self.token())

    async def token(self) -> str:
        """A token that is not about to expire. Raises as ``fetch`` does."""
        if not self._token or time.monotonic() >= self._renew_at:
            self._token, lifetime_s = await asyncio.to_thread(self.fetch)
            self._renew_at = time.monotonic() + lifetime_s * _TOKEN_SHARE
        return self._token

    def fetch(self) -> tuple[str, float]:
        """A new token and its lifetime in seconds. Blocking.

        Raises:
            ClusterUnreachableError: There is none to be had; names the keys to look at.
        """
        try:
            return self.tokens.fetch()
        except NoTokenError as error:
            raise ClusterUnreachableError(
                f"cluster {self.cluster}: no token for {self.principal}: {error}; "
                f"check {self.cluster}.{TOKEN_ENDPOINT_KEY} and the client's id and secret"
            ) from error

    def _exchange(self, token: str) -> Exchange:
        answer = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        if answer:
            yield b"\x01"
            raise SaslRefusedError(answer.decode(errors="replace"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredTokens:
    """Kafka's unsigned tokens (RFC 7515, ``alg`` none), for development."""

    subject: str

    def fetch(self) -> tuple[str, float]:
        """Make a token that lives for an hour."""
        now = time.time()
        claims = {"sub": self.subject, "iat": now, "exp": now + _UNSECURED_LIFETIME_S}
        return ".".join([_base64url({"alg": "none"}), _base64url(claims), ""]), _UNSECURED_LIFETIME_S


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcTokens:
    """Tokens by the client credentials grant of OpenID Connect (KIP-768)."""

    #: Its query may be secret.
    url: str = field(repr=False)
    client_id: str
    client_secret: Secret
    scope: str | None = None
    #: Whether the secret may go over plain HTTP to another machine.
    allow_http: bool = False

    def fetch(self) -> tuple[str, float]:
        """A token and its lifetime in seconds. Blocking, for 10 s at most; from any thread.

        Raises:
            NoTokenError: The client's secret can't be resolved here; the endpoint can't be reached, does not answer in
                time, or answers with something else.
        """
        problem = token_endpoint_problem(self.url, allow_http=self.allow_http)
        if problem is not None:
            raise NoTokenError(f"its token endpoint {problem}")
        try:
            secret = self.client_secret.reveal()
        except LookupError as error:
            raise NoTokenError(f"no client secret: {error.args[0]}") from error
        status, body = run_blocking(self._request(secret))
        if 300 <= status < 400:
            raise NoTokenError(
                f"{self._endpoint} answers with a redirect ({status}), which is not followed, since it would take the "
                "client's secret elsewhere; name the endpoint itself"
            )
        if status != 200:
            raise NoTokenError(f"{self._endpoint} answers with status {status}{_refusal(body)}")
        try:
            return read_token(body)
        except NoTokenError as error:
            raise NoTokenError(f"{self._endpoint} answers with {error}") from None

    @property
    def _endpoint(self) -> str:
        """The URL without its parts that may be secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    async def _request(self, secret: str) -> tuple[int, bytes]:
        # Half a second to import, for those who use it.
        import aiohttp

        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        basic = base64.b64encode(f"{self.client_id}:{secret}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Accept": "application/json", "Accept-Encoding": "identity"}
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, auto_decompress=False, trust_env=True) as session,
                session.post(self.url, data=form, headers=headers, allow_redirects=False) as response,
            ):
                body = b""
                async for piece in response.content.iter_any():
                    body += piece
                    if len(body) > _ANSWER_LIMIT_BYTES:
                        raise NoTokenError(f"{self._endpoint} answers with more than {_ANSWER_LIMIT_BYTES} bytes")
                return response.status, body
        except TimeoutError as error:
            raise NoTokenError(f"{self._endpoint} did not answer within {_TIMEOUT_S:g} s") from error
        except aiohttp.ClientConnectorError as error:
            raise NoTokenError(f"{self._endpoint} can't be reached: {error.os_error}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The text may be the endpoint's.
            raise NoTokenError(f"{self._endpoint} gives no answer that is HTTP ({type(error).__name__})") from error


def read_token(body: bytes) -> tuple[str, float]:
    """A token and its lifetime in seconds, out of an endpoint's answer.

    Raises:
        NoTokenError: It is something else; its text is not repeated.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NoTokenError("what is no JSON object") from error
    if not isinstance(answer, dict):
        raise NoTokenError("what is no JSON object")
    token = answer.get("access_token")
    if not isinstance(token, str) or not token:
        raise NoTokenError("an access_token that is none" if "access_token" in answer else "no access_token")
    if not _TOKEN.fullmatch(token):
        raise NoTokenError("an access_token with characters that no bearer token has")
    return token, _lifetime_s(answer.get("expires_in", _USUAL_LIFETIME_S))


def _lifetime_s(expires_in: Any) -> float:
    # Some endpoints write the number as a text.
    number = isinstance(expires_in, int | float) and not isinstance(expires_in, bool)
    if number or (isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdecimal()):
        seconds = min(float(expires_in), _MOST_LIFETIME_S) if len(str(expires_in)) < 300 else math.nan
        if seconds > 0:
            return seconds
    raise NoTokenError("an expires_in that is no number of seconds above 0")


def _refusal(body: bytes) -> str:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    code = answer.get("error") if isinstance(answer, dict) else None
    return f" ({code})" if isinstance(code, str) and code in _REFUSALS else ""


def _base64url(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
