"""Filters, and the rule of replication, by the cases of MM2's MirrorSourceConnectorTest."""

from __future__ import annotations

import pytest

from mirror_ray.model.filters import ConfigPropertyFilter, GroupFilter, TopicFilter, literal_topic
from mirror_ray.model.names import FlowName
from mirror_ray.model.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mirror_ray.model.rules import ReplicationRules


def _rules(
    policy: ReplicationPolicy, topics: tuple[str, ...] = (".*",), *, heartbeats: bool = True
) -> ReplicationRules:
    return ReplicationRules(
        flow=FlowName("source", "target"),
        policy=policy,
        topic_filter=TopicFilter(topics, ()),
        heartbeats_replication_enabled=heartbeats,
    )


def test_no_cycles() -> None:
    """MirrorSourceConnectorTest.testNoCycles: what has been on the target does not go there again."""
    rules = _rules(DefaultReplicationPolicy())
    for topic in ("target.topic1", "target.source.topic1", "source.target.topic1", "source.target.source.topic1"):
        assert not rules.should_replicate_topic(topic)
    for topic in ("topic1", "source.topic1", "other.topic1"):
        assert rules.should_replicate_topic(topic)


def test_identity_replication() -> None:
    """MirrorSourceConnectorTest.testIdentityReplication: names tell cycles of heartbeats only."""
    rules = _rules(IdentityReplicationPolicy(source_alias="source"))
    for topic in ("target.topic1", "source.topic1", "target.source.topic1", "topic1", "heartbeats", "other.heartbeats"):
        assert rules.should_replicate_topic(topic)
    for topic in ("target.heartbeats", "target.source.heartbeats", "source.target.heartbeats"):
        assert not rules.should_replicate_topic(topic)


def test_cycle_with_null_upstream_topic() -> None:
    """MirrorSourceConnectorTest.testIsCycleWithNullUpstreamTopic."""

    class Nameless(DefaultReplicationPolicy):
        def upstream_topic(self, topic: str) -> str | None:
            return None

    assert not _rules(Nameless()).is_cycle("source.b")


@pytest.mark.parametrize("topics", [(), ("orders",)])
def test_heartbeats_pass_the_filter_unless_turned_off(topics: tuple[str, ...]) -> None:
    """The heartbeat cases of MirrorSourceConnectorTest."""
    policy = DefaultReplicationPolicy()
    for topic in ("heartbeats", "us-west.heartbeats"):
        assert _rules(policy, topics).should_replicate_topic(topic)
        assert not _rules(policy, topics, heartbeats=False).should_replicate_topic(topic)
    assert _rules(policy, (".*",), heartbeats=False).should_replicate_topic("heartbeats")


def test_internal_topics_are_not_replicated() -> None:
    """Kafka's, MM2's and mirror-ray's own, even where the filter lets them through."""
    rules = _rules(DefaultReplicationPolicy())
    for topic in ("__consumer_offsets", "mm2-ray-state.A.internal", "mm2-offsets.A.internal", "A.checkpoints.internal"):
        assert not rules.should_replicate_topic(topic)


def test_known_copies_on_the_target() -> None:
    """Those whose source is the flow's, less the checkpoints topic."""
    rules = _rules(DefaultReplicationPolicy())
    assert rules.is_remote_topic("source.orders")
    for topic in ("orders", "other.orders", "source.checkpoints.internal"):
        assert not rules.is_remote_topic(topic)
    assert rules.remote_topic("orders") == "source.orders"


def test_lists_match_whole_names_and_exclusions_win() -> None:
    """MM2's DefaultTopicFilter and DefaultGroupFilter."""
    topics = TopicFilter(("orders", "pay.*"), ("payroll",))
    assert [t for t in ("orders", "orders2", "payments", "payroll") if topics.should_replicate_topic(t)] == [
        "orders",
        "payments",
    ]
    assert not GroupFilter((".*",), ("console-consumer-.*",)).should_replicate_group("console-consumer-7")


def test_empty_list_matches_nothing() -> None:
    """``topics=`` copies nothing, ``topics.exclude=`` excludes nothing."""
    assert not TopicFilter((), ()).should_replicate_topic("orders")
    assert TopicFilter((".*",), ()).should_replicate_topic("orders")


def test_config_properties() -> None:
    """Dots in MM2's default list are not escaped; source defaults are copied only on request."""
    properties = ConfigPropertyFilter(("min.insync.replicas",))
    assert not properties.should_replicate_config_property("min.insync.replicas")
    assert properties.should_replicate_config_property("retention.ms")
    assert not properties.should_replicate_source_default("retention.ms")
    assert ConfigPropertyFilter((), "source").should_replicate_source_default("retention.ms")


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [("orders", "orders"), (r"a\.b\-c_d", "a.b-c_d"), ("a.b", None), (r"orders\d", None), ("a|b", None), ("", None)],
)
def test_a_pattern_that_stands_for_one_topic(pattern: str, topic: str | None) -> None:
    """An escaped dot is one; an escaped letter is none."""
    assert literal_topic(pattern) == topic
