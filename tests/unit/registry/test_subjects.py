"""Which subjects are mirrored, and what they are named."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror_ray.model.filters import TopicFilter
from mirror_ray.model.names import FlowName
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.model.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.registry.schema import Subject
from mirror_ray.registry.subjects import SubjectRules


def rules(
    include: str = ".*",
    exclude: str = "",
    *,
    names: Mapping[str, str] | None = None,
    contexts: Mapping[str, str] | None = None,
    follow_topics: bool = True,
    policy: ReplicationPolicy | None = None,
) -> SubjectRules:
    """The rules of a flow A->B."""
    topics = ReplicationRules(
        flow=FlowName("A", "B"), policy=policy or DefaultReplicationPolicy(), topic_filter=TopicFilter([".*"], [])
    )
    return SubjectRules(
        topics=topics,
        include=compile_patterns([include]),
        exclude=compile_patterns([exclude]) if exclude else None,
        names=names or {},
        contexts=contexts or {},
        follow_topics=follow_topics,
    )


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("orders-value", "A.orders-value"),
        ("orders-key", "A.orders-key"),
        ("com.acme.Order", "com.acme.Order"),
        ("-value", "-value"),
        (":.eu:orders-value", ":.eu:A.orders-value"),
        ("C.orders-value", "A.C.orders-value"),
    ],
)
def test_a_subject_that_is_named_after_a_topic_is_named_as_its_copy(source: str, target: str) -> None:
    """And any other keeps its name; contexts stay."""
    assert str(rules().target(Subject.parse(source))) == target


def test_names_by_a_map() -> None:
    """A map goes before all; contexts are mapped, too."""
    mapped = rules(names={"orders-value": "sales-value", ":.eu:x": ":.us:y"}, contexts={".": ".a", ".eu": ".b"})
    assert str(mapped.target(Subject.parse("orders-value"))) == ":.a:sales-value"
    assert str(mapped.target(Subject.parse(":.eu:x"))) == ":.us:y"
    assert str(mapped.target(Subject.parse(":.eu:orders-key"))) == ":.b:A.orders-key"
    assert str(rules(follow_topics=False).target(Subject.parse("orders-value"))) == "orders-value"


def test_the_subject_of_a_copy_does_not_go_back() -> None:
    """As its topic does not; one that is no topic's is known by its content."""
    assert not rules().mirrors(Subject.parse("B.orders-value"))
    assert not rules().mirrors(Subject.parse("C.B.orders-value"))
    assert rules().mirrors(Subject.parse("C.orders-value"))
    assert rules().mirrors(Subject.parse("com.acme.Order"))
    assert rules(policy=IdentityReplicationPolicy(source_alias="A")).mirrors(Subject.parse("orders-value"))
    assert rules(names={"B.orders-value": "x"}).mirrors(Subject.parse("B.orders-value"))


def test_patterns() -> None:
    """What is referred to needs not be included, but is not to be excluded."""
    chosen = rules("orders.*|:.eu:.*", "orders-internal.*")
    assert chosen.mirrors(Subject.parse("orders-value"))
    assert chosen.mirrors(Subject.parse(":.eu:x"))
    assert not chosen.mirrors(Subject.parse("address"))
    assert chosen.may_mirror(Subject.parse("address"))
    assert not chosen.may_mirror(Subject.parse("orders-internal-value"))


@pytest.mark.parametrize("text", ["orders", ":.eu:orders", ":.eu:", ":.a:b:c", "a:b", ":x:y", ""])
def test_a_subject_is_read_as_it_is_named(text: str) -> None:
    """Qualified or not."""
    assert str(Subject.parse(text)) == text


def test_a_subject_in_the_context_of_the_asked_one() -> None:
    """References name subjects beside their own."""
    assert Subject.parse("x", ".eu") == Subject(".eu", "x")
    assert Subject.parse(":.us:x", ".eu") == Subject(".us", "x")
    assert str(Subject(".", ":.odd")) == ":.::.odd"
