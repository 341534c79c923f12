"""SASL exchanges without a broker, and what is said of a refusal."""

from __future__ import annotations

import base64

import pytest
import scramp

from mirror_ray.config.secrets import Secret
from mirror_ray.kafka import sasl
from mirror_ray.model.errors import ClusterUnreachableError
from tests.unit.kafka.sasl_broker import SaslBroker, authenticate


async def test_plain_sends_user_and_password() -> None:
    """PLAIN is one message of RFC 4616, without an authorization identity."""
    broker = SaslBroker(lambda _: b"")
    await authenticate(broker, sasl.Plain(cluster="A", principal="alice", password=Secret("pässword")))
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

    broker = SaslBroker(answer)
    await authenticate(broker, sasl.Scram(cluster="A", principal="alice", password=Secret("secret"), name=name))
    assert len(broker.messages) == 2


async def test_scram_refuses_a_server_that_does_not_know_the_password() -> None:
    """A server that repeats our nonce and nothing more is not believed."""

    def answer(message: bytes) -> bytes:
        if message.startswith(b"n,,"):
            nonce = message.decode().rpartition("r=")[2]
            return f"r={nonce}x,s={base64.b64encode(b'salt').decode()},i=4096".encode()
        return b"v=" + base64.b64encode(bytes(32))

    with pytest.raises(ClusterUnreachableError, match="cluster A refuses SCRAM-SHA-256 for user alice"):
        await authenticate(
            SaslBroker(answer),
            sasl.Scram(cluster="A", principal="alice", password=Secret("secret"), name="SCRAM-SHA-256"),
        )


async def test_refusal_without_a_text_is_named_by_its_code() -> None:
    """An error code stands for itself where the broker says nothing more."""
    broker = SaslBroker(lambda _: b"", error_code=58)
    with pytest.raises(ClusterUnreachableError, match="user alice: SASL_AUTHENTICATION_FAILED") as refused:
        await authenticate(broker, sasl.Plain(cluster="A", principal="alice", password=Secret("secret")))
    assert "secret" not in str(refused.value)
