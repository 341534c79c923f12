"""Getting into real brokers over raw connections, and being told clearly why not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.config.load import load_settings
from mirror_ray.config.providers import STANDARD_PROVIDERS
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings, SaslSettings, SecuritySettings, SslSettings
from mirror_ray.config.strimzi_security import SECRETS_DIRECTORY
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.cluster import CONTROL, ClusterConnections
from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.lab.devcluster import DevCluster, DevListener
from mirror_ray.lab.devcluster.certificates import CertificateAuthority, StoreType
from mirror_ray.model.errors import ClusterUnreachableError
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import TopicMaker
from tests.support.kafka import produce, sample_messages
from tests.support.reading import assert_equal_copies
from tests.support.replicated import Replicated
from tests.support.token_endpoint import token_endpoint

STORE_TYPES: tuple[StoreType, ...] = ("PEM", "JKS", "PKCS12")
_SESSION_S = 2.0


@pytest.fixture
def scram_cluster(secured: DevCluster) -> DevListener:
    """SASL_SSL with SCRAM-SHA-512."""
    return secured.listener("SCRAM")


@pytest.fixture
def tls_cluster(secured: DevCluster) -> DevListener:
    """SSL with client certificates."""
    return secured.listener("TLS")


@pytest.fixture
def plain_cluster(secured: DevCluster) -> DevListener:
    """SASL_PLAINTEXT with PLAIN, and sessions of two seconds (KIP-368)."""
    return secured.listener("SESSIONS")


@pytest.fixture
def oauth_cluster(secured: DevCluster) -> DevListener:
    """SASL_PLAINTEXT with OAUTHBEARER and unsecured tokens."""
    return secured.listener("OAUTH")


def _ssl(cluster: DevListener, store_type: StoreType = "PEM") -> SslSettings:
    properties = cluster.client_properties(store_type=store_type)
    keys = ("truststore.location", "truststore.password", "keystore.location", "keystore.password", "key.password")
    found: dict[str, Any] = {key.replace(".", "_"): properties.get(f"ssl.{key}") for key in keys}
    return SslSettings(**found)


def _scram(password: str) -> SaslSettings:
    return SaslSettings(mechanism="SCRAM-SHA-512", username="admin", password=Secret(password))


def _settings(cluster: DevListener, security: SecuritySettings) -> ClusterSettings:
    return ClusterSettings(alias="A", bootstrap_servers=(cluster.bootstrap,), security=security)


async def _cluster_id(settings: ClusterSettings) -> str:
    """By the bootstrap connection, and by one to the broker that it names."""
    cluster = ClusterConnections(settings, "test")
    try:
        metadata = await cluster.refresh()
        for broker in metadata.brokers:
            await cluster.connect(broker, CONTROL)
        return metadata.cluster_id
    finally:
        await cluster.close()


def _cluster_id_by_librdkafka(settings: ClusterSettings) -> str:
    config = ClientSecurity.build("A", settings.security).as_librdkafka()
    admin = AdminClient({"bootstrap.servers": ",".join(settings.bootstrap_servers), **config})
    return str(admin.describe_cluster(request_timeout=15).result().cluster_id)


@pytest.mark.parametrize("store_type", STORE_TYPES)
async def test_scram_over_tls_lets_us_in_with_any_store(scram_cluster: DevListener, store_type: StoreType) -> None:
    """SCRAM-SHA-512 over TLS works from PEM, JKS and PKCS12 truststores, raw and by librdkafka."""
    security = SecuritySettings(protocol="SASL_SSL", ssl=_ssl(scram_cluster, store_type), sasl=_scram("admin-secret"))
    settings = _settings(scram_cluster, security)
    assert await _cluster_id(settings) == scram_cluster.cluster_id
    assert await asyncio.to_thread(_cluster_id_by_librdkafka, settings) == scram_cluster.cluster_id


async def test_the_secrets_of_a_resource_of_strimzi_let_us_in(
    scram_cluster: DevListener, tls_cluster: DevListener, tmp_path: Path
) -> None:
    """Mounted as in a pod: a password, certificates of authorities and of a client; raw and by librdkafka."""
    user = {"secretName": "user", "password": "password"}
    client = {"secretName": "user", "certificate": "user.crt", "key": "user.key"}
    for cluster, authentication in (
        (scram_cluster, {"type": "scram-sha-512", "username": "admin", "passwordSecret": user}),
        (tls_cluster, {"type": "tls", "certificateAndKey": client}),
    ):
        settings = _of_resource(cluster, authentication, tmp_path)
        assert await _cluster_id(settings) == cluster.cluster_id
        assert await asyncio.to_thread(_cluster_id_by_librdkafka, settings) == cluster.cluster_id


def _of_resource(cluster: DevListener, authentication: dict[str, Any], directory: Path) -> ClusterSettings:
    stores = cluster.client_properties(store_type="PEM")
    keys = {"ca/ca.crt": Path(stores["ssl.truststore.location"]).read_text(encoding="utf-8")}
    keys["user/password"] = "admin-secret"
    if "ssl.keystore.location" in stores:
        both = Path(stores["ssl.keystore.location"]).read_text(encoding="utf-8")
        keys |= dict.fromkeys(("user/user.crt", "user/user.key"), both)
    for key, text in keys.items():
        (directory / key).parent.mkdir(exist_ok=True)
        (directory / key).write_text(text, encoding="utf-8")
    source = {
        "alias": "A",
        "bootstrapServers": cluster.bootstrap,
        "tls": {"trustedCertificates": [{"secretName": "ca", "pattern": "*.crt"}]},
        "authentication": authentication,
    }
    spec = {"target": {"alias": "B", "bootstrapServers": cluster.bootstrap}, "mirrors": [{"source": source}]}
    path = directory / "mirror.yaml"
    resource = {"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaMirrorMaker2", "spec": spec}
    path.write_text(yaml.safe_dump(resource), encoding="utf-8")
    return load_settings(path, {SECRETS_DIRECTORY: str(directory)}).settings.clusters["A"]


async def test_wrong_password_is_told_without_it(scram_cluster: DevListener) -> None:
    """A refusal names the cluster, the mechanism and the user, and never the password."""
    security = SecuritySettings(protocol="SASL_SSL", ssl=_ssl(scram_cluster), sasl=_scram("not-this-one"))
    with pytest.raises(ClusterUnreachableError) as refused:
        await _cluster_id(_settings(scram_cluster, security))
    assert "cluster A refuses SCRAM-SHA-512 for user admin" in str(refused.value)
    assert "not-this-one" not in str(refused.value) + repr(refused.value)


async def test_unknown_mechanism_names_what_the_broker_offers(scram_cluster: DevListener) -> None:
    """A mechanism that is not enabled there is told together with the ones that are."""
    sasl = SaslSettings(mechanism="PLAIN", username="admin", password=Secret("admin-secret"))
    security = SecuritySettings(protocol="SASL_SSL", ssl=_ssl(scram_cluster), sasl=sasl)
    with pytest.raises(ClusterUnreachableError, match=r"PLAIN .* it offers SCRAM-SHA-512; check A\.sasl\.mechanism"):
        await _cluster_id(_settings(scram_cluster, security))


async def test_foreign_authority_is_not_trusted(scram_cluster: DevListener, tmp_path: Path) -> None:
    """A broker whose certificate another authority signed is not spoken to."""
    foreign = SslSettings(truststore_location=str(CertificateAuthority(tmp_path / "tls").truststore("PEM")))
    security = SecuritySettings(protocol="SASL_SSL", ssl=foreign, sasl=_scram("admin-secret"))
    with pytest.raises(ClusterUnreachableError, match=r"certificate is not accepted.*A\.ssl\.truststore"):
        await _cluster_id(_settings(scram_cluster, security))


async def test_plaintext_to_a_tls_port_is_an_error_in_time(scram_cluster: DevListener) -> None:
    """A client without TLS at a TLS listener fails with a reason instead of waiting."""
    with pytest.raises(ClusterUnreachableError, match=r"check A\.bootstrap\.servers, the network and security"):
        await _cluster_id(_settings(scram_cluster, SecuritySettings()))


async def test_tls_to_a_plaintext_port_is_told(plain_cluster: DevListener) -> None:
    """A client with TLS at a listener without it is told to look at the protocol."""
    with pytest.raises(ClusterUnreachableError, match=r"no broker answers|check A\.security\.protocol"):
        await _cluster_id(_settings(plain_cluster, SecuritySettings(protocol="SSL")))


@pytest.mark.parametrize("store_type", STORE_TYPES)
async def test_client_certificate_lets_us_in_from_any_store(tls_cluster: DevListener, store_type: StoreType) -> None:
    """Mutual TLS works from PEM, JKS and PKCS12 key stores, raw and by librdkafka."""
    settings = _settings(tls_cluster, SecuritySettings(protocol="SSL", ssl=_ssl(tls_cluster, store_type)))
    assert await _cluster_id(settings) == tls_cluster.cluster_id
    assert await asyncio.to_thread(_cluster_id_by_librdkafka, settings) == tls_cluster.cluster_id


async def test_missing_client_certificate_is_told(tls_cluster: DevListener) -> None:
    """A broker that wants a certificate and gets none refuses, and the key store is named."""
    trust_only = SslSettings(truststore_location=_ssl(tls_cluster).truststore_location)
    with pytest.raises(ClusterUnreachableError, match=r"does not accept our certificate.*A\.ssl\.keystore"):
        await _cluster_id(_settings(tls_cluster, SecuritySettings(protocol="SSL", ssl=trust_only)))


async def test_sessions_are_renewed_on_the_same_connection(plain_cluster: DevListener) -> None:
    """Requests keep being answered past the session's end, on one connection (KIP-368), pipelined ones included."""
    sasl = SaslSettings(mechanism="PLAIN", username="admin", password=Secret("admin-secret"))
    cluster = ClusterConnections(
        _settings(plain_cluster, SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl)), "test"
    )
    await cluster.refresh()
    connection = await cluster.connect(1, "data")
    metadata_of_nothing = b"\1\0\0\0\0"
    answers = 0
    until = asyncio.get_running_loop().time() + 2.5 * _SESSION_S
    while asyncio.get_running_loop().time() < until:
        sent = [connection.send(3, 9, True, [metadata_of_nothing]) for _ in range(20)]
        answers += len(await asyncio.gather(*sent))
        await asyncio.sleep(0.005)
    assert answers > 1000
    assert not connection.closed
    await cluster.close()


async def test_copying_goes_on_while_sessions_are_renewed(plain_cluster: DevListener, make_topic: TopicMaker) -> None:
    """Requests that a re-authentication keeps waiting are neither lost nor doubled, and wait for a moment only."""
    topic, config, copied = make_topic(plain_cluster), plain_cluster.confluent_config(), 0
    async with Replicated(plain_cluster, plain_cluster) as flow:
        remote, engine = flow.remote(topic), await flow.engine()
        engine.assign(await flow.assignments([topic]))
        until = asyncio.get_running_loop().time() + 2.5 * _SESSION_S
        while asyncio.get_running_loop().time() < until:
            await asyncio.to_thread(produce, config, topic, sample_messages(500, first=copied))
            copied += 500
            await engine.reached({TopicPartition(topic, 0): copied}, 5)
        await engine.stop()
        assert engine.events == []
    assert_equal_copies(config, config, topic, remote)


async def test_unsecured_tokens_let_us_in(oauth_cluster: DevListener) -> None:
    """OAUTHBEARER with Kafka's development tokens works, raw and by librdkafka."""
    sasl = SaslSettings(mechanism="OAUTHBEARER", unsecured_subject="admin")
    settings = _settings(oauth_cluster, SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl))
    assert await _cluster_id(settings) == oauth_cluster.cluster_id
    assert await asyncio.to_thread(_cluster_id_by_librdkafka, settings) == oauth_cluster.cluster_id


async def test_a_client_secret_is_replaced_while_records_flow(
    oauth_cluster: DevListener, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """The next token is asked for by the new one, raw and by librdkafka; no connection ends with the old one."""
    (tmp_path / "secret").write_text("first-secret")
    topic, config, copied = make_topic(oauth_cluster), oauth_cluster.confluent_config(), 0
    with token_endpoint("admin", 3, "first-secret") as endpoint:
        secret = Secret(f"${{dir:{tmp_path}:secret}}", STANDARD_PROVIDERS)
        sasl = SaslSettings(
            mechanism="OAUTHBEARER", token_endpoint_url=endpoint.url, client_id="app", client_secret=secret
        )
        security = SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl)
        admin = ClusterAdmin(_settings(oauth_cluster, security), "test")
        async with Replicated(oauth_cluster, oauth_cluster, security=security) as flow:
            remote, engine = flow.remote(topic), await flow.engine()
            engine.assign(await flow.assignments([topic]))
            await asyncio.to_thread(admin.ping)
            endpoint.secret = "second-secret"
            (tmp_path / "secret").write_text("second-secret")
            until = asyncio.get_running_loop().time() + 5
            while asyncio.get_running_loop().time() < until:
                await asyncio.to_thread(produce, config, topic, sample_messages(200, first=copied))
                copied += 200
                await engine.reached({TopicPartition(topic, 0): copied}, 10)
                await asyncio.to_thread(admin.ping)
            await engine.stop()
            assert engine.events == []
        assert (endpoint.refused, set(endpoint.given)) == (0, {"first-secret", "second-secret"})
    assert_equal_copies(config, config, topic, remote)


async def test_draining_over_tls_never_stands_still(tls_cluster: DevListener) -> None:
    """Whatever went before it: small requests and ones that fill the socket, many at once, answers."""
    cluster = ClusterConnections(
        _settings(tls_cluster, SecuritySettings(protocol="SSL", ssl=_ssl(tls_cluster))), "test"
    )
    metadata: Any = load_entity_module("metadata", 12, EntityType.request)
    try:
        connection = await cluster.connect(next(iter((await cluster.refresh([])).brokers)), "test")
        for count, names in ((1, 1), (2, 1), (5, 1), (20, 1000)):
            topics = tuple(metadata.MetadataRequestTopic(topic_id=None, name=f"{n}-{'x' * 200}") for n in range(names))
            request = metadata.MetadataRequest(
                topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
            )
            for _ in range(3):
                answers = []
                for _ in range(count):
                    async with asyncio.timeout(20):
                        await connection.drain()
                    answers.append(asyncio.create_task(connection.request(request)))
                    await asyncio.sleep(0)
                async with asyncio.timeout(20):
                    await asyncio.gather(*answers)
                    await connection.drain()
    finally:
        await cluster.close()
