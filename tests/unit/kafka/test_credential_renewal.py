"""What clients get in with changes while they live."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_ray.config.providers import STANDARD_PROVIDERS
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings, SaslSettings, SecuritySettings, SslSettings
from mirror_ray.kafka.credential_renewal import CredentialRenewal, CurrentSecurity
from mirror_ray.kafka.sasl import ScramMechanism
from mirror_ray.lab.devcluster.certificates import CertificateAuthority


class _Client:
    """As librdkafka's."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def set_sasl_credentials(self, username: str, password: str, /) -> None:
        """Keep them."""
        self.told.append((username, password))


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterSettings:
    """SCRAM over TLS with client certificates; the password in ``pw``, the stores ``ca.pem`` and ``me.pem``."""
    _renew_stores(tmp_path, "first")
    (tmp_path / "pw").write_text("old\n")
    ssl = SslSettings(truststore_location=str(tmp_path / "ca.pem"), keystore_location=str(tmp_path / "me.pem"))
    password = Secret(f"${{dir:{tmp_path}:pw}}", STANDARD_PROVIDERS)
    sasl = SaslSettings(mechanism="SCRAM-SHA-512", username="me", password=password)
    security = SecuritySettings(protocol="SASL_SSL", ssl=ssl, sasl=sasl)
    return ClusterSettings(alias="A", bootstrap_servers=("a:1",), security=security)


def _renew_stores(directory: Path, authority: str) -> None:
    made = CertificateAuthority(directory / authority)
    (directory / "ca.pem").write_bytes(made.truststore("PEM").read_bytes())
    (directory / "me.pem").write_bytes(made.keystore("me", "PEM").read_bytes())


def test_nothing_is_made_anew_where_nothing_has_changed(cluster: ClusterSettings) -> None:
    """A connection costs a look at the files."""
    current, renewal, client = CurrentSecurity(cluster), CredentialRenewal(cluster), _Client()
    assert current.now() is current.now()
    assert renewal.renew(client)
    assert client.told == []


def test_replaced_stores_are_used_for_the_next_connection(cluster: ClusterSettings, tmp_path: Path) -> None:
    """The mechanism stays: it may hold a token that is good for long."""
    current, renewal, client = CurrentSecurity(cluster), CredentialRenewal(cluster), _Client()
    before = current.now()
    _renew_stores(tmp_path, "second")
    after = current.now()
    assert after.material != before.material
    assert after.ssl_context is not before.ssl_context
    assert after.mechanism is before.mechanism
    assert current.now() is after
    assert not renewal.renew(client)
    assert CredentialRenewal(cluster).renew(client)


def test_half_written_stores_change_nothing_yet(cluster: ClusterSettings, tmp_path: Path) -> None:
    """What was read before is used on, and what comes after it is looked at again."""
    current, renewal, client = CurrentSecurity(cluster), CredentialRenewal(cluster), _Client()
    before = current.now()
    whole = (tmp_path / "me.pem").read_text()
    for content in (whole[: len(whole) // 2], ""):
        (tmp_path / "me.pem").write_text(content)
        assert current.now() is before
        assert renewal.renew(client)
    (tmp_path / "me.pem").unlink()
    assert current.now() is before
    assert renewal.renew(client)
    _renew_stores(tmp_path, "second")
    assert current.now().material != before.material
    assert [renewal.renew(client) for _ in range(2)] == [False, False]


async def test_a_changed_password_is_shown_next(cluster: ClusterSettings, tmp_path: Path) -> None:
    """By raw connections at each exchange, by librdkafka's clients once they are told, which is done once."""
    current, renewal, client = CurrentSecurity(cluster), CredentialRenewal(cluster), _Client()
    (tmp_path / "pw").write_text("new\n")
    mechanism = current.now().mechanism
    assert isinstance(mechanism, ScramMechanism)
    assert mechanism.password.reveal() == "new"
    assert [renewal.renew(client) for _ in range(2)] == [True, True]
    assert client.told == [("me", "new")]
    (tmp_path / "pw").unlink()
    assert renewal.renew(client)
    assert len(client.told) == 1
