"""TLS material out of every kind of store, and errors that name key and file."""

from __future__ import annotations

import ssl
import subprocess
import time
from pathlib import Path

import pytest

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import SaslSettings, SecuritySettings, SslSettings
from mirror_ray.kafka.oauth import OAuthBearer, UnsecuredTokens
from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.kafka.tls_stores import load_tls_material
from mirror_ray.lab.devcluster.certificates import STORE_PASSWORD, CertificateAuthority, StoreType
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError

STORES: tuple[StoreType, ...] = ("PEM", "JKS", "PKCS12")
PASSWORD = Secret(STORE_PASSWORD)
OIDC = SaslSettings(
    mechanism="OAUTHBEARER",
    token_endpoint_url="https://127.0.0.1:1/token",
    client_id="app",
    client_secret=Secret("hush-hush"),
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """An authority whose stores are made on demand."""
    return CertificateAuthority(tmp_path_factory.mktemp("tls"))


def _keystore(authority: CertificateAuthority, store: StoreType, password: Secret | None = PASSWORD) -> SslSettings:
    return SslSettings(keystore_location=str(authority.keystore("alice", store)), keystore_password=password)


@pytest.mark.parametrize("store", STORES)
def test_every_store_yields_the_same_material(authority: CertificateAuthority, store: StoreType) -> None:
    """Authority, chain and key from PEM, JKS and PKCS12 make a context and librdkafka's keys."""
    settings = _keystore(authority, store, None if store == "PEM" else PASSWORD).model_copy(
        update={"truststore_location": str(authority.truststore(store)), "truststore_password": PASSWORD}
    )
    security = ClientSecurity.build("A", SecuritySettings(protocol="SSL", ssl=settings))
    assert security.ssl_context is not None
    assert len(security.ssl_context.get_ca_certs()) == 1
    config = security.as_librdkafka()
    assert config["ssl.key.pem"].startswith("-----BEGIN PRIVATE KEY-----")
    assert config["ssl.certificate.pem"].startswith("-----BEGIN CERTIFICATE-----")
    assert config["ssl.endpoint.identification.algorithm"] == "https"
    assert "PRIVATE KEY" not in repr(security)


@pytest.mark.parametrize("store", ["JKS", "PKCS12"])
def test_wrong_store_password_names_key_and_file(authority: CertificateAuthority, store: StoreType) -> None:
    """A wrong password is told with the key and the file, and without the password."""
    with pytest.raises(ConfigError, match=r"A\.ssl\.keystore\.location: .*alice") as refused:
        load_tls_material("A", _keystore(authority, store, Secret("not-it")))
    assert "not-it" not in str(refused.value)


def test_encrypted_pem_key_needs_its_password(authority: CertificateAuthority, tmp_path: Path) -> None:
    """A PEM key store with an encrypted key opens with ssl.key.password, and with no other."""
    plain = authority.keystore("alice", "PEM")
    encrypt = ["openssl", "pkcs8", "-topk8", "-in", str(plain), "-passout", "pass:key-secret"]
    key = subprocess.run(encrypt, check=True, capture_output=True, text=True).stdout
    path = tmp_path / "alice.pem"
    path.write_text(key + str(load_tls_material("A", _keystore(authority, "PEM", None)).chain))
    settings = SslSettings(keystore_location=str(path), key_password=Secret("key-secret"))
    assert "ENCRYPTED" not in str(load_tls_material("A", settings).key)
    for password in (None, Secret("other")):
        with pytest.raises(ConfigError, match=r"ssl\.key\.password"):
            load_tls_material("A", settings.model_copy(update={"key_password": password}))


def test_missing_file_is_named() -> None:
    """A store that is not there is told by key and path."""
    with pytest.raises(ConfigError, match=r"A\.ssl\.truststore\.location: /no/such can't be read: No such file"):
        load_tls_material("A", SslSettings(truststore_location="/no/such"))


@pytest.mark.parametrize("store", STORES)
def test_key_store_without_a_key_is_refused(authority: CertificateAuthority, store: StoreType) -> None:
    """A trust store in the key store's place has no key, and that is said."""
    settings = SslSettings(keystore_location=str(authority.truststore(store)), keystore_password=PASSWORD)
    with pytest.raises(ConfigError, match="no private key"):
        load_tls_material("A", settings)


def test_other_files_are_no_stores(tmp_path: Path) -> None:
    """A file that is neither PEM nor JKS nor PKCS12 is refused by name."""
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(ConfigError, match=r"notes\.txt is neither PEM nor JKS nor PKCS12"):
        load_tls_material("A", SslSettings(truststore_location=str(path)))


_CUT = "-----BEGIN CERTIFICATE-----\nMIIB\n"
_END = "-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"{_CUT}{_END}{_END}", "holds a certificate that is cut or broken"),
        (f"{_CUT}\u00e4{_END}", "holds a certificate that is cut or broken"),
        (f"{_CUT}{_END}", "its certificates can't be read"),
        ("x" * ((16 << 20) + 1), "has more than 16,777,216 bytes, which no store has"),
    ],
)
def test_broken_stores(tmp_path: Path, content: str, says: str) -> None:
    """Told by key and file, whatever they hold."""
    path = tmp_path / "broken.pem"
    path.write_text(content)
    settings = SecuritySettings(protocol="SSL", ssl=SslSettings(truststore_location=str(path)))
    with pytest.raises(ConfigError, match=says) as refused:
        ClientSecurity.build("A", settings)
    assert str(refused.value).startswith("A.ssl.truststore")


@pytest.mark.parametrize("location", ["/dev/zero", "/tmp", "a\0b"])  # noqa: S108 - a directory that is there
def test_what_is_no_file_is_no_store(location: str) -> None:
    """A device without end, a directory, a name that can't be one."""
    with pytest.raises(ConfigError, match=r"A\.ssl\.truststore\.location: .* can't be read"):
        load_tls_material("A", SslSettings(truststore_location=location))


def test_empty_endpoint_identification_turns_the_host_check_off(authority: CertificateAuthority) -> None:
    """The certificate is still checked, its name is not, on both kinds of connection."""
    settings = SslSettings(
        truststore_certificates=authority.truststore("PEM").read_text(), endpoint_identification_algorithm=""
    )
    security = ClientSecurity.build("A", SecuritySettings(protocol="SSL", ssl=settings))
    assert security.ssl_context is not None
    assert not security.ssl_context.check_hostname
    assert security.ssl_context.verify_mode == ssl.CERT_REQUIRED
    assert security.as_librdkafka()["ssl.endpoint.identification.algorithm"] == "none"


def test_secrets_are_in_no_repr() -> None:
    """Neither a password nor a client secret shows."""
    scram = SaslSettings(mechanism="SCRAM-SHA-256", username="alice", password=Secret("hush-hush"))
    for sasl in (scram, OIDC):
        security = ClientSecurity.build("A", SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl))
        assert "hush-hush" not in repr(security) + repr(security.mechanism)


def test_librdkafka_is_given_tokens_and_no_client_secret() -> None:
    """Ours alone asks the endpoint; where that gives none, no client is made."""
    security = ClientSecurity.build("A", SecuritySettings(protocol="SASL_PLAINTEXT", sasl=OIDC))
    with pytest.raises(ClusterUnreachableError, match=r"no token for app: .* can't be reached"):
        security.as_librdkafka()
    assert isinstance(security.mechanism, OAuthBearer)
    security.mechanism.tokens = UnsecuredTokens(subject="app")
    config = security.as_librdkafka()
    assert "hush-hush" not in str(config)
    for _ in range(2):
        token, expiry = config["oauth_cb"]("")
        assert token.endswith(".")
        assert expiry > time.time()


@pytest.mark.parametrize(
    ("sasl", "problem"),
    [
        (None, "sasl.mechanism"),
        (SaslSettings(mechanism="PLAIN", username="alice"), "PLAIN needs password"),
        (SaslSettings(mechanism="OAUTHBEARER"), "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url"),
    ],
)
def test_incomplete_credentials_are_told(sasl: SaslSettings | None, problem: str) -> None:
    """What is missing is named, with the cluster's alias."""
    with pytest.raises(ConfigError, match=problem):
        ClientSecurity.build("A", SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl))
