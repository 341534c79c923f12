"""Tokens from an OpenID Connect token endpoint (KIP-768), which may be anything that answers there.

The client's secret goes to the URL of the configuration and to no other: a redirect is an error. Answer and time are
bounded, and what an answer says is believed only where it is what RFC 6749 (section 5.1) and RFC 6750 describe.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from mirror_ray.config.secrets import Secret
from mirror_ray.config.token_endpoint import token_endpoint_problem

_TIMEOUT_S: Final = 10.0
#: Far more than a token with all of a user's groups in it.
_ANSWER_LIMIT_BYTES: Final = 1 << 20
_USUAL_LIFETIME_S: Final = 3600.0
#: What is beyond a year is no number that anybody meant.
_MOST_LIFETIME_S: Final = 366 * 86_400.0
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
#: RFC 6749, section 5.2. Other words of a refusal are not repeated: they may hold what was asked with.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcTokens:
    """Tokens by the client credentials grant of OpenID Connect (KIP-768)."""

    #: Its query may hold what is secret.
    url: str = field(repr=False)
    client_id: str
    client_secret: Secret
    scope: str | None = None
    #: Whether the secret may go over plain HTTP to another machine.
    allow_http: bool = False

    def fetch(self) -> tuple[str, float]:
        """A token and the seconds that it lives. Blocking, for 10 s at most; from any thread.

        Raises:
            NoTokenError: The client's secret can't be resolved here; the endpoint can't be asked, does not answer in
                time, or answers with something else.
        """
        problem = token_endpoint_problem(self.url, allow_http=self.allow_http)
        if problem is not None:
            raise NoTokenError(f"its token endpoint {problem}")
        try:
            secret = self.client_secret.reveal()
        except LookupError as error:
            raise NoTokenError(f"no client secret: {error.args[0]}") from error
        # In a thread of its own: who asks may have an event loop that runs.
        with ThreadPoolExecutor(1) as thread:
            status, body = thread.submit(asyncio.run, self._ask(secret)).result()
        if 300 <= status < 400:
            raise NoTokenError(
                f"{self._place} answers with a redirect ({status}), which is not followed, since it would take the "
                "client's secret elsewhere; name the endpoint itself"
            )
        if status != 200:
            raise NoTokenError(f"{self._place} answers with status {status}{_refusal(body)}")
        try:
            return read_token(body)
        except NoTokenError as error:
            raise NoTokenError(f"{self._place} answers with {error}") from None

    @property
    def _place(self) -> str:
        """The URL without what may be secret in it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    async def _ask(self, secret: str) -> tuple[int, bytes]:
        # Half a second to import, for those who use it.
        import aiohttp

        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        basic = base64.b64encode(f"{self.client_id}:{secret}".encode()).decode()
        headers = {
            "Authorization": f"Basic {basic}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
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
                        raise NoTokenError(f"{self._place} answers with more than {_ANSWER_LIMIT_BYTES} bytes")
                return response.status, body
        except TimeoutError as error:
            raise NoTokenError(f"{self._place} did not answer within {_TIMEOUT_S:g} s") from error
        except aiohttp.ClientConnectorError as error:
            raise NoTokenError(f"{self._place} can't be reached: {error.os_error}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Its words may be the other side's.
            raise NoTokenError(f"{self._place} gives no answer that is HTTP ({type(error).__name__})") from error


def read_token(body: bytes) -> tuple[str, float]:
    """A token and the seconds that it lives, out of an endpoint's answer.

    Raises:
        NoTokenError: It is something else; what it says is not repeated.
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
        said = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    code = said.get("error") if isinstance(said, dict) else None
    return f" ({code})" if isinstance(code, str) and code in _REFUSALS else ""
