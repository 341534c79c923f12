"""What an administrative client says of clusters where nobody gets in: by our keys, in time, with exit code 3."""

from __future__ import annotations

import re
import struct
import time
from pathlib import Path

import pytest

from mirror_ray.config.settings import ClusterSettings, SecuritySettings, SslSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.librdkafka import client_config
from mirror_ray.model.errors import AccessDeniedError, ClusterUnreachableError
from tests.unit.kafka.hostile_broker import (
    BY_SCRAM,
    PLAINTEXT,
    Answers,
    Asked,
    api_versions,
    frame,
    sasl_answers,
    server_context,
    serving,
)

LIBRDKAFKA = re.compile(r"ssl\.ca\.location|receive\.message\.max\.bytes|brokers are down|Local:|Invalid response size")


def cluster(port: int, security: SecuritySettings) -> ClusterSettings:
    """One that is given up soon."""
    return ClusterSettings(
        alias="A", bootstrap_servers=(f"127.0.0.1:{port}",), security=security, connection_setup_timeout_ms=1000
    )


def refusal(port: int, security: SecuritySettings) -> ClusterUnreachableError:
    """What ``plan`` and ``up`` begin with."""
    began_s = time.monotonic()
    with pytest.raises(ClusterUnreachableError) as refused:
        ClusterAdmin(cluster(port, security), "test").ping()
    assert time.monotonic() - began_s < 8
    assert refused.value.exit_code == 3
    assert not LIBRDKAFKA.search(str(refused.value))
    return refused.value


def no_versions(asked: Asked) -> bytes:
    """A broker that speaks nothing but ApiVersions."""
    return frame(
        asked.correlation_id, struct.pack(">hi", 0, 0) if asked.version == 0 else struct.pack(">hb", 0, 1) + bytes(5)
    )


@pytest.mark.parametrize(
    ("answers", "security", "said"),
    [
        (
            b"\x15\x03\x03\x00\x02\x02\x46",
            PLAINTEXT,
            r"speaks TLS.*A\.security\.protocol = PLAINTEXT is not for that port",
        ),
        (b"", SecuritySettings(protocol="SSL"), r"does that port speak TLS\? check A\.security\.protocol = SSL"),
        (b"SSH-2.0-OpenSSH_9\r\n", PLAINTEXT, r"speaks SSH here.*check A\.bootstrap\.servers"),
        (no_versions, PLAINTEXT, r"API 3 .* the broker has \(0, -1\)"),
        (
            lambda asked: api_versions(asked) if asked.api_key == 18 else None,
            PLAINTEXT,
            r"want SASL\? A\.security\.protocol",
        ),
    ],
    ids=["TLS", "no TLS", "SSH", "no versions", "hangs up"],
)
def test_what_is_no_broker_is_named(answers: Answers | bytes, security: SecuritySettings, said: str) -> None:
    """Nothing of librdkafka's own keys and counts."""
    with serving(answers) as port:
        text = str(refusal(port, security))
        assert re.search(said, text), text


def test_an_expired_certificate_is_named(tmp_path: Path) -> None:
    """As raw connections tell it apart from others."""
    context, authority = server_context(tmp_path, days=-1)
    ssl = SslSettings(truststore_location=str(authority))
    with serving(b"", context) as port:
        problem = refusal(port, SecuritySettings(protocol="SSL", ssl=ssl))
        assert isinstance(problem, AccessDeniedError)
        assert "certificate has expired" in str(problem)


def test_nobody_is_there() -> None:
    """Which is something else than a refusal."""
    problem = refusal(9, PLAINTEXT)
    assert not isinstance(problem, AccessDeniedError)
    assert re.search(
        r"no broker answers \(127\.0\.0\.1:9: Connection refused\); check A\.bootstrap\.servers", str(problem)
    )


def test_no_client_gives_a_proof_to_a_broker_that_asks_for_few_iterations() -> None:
    """Librdkafka would: it is not let at a broker that raw connections do not believe."""
    messages: list[bytes] = []

    def server_first(asked: Asked) -> bytes:
        messages.append(asked.body)
        nonce = asked.body.rpartition(b"r=")[2].rstrip(b"\0")
        return b"r=" + nonce + b"x,s=c2l4dGVlbiBieXRlcyBvaw==,i=1"

    with serving(sasl_answers(server_first)) as port:
        with pytest.raises(AccessDeniedError, match="1 iterations, fewer than 4096"):
            client_config(cluster(port, BY_SCRAM), "test")
        assert "1 iterations" in str(refusal(port, BY_SCRAM))
    assert messages
    assert all(b"n,,n=alice" in message for message in messages)
