"""The five topologies on real clusters: every record arrives where it belongs, and nothing goes round in circles."""

from __future__ import annotations

import time
import uuid

import pytest

from mirror_ray.config.settings import PolicySettings
from mirror_ray.lab.devcluster import DevCluster
from tests.support.clusters import Clusters, KafkaCluster
from tests.support.kafka import create_topic, produce, sample_messages
from tests.support.reading import assert_equal_copies, read_all
from tests.support.systems import run, settings_of, topics_with, wait_caught_up

IDENTITY = PolicySettings(class_name="org.apache.kafka.connect.mirror.IdentityReplicationPolicy")
#: A cycle would show within a few discoveries.
ROUNDS_S = 3.0


@pytest.fixture
def three(clusters: Clusters, third_cluster: DevCluster) -> dict[str, DevCluster]:
    """Clusters by alias."""
    return {"A": clusters.a, "B": clusters.b, "C": third_cluster}


@pytest.fixture
def mark() -> str:
    """A part of all topic names of a test."""
    return f"t{uuid.uuid4().hex[:8]}"


def fill(cluster: KafkaCluster, topic: str, first: int = 0) -> None:
    """A topic of two partitions with 300 records."""
    create_topic(cluster.confluent_config(), topic, 2)
    produce(cluster.confluent_config(), topic, sample_messages(300, partitions=2, first=first), codec="zstd")


def same(three: dict[str, DevCluster], source: str, topic: str, target: str, remote: str) -> None:
    """Assert that the copy equals the source."""
    assert_equal_copies(three[source].confluent_config(), three[target].confluent_config(), topic, remote)


def test_active_passive(three: dict[str, DevCluster], mark: str, system: str) -> None:
    """A->B: the remote topic equals the source, and nothing comes back."""
    fill(three["A"], mark)
    mirror = run(system, settings_of(three, "A->B", topics=f".*{mark}.*"))
    wait_caught_up(mirror, {("A->B", mark): 2})
    same(three, "A", mark, "B", f"A.{mark}")
    assert topics_with(three["A"], mark) == {mark}


def test_active_active(three: dict[str, DevCluster], mark: str, system: str) -> None:
    """A->B and B->A with the same topic on both sides: each side has its own and the other's, nothing more."""
    fill(three["A"], mark)
    fill(three["B"], mark, first=1000)
    mirror = run(system, settings_of(three, "A->B", "B->A", topics=f".*{mark}.*"))
    wait_caught_up(mirror, {("A->B", mark): 2, ("B->A", mark): 2})
    time.sleep(ROUNDS_S)
    same(three, "A", mark, "B", f"A.{mark}")
    same(three, "B", mark, "A", f"B.{mark}")
    assert topics_with(three["A"], mark) == {mark, f"B.{mark}"}
    assert topics_with(three["B"], mark) == {mark, f"A.{mark}"}


def test_fan_in(three: dict[str, DevCluster], mark: str, system: str) -> None:
    """A->C and B->C: the hub has both under their own names."""
    fill(three["A"], mark)
    fill(three["B"], mark, first=1000)
    mirror = run(system, settings_of(three, "A->C", "B->C", topics=f".*{mark}.*"))
    wait_caught_up(mirror, {("A->C", mark): 2, ("B->C", mark): 2})
    same(three, "A", mark, "C", f"A.{mark}")
    same(three, "B", mark, "C", f"B.{mark}")


def test_fan_out(three: dict[str, DevCluster], mark: str, system: str) -> None:
    """A->B and A->C: both have all of it."""
    fill(three["A"], mark)
    mirror = run(system, settings_of(three, "A->B", "A->C", topics=f".*{mark}.*"))
    wait_caught_up(mirror, {("A->B", mark): 2, ("A->C", mark): 2})
    same(three, "A", mark, "B", f"A.{mark}")
    same(three, "A", mark, "C", f"A.{mark}")


def test_chain_that_closes_to_a_ring(three: dict[str, DevCluster], mark: str, system: str) -> None:
    """A->B->C forwards; with C->A beside it, what began on A stops before it would come home."""
    fill(three["A"], mark)
    mirror = run(system, settings_of(three, "A->B", "B->C", "C->A", topics=f".*{mark}.*", replicators=2))
    wait_caught_up(mirror, {("A->B", mark): 2, ("B->C", f"A.{mark}"): 2})
    time.sleep(ROUNDS_S)
    same(three, "A", mark, "C", f"B.A.{mark}")
    assert topics_with(three["A"], mark) == {mark}
    assert topics_with(three["B"], mark) == {mark, f"A.{mark}"} - {mark}
    assert topics_with(three["C"], mark) == {f"B.A.{mark}"}


def test_identity_one_way(three: dict[str, DevCluster], mark: str, system: str) -> None:
    """Under the identity policy the remote topic has the source's name."""
    fill(three["A"], mark)
    mirror = run(system, settings_of(three, "A->B", topics=f".*{mark}.*", policy=IDENTITY))
    wait_caught_up(mirror, {("A->B", mark): 2})
    same(three, "A", mark, "B", mark)


def test_fan_in_under_one_name(three: dict[str, DevCluster], mark: str, system: str) -> None:
    """A->C and B->C under the identity policy share the remote topic: all of both, each once and in its order."""
    fill(three["A"], mark)
    fill(three["B"], mark, first=1000)
    flows = settings_of(three, "A->C", "B->C", topics=f".*{mark}.*", policy=IDENTITY)
    mirror = run(system, flows)
    wait_caught_up(mirror, {("A->C", mark): 2, ("B->C", mark): 2})
    for name, first in (("A", 300), ("B", 1300)):
        produce(three[name].confluent_config(), mark, sample_messages(300, partitions=2, first=first))
    mirror.down(20.0)
    mirror = run(system, flows)
    wait_caught_up(mirror, {("A->C", mark): 2, ("B->C", mark): 2})
    sources = [read_all(three[name].confluent_config(), mark) for name in "AB"]
    for partition, found in read_all(three["C"].confluent_config(), mark).items():
        assert len(found) == sum(len(each[partition]) for each in sources)
        for source in sources:
            wanted = set(source[partition])
            assert [record for record in found if record in wanted] == source[partition]
