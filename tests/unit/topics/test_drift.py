"""What of a flow's target has drifted, and what brings it back."""

from __future__ import annotations

from dataclasses import replace

from mirror_ray.config.settings import TopicSettings
from mirror_ray.model.filters import ConfigPropertyFilter
from mirror_ray.model.topics import ConfigValue
from mirror_ray.topics.acl_sync import AclChanges
from mirror_ray.topics.comparison import ComparedTopic, PartitionFacts, SideFacts
from mirror_ray.topics.drift import Drift, ExpectedDrift, find_acl_drift, find_drift
from tests.support.factories import acl

_EXPECTED = ExpectedDrift(
    configs=ConfigPropertyFilter(TopicSettings().config_properties_exclude), replication_factor=None, brokers=3
)


def side(name: str, partitions: int = 1, factor: int = 2, **configs: str) -> SideFacts:
    """A topic; configs are set on it, written with underscores."""
    every = {key.replace("_", "."): ConfigValue(value=value) for key, value in configs.items()}
    partition = PartitionFacts(leader=1, replication_factor=factor)
    return SideFacts(topic=name, partitions=dict.fromkeys(range(partitions), partition), configs=every)


def drift(source: SideFacts | None, remote: SideFacts | None, expected: ExpectedDrift = _EXPECTED) -> Drift:
    """Of ``orders`` and ``A.orders``."""
    topic = "orders" if source is not None else None
    findings, remedies = find_drift(
        [ComparedTopic(topic=topic, remote_topic="A.orders", source=source, remote=remote)], expected
    )
    return Drift(findings=findings, remedies=remedies)


def test_a_faithful_copy_has_not_drifted() -> None:
    """More replicas than are asked for are nothing to mend."""
    found = drift(side("orders", 2, retention_ms="5"), side("A.orders", 2, 3, retention_ms="5"))
    assert (found.findings, bool(found.remedies)) == ((), False)


def test_a_missing_topic_is_created_as_the_flow_would() -> None:
    """With its partitions and configs; where those can't be read, it says why it is not."""
    found = drift(side("orders", 3, retention_ms="5", min_insync_replicas="2"), None)
    (created,) = found.remedies.create
    assert (created.name, created.partitions, created.configs) == ("A.orders", 3, {"retention.ms": "5"})
    assert created.replication_factor == 2
    assert found.findings[0].kind == "missing"
    hidden = drift(replace(side("orders"), configs=None), None)
    assert not hidden.remedies
    assert "DESCRIBE_CONFIGS" in (hidden.findings[0].advice or "")


def test_partitions_are_added_and_never_taken_away() -> None:
    """Too many are for people to see to."""
    fewer, more = drift(side("orders", 3), side("A.orders", 2)), drift(side("orders", 2), side("A.orders", 3))
    assert fewer.remedies.extend == {"A.orders": 3}
    assert [finding.kind for finding in more.findings] == ["partitions"]
    assert not more.remedies


def test_replicas_are_too_few() -> None:
    """By what is configured, or MM2's default as far as there are brokers."""
    assert [finding.kind for finding in drift(side("orders"), side("A.orders", factor=1)).findings] == ["replication"]
    alone = replace(_EXPECTED, brokers=1)
    assert not drift(side("orders"), side("A.orders", factor=1), alone).findings
    three = replace(_EXPECTED, replication_factor=3)
    assert drift(side("orders"), side("A.orders"), three).findings[0].expected == "3"


def test_configs_are_altered_by_the_rules_of_config_sync() -> None:
    """Excluded ones are left alone, and so is a remote topic that others write to as well."""
    source, remote = side("orders", retention_ms="5", min_insync_replicas="2"), side("A.orders", retention_ms="6")
    remote = replace(remote, configs={**(remote.configs or {}), "min.insync.replicas": ConfigValue(value="1")})
    found = drift(source, remote)
    assert [(finding.what, finding.expected, finding.found) for finding in found.findings] == [
        ("retention.ms", "5", "6")
    ]
    assert [change.after for change in found.remedies.alter["A.orders"]] == ["5"]
    assert not drift(source, remote, replace(_EXPECTED, shared={"A.orders"})).findings


def test_extra_topics_and_other_names_are_for_people() -> None:
    """Nothing is deleted or renamed."""
    extra = drift(None, side("A.orders"))
    assert ([finding.kind for finding in extra.findings], bool(extra.remedies)) == (["extra"], False)
    renamed = ComparedTopic(
        topic="orders", remote_topic="A.orders", source=side("orders"), remote=None, copied_into="A-orders"
    )
    findings, remedies = find_drift([renamed], _EXPECTED)
    assert [(finding.kind, finding.found) for finding in findings] == [("name", "A-orders")]
    assert not remedies


def test_what_can_not_be_compared_is_said() -> None:
    """It is no proof of anything."""
    hidden = replace(side("A.orders"), configs=None, problems={"configs": "needs DESCRIBE_CONFIGS", "size": "x"})
    (found,) = drift(side("orders", retention_ms="5"), hidden).findings
    assert (found.kind, found.what) == ("unknown", "configs of A.orders")


def test_acls_and_kinds_that_are_left_out() -> None:
    """Missing ones are created; what the source no longer gives is the running flow's to take back."""
    found = drift(side("orders", 3, retention_ms="5"), side("A.orders", 2, retention_ms="6"))
    lacking, gone = acl("A.orders"), acl("A.orders", principal="User:bob")
    findings = found.findings + find_acl_drift(AclChanges(create=(lacking,), delete=(gone,)), found.remedies)
    every = Drift(findings=findings, remedies=found.remedies)
    assert [finding.kind for finding in every.findings] == ["partitions", "config", "acl", "acl"]
    assert every.remedies.acls == [lacking]
    left = every.without({"acl", "partitions"})
    assert [finding.kind for finding in left.findings] == ["config"]
    assert (left.remedies.extend, left.remedies.acls, list(left.remedies.alter)) == ({}, [], ["A.orders"])
