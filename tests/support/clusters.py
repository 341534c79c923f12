"""The types of the fixtures in tests/conftest.py, and how to get into a cluster, behind it and onto its disks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.config.settings import ClusterSettings, SaslSettings, SecuritySettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.lab.devcluster import Broker, DevCluster, DevListener
from mirror_ray.records.batch import RecordBatch, iter_batches
from tests.support.kafka import create_topic, exists

#: A cluster with one listener, or one listener of a cluster: clients need not know which.
KafkaCluster = DevCluster | DevListener


class Reachable(Protocol):
    """A cluster, of whatever version, as clients see it."""

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers``."""

    def confluent_config(self) -> Mapping[str, str | int | float | bool]:
        """What a confluent-kafka client of it needs."""


class WithFiles(Reachable, Protocol):
    """One whose brokers' files can be read."""

    @property
    def brokers(self) -> Sequence[Broker]:
        """By node id."""


class Clusters(NamedTuple):
    """Two clusters of one broker each, named A and B, shared by all tests of a session: never stop or kill these."""

    a: DevCluster
    b: DevCluster


class KafkaClusters(NamedTuple):
    """Two clusters, or listeners of clusters, as `Clusters`."""

    a: KafkaCluster
    b: KafkaCluster


class TopicMaker(Protocol):
    """Creates a topic of a new name and returns the name."""

    def __call__(
        self, cluster: KafkaCluster, partitions: int = 1, topic_config: Mapping[str, str] | None = None
    ) -> str:
        """Topic config as for kafka-topics; the topic has leaders when this returns."""


def ensure_topic(cluster: KafkaCluster, topic: str, cleanup_policy: str = "compact") -> None:
    """Create an internal topic where it is missing, as a coordinator does."""
    if not exists(cluster.confluent_config(), topic):
        create_topic(
            cluster.confluent_config(),
            topic,
            replication_factor=min(3, len(cluster.brokers)),
            topic_config={"cleanup.policy": cleanup_policy},
        )


def cluster_settings(
    alias: str, cluster: KafkaCluster, user: str | None = None, security: SecuritySettings | None = None
) -> ClusterSettings:
    """How to get into a cluster; with SASL PLAIN where it asks for that, as ``user`` or as its administrator."""
    if security is None and cluster.security.mechanism == "PLAIN":
        name = user or "admin"
        sasl = SaslSettings.model_validate(
            {"mechanism": "PLAIN", "username": name, "password": cluster.security.users[name]}
        )
        security = SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl)
    servers = tuple(cluster.bootstrap.split(","))
    return ClusterSettings(alias=alias, bootstrap_servers=servers, security=security or SecuritySettings())


async def set_quota(cluster: KafkaCluster, kind: str, value: float | None) -> None:
    """Set, or remove, a quota for every client without a user (KIP-546)."""
    connected = ClusterConnections(cluster_settings("quota", cluster), "quota")
    module: Any = load_entity_module("alter_client_quotas", 1, EntityType.request)
    operation = module.OpData(key=kind, value=value or 0.0, remove=value is None)
    who = module.EntityData(entity_type="client-id", entity_name=None)
    try:
        metadata = await connected.refresh([])
        broker = await connected.connect(next(iter(metadata.brokers)), "quota")
        entry = module.EntryData(entity=(who,), ops=(operation,))
        response = await broker.request(module.AlterClientQuotasRequest(entries=(entry,), validate_only=False))
        assert all(int(answer.error_code) == 0 for answer in response.entries), response
    finally:
        await connected.close()


def logged_batches(broker: Broker, topic: str, partition: int = 0) -> list[RecordBatch]:
    """The batches of a partition as they lie on the broker's disk."""
    folder = broker.directory / "data" / f"{topic}-{partition}"
    while True:
        # A cleaner that is at work renames and removes segments: what was listed together is read together, or anew.
        with suppress(FileNotFoundError):
            segments = [file.read_bytes() for file in sorted(folder.glob("*.log"))]
            return [batch for segment in segments if segment for batch in iter_batches(memoryview(segment))]
