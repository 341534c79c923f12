"""Whatever answers at a broker's address: a connection says what is wrong, and which key to look at."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from mirror_ray.config.settings import SecuritySettings, SslSettings
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.model.errors import AccessDeniedError, MirrorError
from tests.unit.kafka.hostile_broker import (
    BY_SCRAM,
    PLAINTEXT,
    Answers,
    api_versions,
    frame,
    sasl_answers,
    server_context,
    serving,
)

SSL = SecuritySettings(protocol="SSL")
BAD_VERSION = b"\x15\x03\x03\x00\x02\x02\x46"


async def refusal(port: int, security: SecuritySettings) -> Exception:
    """Of a connection that is not to come about."""
    with pytest.raises((ConnectionError, MirrorError)) as refused:
        await Connection.open(
            "127.0.0.1",
            port,
            security=ClientSecurity.build("A", security),
            client_id="test",
            setup_timeout_s=1.0,
            request_timeout_s=1.0,
        )
    assert "hush-hush" not in str(refused.value)
    return refused.value


def announces(size: int) -> Answers:
    """An answer of that many bytes, of which eight come."""
    return lambda asked: struct.pack(">ii", size, asked.correlation_id) + bytes(4)


@pytest.mark.parametrize(
    ("answers", "security", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", PLAINTEXT, r"it speaks HTTP here.*check A\.bootstrap\.servers"),
        (b"SSH-2.0-OpenSSH_9\r\n", PLAINTEXT, r"it speaks SSH here.*check A\.bootstrap\.servers"),
        (BAD_VERSION, PLAINTEXT, r"it speaks TLS here.*A\.security\.protocol = PLAINTEXT is not for that port"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", SSL, r"does that port speak TLS\? check A\.security\.protocol"),
        (b"", SSL, r"no TLS.*does that port speak TLS\? check A\.security\.protocol = SSL"),
        (b"", PLAINTEXT, r"closed by the broker; is it a port for TLS\? check A\.security\.protocol = PLAINTEXT"),
        (announces(255 << 20), PLAINTEXT, r"a response of 267386880 bytes, where 65536 at most are due"),
        (announces(-5), PLAINTEXT, r"a response of -5 bytes"),
        (announces(60_000), PLAINTEXT, r"no answer to the first request within 1 s; the broker hangs, or its port"),
        (
            lambda asked: frame(asked.correlation_id, b"\xff\xff" + bytes(20)),
            PLAINTEXT,
            "answer to ApiVersions can't be read",
        ),
        (lambda asked: frame(asked.correlation_id, b""), PLAINTEXT, "answer to ApiVersions can't be read"),
        (lambda asked: frame(asked.correlation_id + 1, bytes(20)), PLAINTEXT, "was not due"),
        (sasl_answers(b"\xff\xfe"), BY_SCRAM, r"SCRAM-SHA-256 for user alice was broken off by us.*utf-8"),
        (
            lambda asked: api_versions(asked) if asked.api_key == 18 else None,
            BY_SCRAM,
            r"not let in: closed by the broker; check A\.security\.protocol = SASL_PLAINTEXT and A\.sasl\.mechanism",
        ),
        (
            lambda asked: (
                api_versions(asked) if asked.api_key == 18 else frame(asked.correlation_id, struct.pack(">hi", 33, -1))
            ),
            BY_SCRAM,
            "its answer to SaslHandshakeRequest can't be read: .*mechanisms is null",
        ),
        (
            lambda asked: api_versions(asked) if asked.api_key == 18 else announces(255 << 20)(asked),
            BY_SCRAM,
            "where 65536 at most are due",
        ),
    ],
)
async def test_what_is_no_broker_is_named(answers: Answers | bytes, security: SecuritySettings, said: str) -> None:
    """With the address, and the key to look at, and without a secret."""
    with serving(answers) as port:
        assert re.search(rf"127\.0\.0\.1:{port}|cluster A", text := str(await refusal(port, security)))
        assert re.search(said, text), text


@pytest.mark.parametrize(
    ("host", "days", "trusted", "said"),
    [
        ("127.0.0.1", -1, True, "certificate has expired; give the broker one that is valid now"),
        ("10.1.2.3", 1, True, r"mismatch.*check A\.bootstrap\.servers.*A\.ssl\.endpoint\.identification\.algorithm"),
        ("127.0.0.1", 1, False, r"self.signed certificate; check that A\.ssl\.truststore\.location"),
    ],
)
async def test_certificates_are_told_apart(tmp_path: Path, host: str, days: int, trusted: bool, said: str) -> None:
    """Expired, of another host, and of an authority that nobody knows."""
    context, authority = server_context(tmp_path, host=host, days=days)
    ssl = SslSettings(truststore_location=str(authority)) if trusted else SslSettings()
    with serving(b"", context) as port:
        text = str(await refusal(port, SecuritySettings(protocol="SSL", ssl=ssl)))
        assert f"cluster A: no TLS with 127.0.0.1:{port}: its certificate is not accepted" in text
        assert re.search(said, text), text


async def test_what_nobody_helps_but_a_change_is_told_apart() -> None:
    """A refusal is not tried again, a broker that is away is."""
    with serving(sasl_answers(b"\xff\xfe")) as port:
        assert isinstance(await refusal(port, BY_SCRAM), AccessDeniedError)
    assert "Connection refused" in str(await refusal(9, BY_SCRAM))
