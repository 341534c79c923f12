"""Replication policies, by the cases of MM2's ReplicationPolicyTest and MirrorSourceConnectorTest."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.settings import PolicySettings
from mirror_ray.model.policy import (
    IDENTITY_POLICY_CLASS,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    load_policy,
)

_TOPIC = st.from_regex(r"[a-z._-]{0,12}", fullmatch=True)


class SuffixPolicy(ReplicationPolicy):
    """A policy of a user's own: ``orders_from_A``."""

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self.infix = config["replication.policy.infix"]

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Put the alias behind."""
        return f"{topic}{self.infix}{source_alias}"

    def topic_source(self, topic: str) -> str | None:
        """What stands behind the infix."""
        return topic.rpartition(self.infix)[2] if self.infix in topic else None

    def upstream_topic(self, topic: str) -> str | None:
        """What stands before the infix."""
        return topic.rpartition(self.infix)[0] if self.infix in topic else None


def test_internal_topics_are_kafkas_and_mm2s() -> None:
    """ReplicationPolicyTest.testInternalTopic."""
    policy = DefaultReplicationPolicy()
    for topic in ("__consumer_offsets", ".private", "mm2-offset-syncs.A.internal", "primary.checkpoints.internal"):
        assert policy.is_internal_topic(topic)
    for topic in ("user.internal", "orders-internal", "mm2-orders", "heartbeats", "checkpoints.internal.x"):
        assert not policy.is_internal_topic(topic)


@pytest.mark.parametrize("separator", [".", "_", "__"])
def test_mirror_rays_own_topics_are_internal_whatever_the_separator(separator: str) -> None:
    """State, segments, stats and audit topics are never copied."""
    policy = DefaultReplicationPolicy(separator)
    for name in ("state", "segments", "stats", "audit"):
        assert policy.is_mm2_internal_topic(f"mm2-ray-{name}.A.internal")


def test_offset_syncs_topic_follows_the_internal_separator() -> None:
    """ReplicationPolicyTest.offsetSyncsTopic_shouldBeEffectedByInternalTopicSeparatorEnabled."""
    assert DefaultReplicationPolicy("__").offset_syncs_topic("A") == "mm2-offset-syncs__A__internal"
    assert DefaultReplicationPolicy("__", ".").offset_syncs_topic("A") == "mm2-offset-syncs.A.internal"


def test_checkpoints_topic_follows_the_internal_separator() -> None:
    """ReplicationPolicyTest.checkpointsTopic_shouldBeEffectedByInternalTopicSeparatorEnabled."""
    assert DefaultReplicationPolicy("__").checkpoints_topic("A") == "A__checkpoints__internal"
    assert DefaultReplicationPolicy("__", ".").checkpoints_topic("A") == "A.checkpoints.internal"


def test_heartbeats_topic_is_the_same_under_every_separator() -> None:
    """ReplicationPolicyTest.heartbeatsTopic_shouldNotBeEffectedByInternalTopicSeparatorConfig."""
    assert DefaultReplicationPolicy("__").heartbeats_topic() == "heartbeats"
    assert DefaultReplicationPolicy("__", ".").heartbeats_topic() == "heartbeats"


def test_default_policy_reads_the_source_off_the_first_piece() -> None:
    """Any dotted name looks remote; pieces that are empty at the end don't count, as in Java's split."""
    policy = DefaultReplicationPolicy()
    sources = {"orders": None, "A.orders": "A", "orders.v1": "orders", "a.": None, "a..": None, ".a": "", "a..b": "a"}
    assert {topic: policy.topic_source(topic) for topic in sources} == sources
    assert policy.upstream_topic("A.B.orders") == "B.orders"
    assert policy.original_topic("A.B.orders") == "orders"
    assert policy.is_heartbeats_topic("A.B.heartbeats")


def test_identity_policy_keeps_names_but_not_those_of_heartbeats() -> None:
    """Topics keep their names and seem to come from the configured source."""
    policy = IdentityReplicationPolicy(source_alias="A")
    assert policy.format_remote_topic("A", "orders") == "orders"
    assert (policy.topic_source("orders"), policy.upstream_topic("orders")) == ("A", "orders")
    assert policy.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert (policy.topic_source("B.heartbeats"), policy.upstream_topic("B.heartbeats")) == ("B", "heartbeats")
    assert policy.original_topic("B.orders") == "B.orders"
    assert IdentityReplicationPolicy().topic_source("orders") is None


@given(topic=_TOPIC.filter(lambda topic: topic.strip(".") != ""), separator=st.sampled_from([".", "_", "--"]))
def test_remote_names_lead_back(topic: str, separator: str) -> None:
    """Source and upstream name of a formatted name are what it was formatted from."""
    policy = DefaultReplicationPolicy(separator)
    remote = policy.format_remote_topic("A", topic)
    if topic.replace(separator, ""):
        assert policy.topic_source(remote) == "A"
        assert policy.upstream_topic(remote) == topic


def test_mm2_class_names_load_ours() -> None:
    """A file of MM2's names the policies by their Java classes."""
    assert type(load_policy(PolicySettings(), "A")) is DefaultReplicationPolicy
    identity = load_policy(PolicySettings(class_name=IDENTITY_POLICY_CLASS, separator="_"), "A")
    assert isinstance(identity, IdentityReplicationPolicy)
    assert identity.format_remote_topic("A", "heartbeats") == "A_heartbeats"
    dotted = load_policy(PolicySettings(separator="_", internal_topic_separator_enabled=False), "A")
    assert dotted.checkpoints_topic("A") == "A.checkpoints.internal"


def test_custom_class_is_built_from_the_configuration() -> None:
    """As MM2's configure: replication.policy.* and source.cluster.alias."""
    values = PolicySettings(class_name=f"{__name__}.SuffixPolicy", options={"replication.policy.infix": "_from_"})
    policy = load_policy(values, "A")
    assert policy.format_remote_topic("A", "orders") == "orders_from_A"
    assert policy.original_topic("orders_from_A_from_B") == "orders"
    assert policy.config["source.cluster.alias"] == "A"
    assert policy.config["replication.policy.separator"] == "."


@pytest.mark.parametrize(
    ("class_name", "says"),
    [
        ("com.example.MyPolicy", "com.example.MyPolicy is a Java class.*Python subclass"),
        ("no_such_module.Policy", "no_such_module.Policy can't be imported"),
        ("Policy", "names no module"),
        ("collections.OrderedDict", "is not a ReplicationPolicy"),
        (f"{__name__}.SuffixPolicy", "could not be built"),
    ],
)
def test_class_that_cannot_be_used_is_refused_by_name(class_name: str, says: str) -> None:
    """The error names the class and the alternative."""
    with pytest.raises(ValueError, match=says):
        load_policy(PolicySettings(class_name=class_name), "A")


def test_empty_separator_is_refused() -> None:
    """Without a separator no copy can be told from an original."""
    with pytest.raises(ValueError, match=r"replication\.policy\.separator is empty"):
        DefaultReplicationPolicy("")


def test_policy_that_names_a_topic_its_own_ancestor_ends() -> None:
    """A policy of a user's own can't send original_topic round and round."""

    class Swapping(SuffixPolicy):
        def upstream_topic(self, topic: str) -> str | None:
            return {"a": "b", "b": "a"}[topic]

    assert Swapping({"replication.policy.infix": "_"}).original_topic("a") == "b"
