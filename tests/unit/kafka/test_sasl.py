"""SASL exchanges without a broker, and what is said of a refusal."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest
import scramp

from mirror_ray.config.secrets import Secret
from mirror_ray.kafka.sasl import PlainMechanism, ScramMechanism
from mirror_ray.model.errors import ClusterUnreachableError
from tests.unit.kafka.sasl_broker import SaslBroker, authenticate


def _plain(phrase: str = "secret") -> PlainMechanism:
    return PlainMechanism(cluster="A", principal="alice", password=Secret(phrase))


def _scram(name: str = "SCRAM-SHA-256", *, user: str = "alice", phrase: str = "secret") -> ScramMechanism:
    return ScramMechanism(cluster="A", principal=user, password=Secret(phrase), name=name)


async def test_plain_sends_user_and_password() -> None:
    """PLAIN is one message of RFC 4616, without an authorization identity."""
    broker = SaslBroker(lambda _: b"")
    await authenticate(broker, _plain("pässword"))
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
    await authenticate(broker, _scram(name))
    assert len(broker.messages) == 2


async def test_scram_refuses_a_server_that_does_not_know_the_password() -> None:
    """A server that repeats our nonce and nothing more is not believed."""

    def answer(message: bytes) -> bytes:
        if message.startswith(b"n,,"):
            nonce = message.decode().rpartition("r=")[2]
            return f"r={nonce}x,s={base64.b64encode(b'salt').decode()},i=4096".encode()
        return b"v=" + base64.b64encode(bytes(32))

    with pytest.raises(ClusterUnreachableError, match="cluster A: SCRAM-SHA-256 for user alice was broken off by us"):
        await authenticate(SaslBroker(answer), _scram())


async def test_refusal_without_a_text_is_named_by_its_code() -> None:
    """An error code stands for itself where the broker says nothing more."""
    broker = SaslBroker(lambda _: b"", error_code=58)
    with pytest.raises(ClusterUnreachableError, match="user alice: SASL_AUTHENTICATION_FAILED") as refused:
        await authenticate(broker, _plain())
    assert "secret" not in str(refused.value)


def _server_first(rest: str) -> Callable[[bytes], bytes]:
    return lambda message: f"r={message.decode().rpartition('r=')[2]}x,{rest}".encode()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: b"\xff\xfe", "not what SCRAM wants"),
        (lambda _: b"", "not what SCRAM wants"),
        (lambda _: b"e=other-error", "not what SCRAM wants"),
        (_server_first("s=%%%,i=4096"), "not what SCRAM wants"),
        (_server_first("s=c2FsdA==,i=0"), "0 iterations"),
        (_server_first("s=c2FsdA==,i=1"), "1 iterations, fewer than 4096"),
        (_server_first("s=c2FsdA==,i=4095"), "4095 iterations"),
        (_server_first("s=c2FsdA==,i=1000001"), "1000000 are the most"),
        (_server_first("s=c2FsdA==,i=-5"), "not what SCRAM wants"),
        (_server_first("s=c2FsdA==,i=04096"), "not what SCRAM wants"),
    ],
)
async def test_a_broker_that_does_not_speak_scram_gets_no_proof(answer: Callable[[bytes], bytes], said: str) -> None:
    """A named error, and no second message."""
    broker = SaslBroker(answer)
    with pytest.raises(ClusterUnreachableError, match=f"cluster A: SCRAM-SHA-512 .* broken off by us: .*{said}"):
        await authenticate(broker, _scram("SCRAM-SHA-512"))
    assert len(broker.messages) == 1


@pytest.mark.parametrize(("user", "password"), [("ﬁn", "pa\u0308ss\u2168"), ("a,b=c", "\u00ad\x7f"), ("ü", "пароль")])
async def test_scram_takes_user_and_password_as_kafka_does(user: str, password: str) -> None:
    """By their UTF-8: prepared by RFC 4013 some were others, or none, to a broker and to librdkafka."""
    salt = b"sixteen bytes ok"

    def answer(message: bytes) -> bytes:
        if message.startswith(b"n,,"):
            seen.append(message.decode().removeprefix("n,,"))
            seen.append(f"r={seen[0].rpartition('r=')[2]}x,s={base64.b64encode(salt).decode()},i=4096")
            return seen[1].encode()
        without_proof = message.decode().rpartition(",p=")[0]
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 4096)
        server_key = hmac.digest(salted, b"Server Key", "sha256")
        signature = hmac.digest(server_key, ",".join((*seen, without_proof)).encode(), "sha256")
        return b"v=" + base64.b64encode(signature)

    seen: list[str] = []
    mechanism = _scram(user=user, phrase=password)
    await authenticate(SaslBroker(answer), mechanism)
    assert seen[0].startswith(f"n={user.replace('=', '=3D').replace(',', '=2C')},r=")


@pytest.mark.parametrize(
    ("code", "said"), [(33, r"it offers PLAIN; check A\.sasl\.mechanism"), (34, r"A\.security\.pro")]
)
async def test_a_refused_handshake_names_the_key(code: int, said: str) -> None:
    """A mechanism that is not offered, and a port that wants none."""
    broker = SaslBroker(lambda _: b"", handshake_code=code)
    with pytest.raises(ClusterUnreachableError, match=said):
        await authenticate(broker, _plain())


async def test_words_of_a_broker_are_cut_short() -> None:
    """They may be as long as an answer."""
    with pytest.raises(ClusterUnreachableError) as refused:
        await authenticate(SaslBroker(lambda _: b"", error_code=58, error_message="x" * 60_000), _plain())
    assert len(str(refused.value)) < 500
