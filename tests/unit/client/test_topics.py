"""What MirrorClient tells from topic names: the twelve cases of MM2's MirrorClientTest, and circles.

Source: ``org.apache.kafka.connect.mirror.MirrorClientTest``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.client import MirrorClient
from mirror_ray.config.settings import ClusterSettings
from mirror_ray.model import topology
from mirror_ray.model.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy

DEFAULT = DefaultReplicationPolicy()


class Knowing(MirrorClient):
    """A client of a cluster that has these topics, and that is never asked."""

    def __init__(self, *topics: str, policy: ReplicationPolicy | None = None) -> None:
        super().__init__(ClusterSettings(alias="here", bootstrap_servers=("localhost:9092",)), policy)
        self.topics = topics

    def _topics(self, timeout_s: float | None = None) -> Collection[str]:
        return self.topics


def test_is_heartbeat_topic() -> None:
    """Heartbeats are known by the name that is left behind all sources."""
    theirs = ("heartbeats", "source1.heartbeats", "source2.source1.heartbeats")
    others = ("heartbeats!", "!heartbeats", "source1heartbeats", "source1-heartbeats")
    assert Knowing(*theirs, *others).heartbeat_topics() == set(theirs)


def test_is_checkpoint_topic() -> None:
    """Checkpoints are known by the end of the name, behind an alias."""
    others = (
        "checkpoints.internal",
        "checkpoints-internal",
        "checkpoints.internal!",
        "!checkpoints.internal",
        "source1checkpointsinternal",
    )
    assert Knowing("source1.checkpoints.internal", *others).checkpoint_topics() == {"source1.checkpoints.internal"}


@pytest.mark.parametrize(
    ("topic", "upstream", "hops"),
    [
        ("topic", "source", -1),
        ("source", "source", -1),
        ("sourcetopic", "source", -1),
        ("source1.topic", "source2", -1),
        ("source1.topic", "source1", 1),
        ("source2.source1.topic", "source2", 1),
        ("source2.source1.topic", "source1", 2),
        ("source3.source2.source1.topic", "source1", 3),
        ("source3.source2.source1.topic", "source4", -1),
    ],
)
def test_count_hops_for_topic(topic: str, upstream: str, hops: int) -> None:
    """Each source in front of a name is one hop."""
    assert topology.topic_hops(DEFAULT, topic, upstream) == hops


def test_heartbeat_topics() -> None:
    """All of a cluster's heartbeats topics, over any number of hops."""
    theirs = {"heartbeats", "source1.heartbeats", "source2.source1.heartbeats", "source3.heartbeats"}
    assert Knowing("topic1", "topic2", *theirs).heartbeat_topics() == theirs


def test_checkpoint_topics() -> None:
    """All of a cluster's checkpoints topics, of several sources."""
    theirs = {f"{source}.checkpoints.internal" for source in ("source1", "source2.source1", "source3")}
    assert Knowing("topic1", "topic2", "checkpoints.internal", *theirs).checkpoint_topics() == theirs


def test_replication_hops() -> None:
    """The shortest way of heartbeats counts, and a cluster that none come from can't be reached."""
    beats = ("heartbeats", "source1.heartbeats", "source1.source2.heartbeats", "source3.heartbeats")
    client = Knowing("topic1", "source4.topic2", *beats)
    hops = {alias: client.replication_hops(alias) for alias in ("source1", "source2", "source3", "source4")}
    assert hops == {"source1": 1, "source2": 2, "source3": 1, "source4": -1}
    assert Knowing(*beats, "source2.heartbeats").replication_hops("source2") == 1


@pytest.mark.parametrize("policy", [DEFAULT, IdentityReplicationPolicy(source_alias="source")])
def test_upstream_clusters(policy: ReplicationPolicy) -> None:
    """Every source of every heartbeats topic, under the identity policy too (two tests of MM2)."""
    beats = ("heartbeats", "source1.heartbeats", "source1.source2.heartbeats", "source3.source4.source5.heartbeats")
    found = Knowing("topic1", "topic2", *beats, policy=policy).upstream_clusters()
    assert found == {"source1", "source2", "source3", "source4", "source5"}


@pytest.mark.parametrize("separator", [".", "__"])
def test_remote_topics(separator: str) -> None:
    """Names with a source in front, under any separator; internal topics are none (two tests of MM2)."""
    dotted = ("source1.topic4", "source1.source2.topic5", "source3.source4.source5.topic6")
    remote = [name.replace(".", separator) for name in dotted]
    policy = DefaultReplicationPolicy(separator)
    internal = policy.checkpoints_topic("source1"), policy.offset_syncs_topic("source1")
    client = Knowing("topic1", "topic2", "topic3", *remote, *internal, "__consumer_offsets", policy=policy)
    assert client.remote_topics() == set(remote)
    assert client.remote_topics("source1") == set(remote[:2])
    assert client.remote_topics("source2") == set()


def test_identity_replication_remote_topics() -> None:
    """Any topic is taken for a copy, but heartbeats only with a source in front."""
    topics = ("topic1", "topic2", "topic3", "heartbeats", "backup.heartbeats")
    client = Knowing(*topics, policy=IdentityReplicationPolicy(source_alias="source"))
    assert client.remote_topics() == {"topic1", "topic2", "topic3", "backup.heartbeats"}
    assert client.remote_topics("source") == {"topic1", "topic2", "topic3"}
    assert Knowing(*topics, policy=IdentityReplicationPolicy()).remote_topics() == {"backup.heartbeats"}


def test_identity_replication_topic_source() -> None:
    """Names stay, their source is the configured one, and heartbeats are renamed."""
    policy = Knowing(policy=IdentityReplicationPolicy(source_alias="primary")).replication_policy()
    assert policy.format_remote_topic("primary", "topic1") == "topic1"
    assert policy.topic_source("topic1") == "primary"
    assert policy.format_remote_topic("backup", "heartbeats") == "backup.heartbeats"
    assert policy.topic_source("backup.heartbeats") == "backup"


def test_names_that_go_in_circles_end() -> None:
    """A policy that never comes to an end is cut where a source returns."""
    policy = IdentityReplicationPolicy(source_alias="source")
    assert list(topology.sources(policy, "topic")) == ["source"]
    assert topology.topic_hops(policy, "topic", "other") == -1


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=5))
def test_hops_are_the_place_of_a_source(way: list[str]) -> None:
    """As MM2 counts them: a source that comes twice ends the way, for the name can't be told from a circle."""
    topic = ".".join([*way, "heartbeats"])
    distinct: Mapping[str, int] = {}
    for place, alias in enumerate(way, 1):
        if alias in distinct:
            break
        distinct = {**distinct, alias: place}
    client = Knowing(topic)
    assert client.upstream_clusters() == set(distinct)
    assert {alias: client.replication_hops(alias) for alias in distinct} == distinct
