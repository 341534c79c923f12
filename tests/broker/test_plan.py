"""What ``plan`` finds on real clusters, before anything is changed."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import (
    ClusterSettings,
    FlowSettings,
    HeartbeatSettings,
    MirrorSettings,
    PolicySettings,
    SaslSettings,
    SecuritySettings,
    TopicSettings,
)
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.lab.devcluster import DevListener
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError
from mirror_ray.model.names import FlowName
from mirror_ray.state.schema import state_topic
from mirror_ray.topics.planning import make_plan
from tests.support.clusters import Clusters, KafkaCluster, TopicMaker
from tests.support.kafka import create_topic, delete_leftover, produce, sample_messages
from tests.support.rights import grant

IDENTITY = PolicySettings(class_name="org.apache.kafka.connect.mirror.IdentityReplicationPolicy")


def settings_of(clusters: Clusters, *flows: FlowSettings) -> MirrorSettings:
    """Both clusters, A also under the alias AGAIN, and these flows."""
    addresses = {"A": clusters.a.bootstrap, "B": clusters.b.bootstrap, "AGAIN": clusters.a.bootstrap}
    return MirrorSettings(
        clusters={name: ClusterSettings(alias=name, bootstrap_servers=(at,)) for name, at in addresses.items()},
        flows=flows,
    )


def flow(name: str, *topics: str, policy: PolicySettings | None = None) -> FlowSettings:
    """An enabled flow of these topics alone."""
    return FlowSettings(
        name=FlowName.parse(name),
        enabled=True,
        topics=TopicSettings(include=topics),
        policy=policy or PolicySettings(),
        heartbeats=HeartbeatSettings(replication_enabled=False),
    )


def test_missing_topics_would_be_created(clusters: Clusters, make_topic: TopicMaker) -> None:
    """A remote topic with its partitions and configs, and the flow's state topic; nothing is created by asking."""
    topic = make_topic(clusters.a, partitions=3, topic_config={"retention.ms": "123456"})
    plan = make_plan(settings_of(clusters, flow("A->B", topic)))
    (found,) = plan.flows
    (created,) = found.created
    assert (created.name, created.partitions, created.replication_factor) == (f"A.{topic}", 3, 1)
    assert created.configs == {"retention.ms": "123456"}
    assert plan.ok
    admin = ClusterAdmin(ClusterSettings(alias="B", bootstrap_servers=(clusters.b.bootstrap,)), "test")
    assert f"A.{topic}" not in admin.list_topics()


def test_a_smaller_remote_topic_would_be_extended(clusters: Clusters, make_topic: TopicMaker) -> None:
    """An empty remote topic with fewer partitions is ours to use."""
    topic = make_topic(clusters.a, partitions=4)
    create_topic(clusters.b.confluent_config(), f"A.{topic}", 2)
    (found,) = make_plan(settings_of(clusters, flow("A->B", topic))).flows
    (planned,) = found.topics
    assert planned.extend is not None
    assert (planned.extend.from_partitions, planned.extend.to_partitions) == (2, 4)
    assert found.refused == ()


def test_a_filled_remote_topic_is_refused(clusters: Clusters, make_topic: TopicMaker) -> None:
    """What MirrorMaker 2 filled, and no state of ours accounts for, is not written to."""
    topic = make_topic(clusters.a)
    remote = create_topic(clusters.b.confluent_config(), f"A.{topic}", 1)
    produce(clusters.b.confluent_config(), remote, sample_messages(3))
    plan = make_plan(settings_of(clusters, flow("A->B", topic)))
    assert not plan.ok
    assert f"remote topic {remote} is not empty" in plan.flows[0].refused[0]


def test_fan_in_under_the_identity_policy_is_shared(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Two flows that write one remote topic are both named, and neither minds what the other has written there."""
    topic = make_topic(clusters.a)
    flows = (flow("A->B", topic, policy=IDENTITY), flow("AGAIN->B", topic, policy=IDENTITY))
    plan = make_plan(settings_of(clusters, *flows))
    assert [shared.remote_topic for shared in plan.shared if shared.remote_topic == topic] == [topic]
    assert "A->B" in str(plan.shared[0])
    assert plan.ok, [flow.refused for flow in plan.flows]


def test_unreachable_clusters_are_all_named() -> None:
    """One error names every cluster that did not answer."""
    clusters = {
        name: ClusterSettings(alias=name, bootstrap_servers=("127.0.0.1:1",), connection_setup_timeout_ms=1_000)
        for name in ("A", "B")
    }
    with pytest.raises(ClusterUnreachableError, match=r"(?s)cluster A: .*cluster B: "):
        make_plan(MirrorSettings(clusters=clusters, flows=(flow("A->B", ".*"),)))


def test_a_bad_filter_names_the_flow(clusters: Clusters) -> None:
    """A regular expression that is none is an error of the configuration."""
    with pytest.raises(ConfigError, match=r"A->B.*\(oops"):
        make_plan(settings_of(clusters, flow("A->B", "(oops")))


def as_alice(cluster: KafkaCluster, password: str | None = None) -> dict[str, ClusterSettings]:
    """The cluster as source and target, entered as alice."""
    sasl = SaslSettings(
        mechanism="PLAIN", username="alice", password=Secret(password or cluster.security.users["alice"])
    )
    security = SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl)
    return {
        name: ClusterSettings(alias=name, bootstrap_servers=(cluster.bootstrap,), security=security) for name in "AB"
    }


def test_missing_rights_are_named(guarded: DevListener) -> None:
    """What the brokers don't grant on source topics, remote topics and the cluster is listed one by one."""
    delete_leftover(guarded.confluent_config(), state_topic("A"))
    create_topic(guarded.confluent_config(), "orders", 1)
    create_topic(guarded.confluent_config(), "A.orders", 1)
    create_topic(guarded.confluent_config(), "new", 1)
    grant(guarded, "orders", AclOperation.DESCRIBE, AclOperation.READ)
    grant(guarded, "new", AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    grant(guarded, "A.orders", AclOperation.WRITE)
    plan = make_plan(MirrorSettings(clusters=as_alice(guarded), flows=(flow("A->B", "orders", "new"),)))
    assert not plan.ok
    missing = {missing for right in plan.missing_rights for missing in right.missing}
    assert {
        "orders: DESCRIBE_CONFIGS",
        "A.orders: READ",
        "A.orders: DESCRIBE_CONFIGS",
        "A.orders: ALTER",
        "kafka-cluster: CREATE",
    } <= missing
    assert missing.isdisjoint({"orders: READ", "A.orders: WRITE", "A.orders: DESCRIBE", "new: READ"})
    refused = "\n".join(plan.flows[0].refused)
    assert f"create topic {state_topic('A')}" in refused
    assert "create topic A.new" in refused


def test_refused_credentials_are_told_soon(guarded: DevListener) -> None:
    """A wrong password is an unreachable cluster, named with what to check, before the connection timeout."""
    with pytest.raises(ClusterUnreachableError, match="cluster A refuses PLAIN for user alice") as caught:
        make_plan(MirrorSettings(clusters=as_alice(guarded, "wrong"), flows=(flow("A->B", ".*"),)))
    assert "wrong" not in str(caught.value)
