"""SASL exchanges without a broker, and what is said of a refusal."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import scramp

from mirror_ray.config.secrets import Secret
from mirror_ray.kafka import sasl
from mirror_ray.model.errors import ClusterUnreachableError


class _Broker:
    """Answers SaslHandshake well and SaslAuthenticate as it is told to."""

    def __init__(self, answer: Callable[[bytes], bytes], error_code: int = 0) -> None:
        self._answer = answer
        self._error_code = error_code
        self.messages: list[bytes] = []

    async def request(self, entity: Any) -> Any:
        if entity.__api_key__ == sasl.HANDSHAKE_KEY:
            return SimpleNamespace(error_code=0, mechanisms=())
        self.messages.append(entity.auth_bytes)
        if self._error_code:
            return SimpleNamespace(error_code=self._error_code, error_message=None)
        return SimpleNamespace(error_code=0, auth_bytes=self._answer(entity.auth_bytes))


async def _authenticate(broker: _Broker, mechanism: sasl.Mechanism) -> float | None:
    return await sasl.authenticate(broker.request, mechanism, await mechanism.begin(), 0)


async def test_plain_sends_user_and_password() -> None:
    """PLAIN is one message of RFC 4616, without an authorization identity."""
    broker = _Broker(lambda _: b"")
    await _authenticate(broker, sasl.Plain(cluster="A", principal="alice", password=Secret("pässword")))
    assert broker.messages == ["\0alice\0pässword".encode()]


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram_agrees_with_a_server(name: str) -> None:
    """Both messages satisfy a SCRAM server, and its proof satisfies us."""
    mechanism = scramp.ScramMechanism(name)
    server = mechanism.make_server(lambda _: mechanism.make_auth_info("secret", iteration_count=4096))

    def answer(message: bytes) -> bytes:
        if message.startswith(b"n,,"):
            server.set_client_first(message.decode())
            return bytes(server.get_server_first().encode())
        server.set_client_final(message.decode())
        return bytes(server.get_server_final().encode())

    broker = _Broker(answer)
    await _authenticate(broker, sasl.Scram(cluster="A", principal="alice", password=Secret("secret"), name=name))
    assert len(broker.messages) == 2


async def test_scram_refuses_a_server_that_does_not_know_the_password() -> None:
    """A server that repeats our nonce and nothing more is not believed."""

    def answer(message: bytes) -> bytes:
        if message.startswith(b"n,,"):
            nonce = message.decode().rpartition("r=")[2]
            return f"r={nonce}x,s={base64.b64encode(b'salt').decode()},i=4096".encode()
        return b"v=" + base64.b64encode(bytes(32))

    with pytest.raises(ClusterUnreachableError, match="cluster A refuses SCRAM-SHA-256 for user alice"):
        await _authenticate(
            _Broker(answer), sasl.Scram(cluster="A", principal="alice", password=Secret("secret"), name="SCRAM-SHA-256")
        )


async def test_refusal_without_a_text_is_named_by_its_code() -> None:
    """An error code stands for itself where the broker says nothing more."""
    broker = _Broker(lambda _: b"", error_code=58)
    with pytest.raises(ClusterUnreachableError, match="user alice: SASL_AUTHENTICATION_FAILED") as refused:
        await _authenticate(broker, sasl.Plain(cluster="A", principal="alice", password=Secret("secret")))
    assert "secret" not in str(refused.value)


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
    mechanism = sasl.OAuthBearer(cluster="A", principal="app", tokens=tokens)
    broker = _Broker(lambda _: b"")
    await _authenticate(broker, mechanism)
    await _authenticate(broker, mechanism)
    assert tokens.fetched == fetched
    assert broker.messages[0] == b"n,,\x01auth=Bearer token1\x01\x01"
    assert "token1" not in repr(mechanism)


async def test_refused_token_is_acknowledged_and_told() -> None:
    """The broker's JSON is answered with one byte, as RFC 7628 wants it, and shown."""
    broker = _Broker(lambda message: b"" if message == b"\x01" else b'{"status":"invalid_token"}')
    mechanism = sasl.OAuthBearer(cluster="A", principal="app", tokens=_Tokens(60))
    with pytest.raises(ClusterUnreachableError, match="invalid_token"):
        await _authenticate(broker, mechanism)
    assert broker.messages[-1] == b"\x01"


async def test_unreachable_token_endpoint_is_named() -> None:
    """Without a token there is no entry; the error names what to check."""
    tokens = sasl.OidcTokens(url="file:///etc/passwd", client_id="app", client_secret=Secret("hush-hush"))
    mechanism = sasl.OAuthBearer(cluster="A", principal="app", tokens=tokens)
    with pytest.raises(ClusterUnreachableError, match=r"not an HTTP URL.*token\.endpoint\.url"):
        await mechanism.begin()
    assert "hush-hush" not in repr(mechanism)


def test_unsecured_token_is_an_unsigned_jws_with_a_subject() -> None:
    """Kafka's development tokens have algorithm none, a subject and an empty signature."""
    token, lifetime_s = sasl.UnsecuredTokens(subject="alice").fetch()
    header, claims, signature = (part + "=" * (-len(part) % 4) for part in token.split("."))
    assert json.loads(base64.urlsafe_b64decode(header)) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims))["sub"] == "alice"
    assert signature == ""
    assert lifetime_s == 3600
