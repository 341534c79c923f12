"""What people see of a comparison."""

from __future__ import annotations

import pytest

from mirror_ray.cli.comparison_table import plain_comparison, print_comparison
from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.names import FlowName
from mirror_ray.topics.acl_comparison import AclPair
from mirror_ray.topics.comparison import ComparedTopic, FlowComparison, PartitionFacts, SideFacts, TopicComparison
from tests.support.factories import acl

_FLOW = FlowSettings(name=FlowName("A", "B"), enabled=True)


def _compared() -> FlowComparison:
    partitions = {0: PartitionFacts(leader=1, replication_factor=1, start=0, end=1, size_bytes=1)}
    pair = ComparedTopic(
        topic="orders",
        remote_topic="dr",
        source=SideFacts(topic="orders", partitions=partitions, configs={}),
        remote=SideFacts(topic="dr", partitions=partitions, configs={}),
        named_by="map",
        beside=("bills",),
    )
    missing = AclPair(source=acl("orders"), remote=None, expected=acl("dr"), verdict="missing")
    pattern = AclPair(source=acl("ord", pattern="PREFIXED"), remote=None, expected=None, verdict="pattern")
    group = acl("app", resource="GROUP")
    topic = TopicComparison(pair=pair, state="differs", drift=(str(missing.drift),), acls=(missing, pattern))
    return FlowComparison(
        topics=[topic], other_acls=(AclPair(source=None, remote=None, expected=group, verdict="missing"),)
    )


def test_acls_and_names_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with both sides and the reason why it may differ; with ``differences`` only what may not."""
    found = _compared()
    print_comparison(found, found.topics, _FLOW, partitions=False, differences=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "name orders dr by topics.map, as bills is" in lines
    assert "ACL User:ann ALLOW READ - differs" in lines
    assert "ACL User:ann ALLOW READ on ord... - not copied: sync.topic.acls.patterns.enabled is false" in lines
    assert "ACL User:ann on group app - - differs" in lines
    print_comparison(found, found.topics, _FLOW, partitions=False, differences=True)
    shown = capsys.readouterr().out
    assert "ord..." not in shown
    assert shown.count("ACL User:ann") == 2


def test_for_programs() -> None:
    """Each ACL with both sides and its verdict; groups apart."""
    plain = plain_comparison(_compared(), _compared().topics)
    assert plain["differs"] is True
    (topic,) = plain["topics"]
    assert [acl["verdict"] for acl in topic["acls"]] == ["missing", "pattern"]
    assert (topic["named_by"], topic["beside"], topic["copied_into"]) == ("map", ["bills"], None)
    assert plain["other_acls"][0]["expected"]["name"] == "app"
