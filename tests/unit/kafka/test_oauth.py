"""OAUTHBEARER: when a token is kept, what a refusal says, and tokens for development."""

from __future__ import annotations

import base64
import json

import pytest

from mirror_ray.kafka.oauth import OAuthBearer, UnsecuredTokens
from mirror_ray.model.errors import ClusterUnreachableError
from tests.unit.kafka.sasl_broker import SaslBroker, authenticate


class _Tokens:
    def __init__(self, lifetime_s: float) -> None:
        self.fetched = 0
        self._lifetime_s = lifetime_s

    def fetch(self) -> tuple[str, float]:
        self.fetched += 1
        return f"token{self.fetched}", self._lifetime_s


@pytest.mark.parametrize(("lifetime_s", "fetched"), [(3600.0, 1), (0.0, 2)])
async def test_token_is_kept_until_near_its_expiry(lifetime_s: float, fetched: int) -> None:
    """A token that lives serves many connections; one that has run out is fetched anew."""
    tokens = _Tokens(lifetime_s)
    mechanism = OAuthBearer(cluster="A", principal="app", tokens=tokens)
    broker = SaslBroker(lambda _: b"")
    await authenticate(broker, mechanism)
    await authenticate(broker, mechanism)
    assert tokens.fetched == fetched
    assert broker.messages[0] == b"n,,\x01auth=Bearer token1\x01\x01"
    assert "token1" not in repr(mechanism)


async def test_refused_token_is_acknowledged_and_told() -> None:
    """The broker's JSON is answered with one byte, as RFC 7628 wants it, and shown."""
    broker = SaslBroker(lambda message: b"" if message == b"\x01" else b'{"status":"invalid_token"}')
    mechanism = OAuthBearer(cluster="A", principal="app", tokens=_Tokens(60))
    with pytest.raises(ClusterUnreachableError, match="invalid_token"):
        await authenticate(broker, mechanism)
    assert broker.messages[-1] == b"\x01"


def test_unsecured_token_is_an_unsigned_jws_with_a_subject() -> None:
    """Kafka's development tokens have algorithm none, a subject and an empty signature."""
    token, lifetime_s = UnsecuredTokens(subject="alice").fetch()
    header, claims, signature = (part + "=" * (-len(part) % 4) for part in token.split("."))
    assert json.loads(base64.urlsafe_b64decode(header)) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims))["sub"] == "alice"
    assert signature == ""
    assert lifetime_s == 3600
