"""Settings that need no file: what they refer to is in them, and still is not shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from mirror_ray.config.providers import ProviderSpec
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings, SaslSettings, SecuritySettings, SslSettings
from mirror_ray.kafka.portable_settings import portable
from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.lab.devcluster.certificates import STORE_PASSWORD, CertificateAuthority, StoreType
from mirror_ray.model.errors import ConfigError


def cluster(security: SecuritySettings) -> ClusterSettings:
    """One with that security."""
    return ClusterSettings(alias="A", bootstrap_servers=("a:1",), security=security)


@pytest.mark.parametrize("store", ["PEM", "JKS", "PKCS12"])
def test_stores_go_along_as_text(tmp_path: Path, store: StoreType) -> None:
    """The same authorities, chain and key, when the files are gone."""
    authority = CertificateAuthority(tmp_path)
    password = None if store == "PEM" else Secret(STORE_PASSWORD)
    files = authority.truststore(store), authority.keystore("alice", store)
    ssl = SslSettings(
        truststore_location=str(files[0]),
        truststore_password=password,
        keystore_location=str(files[1]),
        keystore_password=password,
        endpoint_identification_algorithm="",
    )
    given = cluster(SecuritySettings(protocol="SSL", ssl=ssl))
    before = ClientSecurity.build("A", given.security)
    carried = pickle.loads(pickle.dumps(portable(given)))  # noqa: S301 - of our own
    for file in files:
        file.unlink()
    after = ClientSecurity.build("A", carried.security)
    assert after.material == before.material
    assert after.material.key is not None
    assert after.material.key not in repr(carried)
    assert after.ssl_context is not None
    assert not after.ssl_context.check_hostname


def test_secrets_go_along_as_what_they_are(tmp_path: Path) -> None:
    """A reference to a file leads to nothing on another machine."""
    file = tmp_path / "secrets.properties"
    file.write_text("password = for-your-eyes\n")
    secret = Secret(f"${{file:{file}:password}}", {"file": ProviderSpec(kind="file")})
    sasl = SaslSettings(mechanism="PLAIN", username="alice", password=secret)
    carried = portable(cluster(SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl)))
    file.unlink()
    assert carried.security.sasl is not None
    assert carried.security.sasl.password is not None
    assert carried.security.sasl.password.reveal() == "for-your-eyes"
    assert "for-your-eyes" not in repr(carried)
    with pytest.raises(ConfigError, match=r"A.sasl.jaas.config: .*"):
        portable(cluster(SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl)))


def test_what_needs_nothing_is_left_as_it_is() -> None:
    """Without TLS and SASL."""
    given = cluster(SecuritySettings())
    assert portable(given) == given
