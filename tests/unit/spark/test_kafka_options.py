"""How Spark's connector gets into a cluster: the same settings, in the Java client's keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings, SaslSettings, SecuritySettings, SslSettings
from mirror_ray.lab.devcluster.certificates import STORE_PASSWORD, CertificateAuthority, StoreType
from mirror_ray.model.errors import ConfigError
from mirror_ray.spark.kafka import kafka_options


def options(security: SecuritySettings) -> dict[str, str]:
    """Options for a cluster of two addresses with that security."""
    return kafka_options(ClusterSettings(alias="A", bootstrap_servers=("a:1", "b:2"), security=security))


def test_a_plain_cluster_needs_its_addresses_alone() -> None:
    """No key of TLS or SASL is set."""
    found = options(SecuritySettings())
    assert found["kafka.bootstrap.servers"] == "a:1,b:2"
    # By default a task waits half a second at a log's end for records that it was not to read.
    assert int(found["kafka.fetch.max.wait.ms"]) <= 100
    assert not [key for key in found if ".ssl." in key or ".sasl." in key]


@pytest.mark.parametrize("store", ["PEM", "JKS", "PKCS12"])
def test_every_store_goes_along_as_text(tmp_path: Path, store: StoreType) -> None:
    """No executor needs a file, whatever the kind of store."""
    authority = CertificateAuthority(tmp_path)
    password = None if store == "PEM" else Secret(STORE_PASSWORD)
    ssl = SslSettings(
        truststore_location=str(authority.truststore(store)),
        truststore_password=password,
        keystore_location=str(authority.keystore("alice", store)),
        keystore_password=password,
        endpoint_identification_algorithm="",
    )
    found = options(SecuritySettings(protocol="SSL", ssl=ssl))
    assert found["kafka.ssl.truststore.type"] == found["kafka.ssl.keystore.type"] == "PEM"
    assert found["kafka.ssl.truststore.certificates"].startswith("-----BEGIN CERTIFICATE-----")
    assert found["kafka.ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    assert not found["kafka.ssl.endpoint.identification.algorithm"]
    assert not [key for key in found if key.endswith("location")]


def test_a_password_is_quoted() -> None:
    """Quotes and backslashes in a password do not end the JAAS line."""
    sasl = SaslSettings(mechanism="SCRAM-SHA-512", username="alice", password=Secret('a"b\\c;'))
    found = options(SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl))
    assert found["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert found["kafka.sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="a\\"b\\\\c;";'
    )


def test_tokens_come_from_the_endpoint() -> None:
    """OAUTHBEARER with an endpoint takes Kafka's own callback, which is what asks it."""
    sasl = SaslSettings(
        mechanism="OAUTHBEARER",
        token_endpoint_url="https://tokens/",
        client_id="me",
        client_secret=Secret("s"),
        scope="kafka",
    )
    found = options(SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl))
    assert found["kafka.sasl.oauthbearer.token.endpoint.url"] == "https://tokens/"
    assert found["kafka.sasl.login.callback.handler.class"].endswith("secured.OAuthBearerLoginCallbackHandler")
    assert 'clientId="me" clientSecret="s" scope="kafka"' in found["kafka.sasl.jaas.config"]


def test_what_is_missing_is_named() -> None:
    """As everywhere else, with the key."""
    ssl = SslSettings(truststore_location="/nowhere.jks")
    with pytest.raises(ConfigError, match=r"A\.ssl\.truststore\.location: /nowhere\.jks"):
        options(SecuritySettings(protocol="SSL", ssl=ssl))
