"""Credentials and certificates are replaced while records flow: nothing is started again, lost or doubled."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion  # type: ignore[attr-defined]

from mirror_ray.config.providers import STANDARD_PROVIDERS
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings, SaslSettings, SecuritySettings, SslSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.heartbeats import HeartbeatEmitter
from mirror_ray.kafka.state_topic import StateStore
from mirror_ray.lab.devcluster import QUICK_START, DevCluster, DevSecurity
from mirror_ray.lab.devcluster.certificates import CertificateAuthority
from mirror_ray.model.errors import ClusterUnreachableError
from mirror_ray.model.names import FlowName, TopicPartition
from tests.support.clusters import TopicMaker, cluster_settings
from tests.support.engine import Engine
from tests.support.kafka import produce, sample_messages
from tests.support.reading import assert_equal_copies
from tests.support.replicated import Replicated

_USER = "robin"
_OLD, _NEW = "robin-old-7Hq2Zt", "robin-new-3Kd8Xw"
_SESSION_S = 2.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """SCRAM over mutual TLS, with sessions of two seconds (KIP-368)."""
    users = {"broker": "broker-secret", "admin": "admin-secret", _USER: _OLD}
    security = DevSecurity(protocol="SASL_SSL", mechanism="SCRAM-SHA-512", users=users, client_auth=True)
    sessions = {"connections.max.reauth.ms": str(round(_SESSION_S * 1000))}
    with DevCluster("rotated", security=security, server_properties=sessions, jvm_options=QUICK_START) as made:
        yield made


@pytest.fixture
def entry(cluster: DevCluster, tmp_path: Path) -> SecuritySettings:
    """How the user gets in: password and stores in files that a test replaces."""
    (tmp_path / "pw").write_text(_OLD)
    properties = cluster.client_properties(_USER)
    ssl = SslSettings(
        truststore_location=properties["ssl.truststore.location"], keystore_location=properties["ssl.keystore.location"]
    )
    password = Secret(f"${{dir:{tmp_path}:pw}}", STANDARD_PROVIDERS)
    sasl = SaslSettings(mechanism="SCRAM-SHA-512", username=_USER, password=password)
    return SecuritySettings(protocol="SASL_SSL", ssl=ssl, sasl=sasl)


class _Clients:
    """Each kind of client that lives as long as a system does, over librdkafka."""

    def __init__(self, settings: ClusterSettings) -> None:
        name = uuid.uuid4().hex[:8]
        self._admin = ClusterAdmin(settings, "test")
        self._heartbeats = HeartbeatEmitter(settings, [FlowName("A", "B")], UNRECORDED, topic=f"heartbeats-{name}")
        self._store = StateStore(settings, f"state-{name}", f"mirror-ray-{name}", UNRECORDED)
        self._store.open()
        self._writes = 0

    def use(self) -> None:
        """Each once; what is refused or does not come through is an error."""
        self._writes += 1
        self._admin.list_topics()
        self._store.write({"writes": {"n": self._writes}})
        self._heartbeats.emit()

    def close(self) -> None:
        """And the state has every write."""
        assert self._store.open() == {"writes": {"n": self._writes}}
        for client in (self._admin, self._heartbeats, self._store):
            client.close()


class _Load:
    """Records into a topic, and a copy that follows."""

    def __init__(self, cluster: DevCluster, engine: Engine, topic: str, clients: _Clients) -> None:
        self._cluster, self._engine, self._topic, self._clients = cluster, engine, topic, clients
        self._produced = 0

    async def go_on(self, for_s: float = 0.0) -> None:
        """Write and copy, at least once."""
        until = time.monotonic() + for_s
        while True:
            messages = sample_messages(200, first=self._produced)
            await asyncio.to_thread(produce, self._cluster.confluent_config(), self._topic, messages)
            self._produced += 200
            await asyncio.to_thread(self._clients.use)
            await self._engine.reached({TopicPartition(self._topic, 0): self._produced}, 20)
            if time.monotonic() >= until:
                return


async def _old_password_is_refused(cluster: DevCluster, entry: SecuritySettings) -> None:
    assert entry.sasl is not None
    old = entry.model_copy(update={"sasl": entry.sasl.model_copy(update={"password": Secret(_OLD)})})
    raw = ClusterConnections(cluster_settings("A", cluster, security=old), "test")
    with pytest.raises(ClusterUnreachableError, match="refuses SCRAM-SHA-512 for user robin"):
        await raw.refresh([])
    await raw.close()


def _set_password(cluster: DevCluster, password: str) -> None:
    made = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(_USER, made, password.encode())
    admin = AdminClient(cluster.confluent_config())
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(15)


def _replace_certificates(cluster: DevCluster, directory: Path) -> None:
    """Another authority, and certificates of its own for everybody."""
    made = CertificateAuthority(directory / "another")
    truststore = Path(cluster.client_properties(_USER)["ssl.truststore.location"])
    for user in ("broker", "admin", _USER):
        (truststore.parent / f"{user}.pem").write_bytes(made.keystore(user, "PEM").read_bytes())
    truststore.write_bytes(made.truststore("PEM").read_bytes())


async def test_a_scram_password_and_all_certificates_are_replaced_under_load(
    cluster: DevCluster, entry: SecuritySettings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """A new password takes over as sessions end, new stores as the broker is started again; the old ones are void."""
    topic, config = make_topic(cluster), cluster.confluent_config()
    clients = await asyncio.to_thread(_Clients, cluster_settings("A", cluster, security=entry))
    async with Replicated(cluster, cluster, security=entry) as flow:
        remote, engine = flow.remote(topic), await flow.engine()
        engine.assign(await flow.assignments([topic]))
        load = _Load(cluster, engine, topic, clients)
        await load.go_on()
        await asyncio.to_thread(_set_password, cluster, _NEW)
        (tmp_path / "pw").write_text(_NEW)
        await load.go_on(2 * _SESSION_S)
        await _old_password_is_refused(cluster, entry)
        assert engine.events == []
        _replace_certificates(cluster, tmp_path)
        await asyncio.to_thread(cluster.stop)
        await asyncio.to_thread(cluster.start)
        await load.go_on()
        await engine.stop()
        assert engine.stops == []
    await asyncio.to_thread(clients.close)
    assert_equal_copies(config, config, topic, remote)
