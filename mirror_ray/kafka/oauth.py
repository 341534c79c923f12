"""OAUTHBEARER (RFC 7628, KIP-255), and Kafka's unsigned tokens for development."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from mirror_ray.config.token_endpoint import TOKEN_ENDPOINT_KEY
from mirror_ray.kafka.oidc import NoTokenError
from mirror_ray.kafka.sasl import Exchange, SaslRefusedError
from mirror_ray.model.errors import ClusterUnreachableError

_TOKEN_SHARE: Final = 0.8
_UNSECURED_LIFETIME_S: Final = 3600.0


class TokenSource(Protocol):
    """Where OAUTHBEARER's tokens come from."""

    def fetch(self) -> tuple[str, float]:
        """A token and the seconds that it lives. Blocking.

        Raises:
            NoTokenError: There is none to be had.
        """
        ...


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
        """One message; an empty answer, or a JSON text that says why not."""
        if not self._token or time.monotonic() >= self._renew_at:
            self._token, lifetime_s = await asyncio.to_thread(self.fetch)
            self._renew_at = time.monotonic() + lifetime_s * _TOKEN_SHARE
        return self._exchange(self._token)

    def fetch(self) -> tuple[str, float]:
        """A new token and the seconds that it lives. Blocking.

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


def _base64url(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
