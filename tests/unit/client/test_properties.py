"""The properties that MirrorClient takes, as MM2's MirrorClientConfig does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror_ray.client import MirrorClient
from mirror_ray.config.one_cluster import client_settings
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.policy import DefaultReplicationPolicy, IdentityReplicationPolicy

SERVERS = {"bootstrap.servers": "host1:9092, host2:9092"}


def problems(properties: Mapping[str, object]) -> tuple[str, ...]:
    """The sentences on what is wrong."""
    with pytest.raises(ConfigError) as refused:
        client_settings(properties, {})
    return refused.value.problems


def test_servers_alone_are_enough() -> None:
    """MM2's default policy names the topics."""
    client = MirrorClient(SERVERS)
    assert client.cluster.bootstrap_servers == ("host1:9092", "host2:9092")
    assert type(client.replication_policy()) is DefaultReplicationPolicy
    client.close()


def test_security_comes_from_kafkas_keys() -> None:
    """As in a file of MM2, also where they stand behind a client's prefix."""
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";'
    cluster, _ = client_settings(
        SERVERS
        | {
            "security.protocol": "sasl_ssl",
            "admin.sasl.mechanism": "SCRAM-SHA-512",
            "consumer.sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": jaas,
            "ssl.truststore.location": "/etc/trust.pem",
            "consumer.client.rack": "r1",
            "request.timeout.ms": 5000,
            "target.cluster.alias": "backup",
        },
        {},
    )
    assert cluster.alias == "backup"
    assert cluster.security.protocol == "SASL_SSL"
    assert cluster.security.sasl is not None
    assert (cluster.security.sasl.mechanism, cluster.security.sasl.username) == ("SCRAM-SHA-512", "u")
    assert cluster.security.ssl.truststore_location == "/etc/trust.pem"
    assert (cluster.client_rack, cluster.request_timeout_ms) == ("r1", 5000)


def test_config_providers_are_resolved() -> None:
    """A secret may stay where it is."""
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    values = {"config.providers": "env", "config.providers.env.class": provider, "bootstrap.servers": "${env:HOST}:9"}
    assert client_settings(values, {"HOST": "h"})[0].bootstrap_servers == ("h:9",)


def test_policy_comes_from_its_keys() -> None:
    """Separators for the default policy, the source's alias for the identity policy."""
    separators = {"replication.policy.separator": "_", "replication.policy.internal.topic.separator.enabled": False}
    _, policy = client_settings(SERVERS | separators, {})
    assert policy.format_remote_topic("A", "t") == "A_t"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"
    identity = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
    _, policy = client_settings(SERVERS | identity | {"source.cluster.alias": "A"}, {})
    assert isinstance(policy, IdentityReplicationPolicy)
    assert policy.topic_source("t") == "A"
    _, policy = client_settings(SERVERS | identity, {})
    assert policy.topic_source("t") is None


def test_what_is_no_business_of_a_client_is_left_alone() -> None:
    """Whoever passes all that he has for Kafka's clients is not refused, as by MM2."""
    cluster, _ = client_settings(SERVERS | {"group.id": "g", "acks": "all", "tasks.max": 4, "client.id": "c"}, {})
    assert cluster.bootstrap_servers == ("host1:9092", "host2:9092")


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({}, "bootstrap.servers: missing; write host:port"),
        ({"bootstrap.servers": " "}, "bootstrap.servers: missing; write host:port"),
        (SERVERS | {"securty.protocol": "SSL"}, "securty.protocol: unknown key; did you mean security.protocol?"),
        (
            SERVERS | {"admin.security.protocol": "SSL", "consumer.security.protocol": "PLAINTEXT"},
            "consumer.security.protocol: differs from admin.security.protocol; write security.protocol once",
        ),
        (
            SERVERS | {"sasl.kerberos.service.name": "kafka"},
            "sasl.kerberos.service.name: Kerberos is not offered; use SCRAM-SHA-512",
        ),
    ],
)
def test_mistakes_are_named(properties: Mapping[str, object], says: str) -> None:
    """By the key as it was written, with what to do."""
    (said,) = problems(properties)
    assert said.startswith(says)


def test_a_policy_that_cannot_be_used_is_named() -> None:
    """As in a file."""
    (said,) = problems(SERVERS | {"replication.policy.class": "com.example.Policy"})
    assert said.startswith("replication.policy.class: com.example.Policy is a Java class")
    (said,) = problems(SERVERS | {"replication.policy.separator": ""})
    assert said.startswith("replication.policy.separator: replication.policy.separator is empty")


def test_names_that_a_flow_gives() -> None:
    """A map and patterns make their copies known; heartbeats stay the policy's."""
    named = SERVERS | {"topics.map": "orders:dr-orders, a:all, b:all", "topics.rename": "x-(.*):y-$1"}
    _, policy = client_settings(named | {"source.cluster.alias": "A"}, {})
    assert {topic: policy.topic_source(topic) for topic in ("dr-orders", "y-1", "B.t", "t", "A.heartbeats")} == {
        "dr-orders": "A",
        "y-1": "A",
        "B.t": "B",
        "t": None,
        "A.heartbeats": "A",
    }
    upstream = {topic: policy.upstream_topic(topic) for topic in ("dr-orders", "all", "y-1", "B.t")}
    assert upstream == {"dr-orders": "orders", "all": None, "y-1": None, "B.t": "t"}
    assert policy.format_remote_topic("A", "orders") == "dr-orders"
    assert policy.format_remote_topic("B", "orders") == "B.orders"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"
    (said,) = problems(named)
    assert said.startswith("source.cluster.alias: missing; topics.map and topics.rename are those of a flow from there")
    (said,) = problems(named | {"source.cluster.alias": "A", "topics.rename": "x:$1"})
    assert said.startswith("topics.rename: '$1' refers to group 1")
