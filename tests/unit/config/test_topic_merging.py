"""Several topics that become one: meant or not, and what is created."""

from __future__ import annotations

import pytest

from mirror_ray.config.topic_merging import RemoteTopicClaim, conflict, conflicts
from mirror_ray.model.names import FlowName
from mirror_ray.model.topic_names import NamedBy
from mirror_ray.model.topics import NewRemoteTopic
from mirror_ray.topics.remote_topics import Extension, RemoteTopicPlan, merge_plans

AB, CB = FlowName("A", "B"), FlowName("C", "B")


def claim(topic: str, named_by: NamedBy, flow: FlowName = AB, *, declared: bool = False) -> RemoteTopicClaim:
    """Into the topic ``all``."""
    return RemoteTopicClaim(flow=flow, topic=topic, remote="all", named_by=named_by, declared=declared)


@pytest.mark.parametrize(
    ("claims", "meant"),
    [
        ([claim("a", "rename")], True),
        ([claim("a", "map"), claim("b", "map")], True),
        ([claim("a", "map"), claim("b", "map", CB)], True),
        ([claim("a", "map"), claim("b", "rename")], False),
        ([claim("a", "map"), claim("all", "policy")], False),
        ([claim("a", "map"), claim("all", "policy", declared=True)], True),
        ([claim("a", "rename"), claim("a", "rename", CB)], False),
        ([claim("a", "rename", declared=True), claim("a", "rename", CB, declared=True)], True),
        # Fan-in under one name, as it always was.
        ([claim("all", "policy"), claim("all", "policy", CB)], True),
    ],
)
def test_conflict(claims: list[RemoteTopicClaim], meant: bool) -> None:
    """A map and a declaration say that it is meant; a pattern or a policy beside them does not."""
    why = conflict(claims)
    assert (why is None) is meant
    assert conflicts(claims) == ({} if why is None else dict.fromkeys(claims, why))
    if why is not None:
        assert "shared.remote.topics" in why
        assert all(claim.topic in why for claim in claims)


def plan(topic: str, partitions: int, **changes: object) -> RemoteTopicPlan:
    """A topic that goes into ``all``."""
    return RemoteTopicPlan(source_topic=topic, remote_topic="all", partitions=partitions, **changes)  # type: ignore[arg-type]


def creation(partitions: int, **configs: str) -> NewRemoteTopic:
    """What one source topic asks for."""
    return NewRemoteTopic(name="all", partitions=partitions, replication_factor=None, configs=configs)


def test_created_once_with_the_most_partitions() -> None:
    """Configs are those of the first topic by name; what differs is said."""
    alone = RemoteTopicPlan(source_topic="z", remote_topic="A.z", partitions=1)
    found = merge_plans(
        [plan("b", 5, create=creation(5, retention="7")), alone, plan("a", 3, create=creation(3, retention="9"))]
    )
    assert [plan.source_topic for plan in found] == ["b", "z", "a"]
    assert found[1] is alone
    assert found[0].create is None
    assert found[2].create == creation(5, retention="9")
    said = " ".join(found[2].warnings)
    for text in ("a (3), b (5)", "one key", "configs of a; b differs in retention"):
        assert text in said


def test_one_that_cannot_be_created_by_itself() -> None:
    """Where one topic's configs can't be read, those of another are there."""
    found = merge_plans([plan("a", 5, blocked="DESCRIBE_CONFIGS"), plan("b", 2, create=creation(2))])
    assert found[0].blocked is None
    assert found[1].create == creation(5)


def test_extended_once() -> None:
    """To the most partitions that one of them asks for."""
    extensions = [Extension(topic="all", from_partitions=2, to_partitions=count) for count in (3, 7)]
    found = merge_plans([plan("a", 3, extend=extensions[0]), plan("b", 7, extend=extensions[1]), plan("c", 1)])
    assert [plan.extend for plan in found] == [None, extensions[1], None]


def test_nothing_to_do() -> None:
    """What is there stays, and what a merge means is said once."""
    found = merge_plans([plan("a", 3), plan("b", 3)])
    assert [(plan.create, plan.extend) for plan in found] == [(None, None)] * 2
    assert [len(plan.warnings) for plan in found] == [1, 0]
