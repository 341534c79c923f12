"""What counts as drift between a topic and its remote topic, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror_ray.config.settings import TopicSettings
from mirror_ray.model.filters import ConfigPropertyFilter
from mirror_ray.model.topics import ConfigValue
from mirror_ray.topics.acl_comparison import AclPair
from mirror_ray.topics.comparison import (
    ComparedTopic,
    ConfigVerdict,
    PartitionFacts,
    SideFacts,
    TopicComparison,
    compare_topic,
)
from tests.support.factories import acl

MM2_FILTER = ConfigPropertyFilter(TopicSettings().config_properties_exclude)
PARTITION = PartitionFacts(leader=1, replication_factor=3, start=10, end=50, size_bytes=1000)


def default(value: str) -> ConfigValue:
    """Kafka's own default."""
    return ConfigValue(value=value, source="DEFAULT_CONFIG")


def side(name: str, partitions: int = 1, **configs: str | ConfigValue) -> SideFacts:
    """A topic; configs are set on it, written with underscores."""
    return SideFacts(
        topic=name,
        partitions=dict.fromkeys(range(partitions), PARTITION),
        configs={
            key.replace("_", "."): ConfigValue(value=value) if isinstance(value, str) else value
            for key, value in configs.items()
        },
    )


def compared(
    source: SideFacts | None,
    remote: SideFacts | None,
    configs: ConfigPropertyFilter = MM2_FILTER,
    *,
    synced: bool = True,
    reason: str | None = None,
) -> TopicComparison:
    """The comparison of ``orders`` with ``A.orders``."""
    pair = ComparedTopic(
        topic="orders" if source else None, remote_topic="A.orders", source=source, remote=remote, reason=reason
    )
    return compare_topic(pair, configs, synced=synced)


def verdicts(comparison: TopicComparison) -> dict[str, ConfigVerdict]:
    """By key."""
    return {config.key: config.verdict for config in comparison.configs}


def test_a_faithful_copy_is_equal() -> None:
    """Whatever its offsets, its size and its replication factor are."""
    source = side("orders", 2, cleanup_policy="compact", retention_ms=default("5"))
    other = replace(PARTITION, start=0, end=7, size_bytes=1, replication_factor=1)
    remote = replace(source, topic="A.orders", partitions={0: other, 1: other})
    found = compared(source, remote)
    assert (found.state, found.drift) == ("equal", ())
    assert verdicts(found) == {"cleanup.policy": "same"}


def test_another_number_of_partitions_is_drift() -> None:
    """In either direction."""
    for numbers in ((3, 2), (2, 3)):
        found = compared(side("orders", numbers[0]), side("A.orders", numbers[1]))
        assert found.state == "differs"
        assert found.partitions_differ
        assert found.partitions == [0, 1, 2]
        assert found.drift == (f"{numbers[0]} partitions on the source, {numbers[1]} on the target",)


def test_a_missing_remote_topic_is_drift_and_a_surplus_one_is_not() -> None:
    """What the running system says of a missing one is told; a surplus one has no source that could be compared."""
    missing = compared(side("orders"), None, reason="refused: it was deleted")
    assert missing.drift == ("A.orders is missing: refused: it was deleted",)
    surplus = compared(None, side("A.orders"))
    assert (surplus.state, surplus.drift) == ("extra", ())


@pytest.mark.parametrize(
    ("source", "remote", "verdict"),
    [
        ("1", "1", "same"),
        ("1", "2", "differs"),
        ("1", default("2"), "differs"),
        # MM2 takes back what is set on the remote topic alone.
        (default("1"), "2", "differs"),
        (default("1"), default("2"), "own"),
        (default("1"), ConfigValue(value="2", source="DYNAMIC_DEFAULT_BROKER_CONFIG"), "own"),
        (ConfigValue(value="1", source="STATIC_BROKER_CONFIG"), default("2"), "own"),
        (ConfigValue(value="1", source="DYNAMIC_BROKER_CONFIG"), default("2"), "differs"),
    ],
)
def test_configs_that_are_carried_over_must_be_equal(
    source: str | ConfigValue, remote: str | ConfigValue, verdict: ConfigVerdict
) -> None:
    """By where each side's value comes from."""
    found = compared(side("orders", retention_ms=source), side("A.orders", retention_ms=remote))
    assert verdicts(found) == {"retention.ms": verdict}
    assert bool(found.drift) is (verdict == "differs")


def test_differences_that_the_configuration_wants_are_marked_as_such() -> None:
    """Excluded ones, those of brokers that lack the key, and all where configs are not kept the same."""
    source = side("orders", min_insync_replicas="2", retention_ms="1", new_key="x")
    remote = side("A.orders", min_insync_replicas="1", retention_ms="2")
    expected = {"min.insync.replicas": "excluded", "new.key": "own", "retention.ms": "differs"}
    assert verdicts(compared(source, remote)) == expected
    loose = compared(source, remote, synced=False)
    assert verdicts(loose) == expected | {"retention.ms": "unsynced"}
    assert loose.state == "equal"


def test_defaults_of_the_source_are_carried_where_it_says_so() -> None:
    """``use.defaults.from=source``: what differs by default alone is drift."""
    source, remote = side("orders", retention_ms=default("1")), side("A.orders", retention_ms=default("2"))
    from_source = ConfigPropertyFilter((), "source")
    assert compared(source, remote).drift == ()
    assert compared(source, remote, from_source).drift == ("retention.ms: 1 on the source, 2 on the target",)


def test_what_can_not_be_read_is_neither_equal_nor_drift() -> None:
    """Configs that are refused, and a topic that may not even be described."""
    hidden = SideFacts(topic="A.orders", problems={"topic": "needs DESCRIBE"})
    without = replace(side("A.orders"), configs=None, problems={"configs": "needs DESCRIBE_CONFIGS"})
    for remote in (hidden, without):
        found = compared(side("orders", retention_ms="1"), remote)
        assert (found.state, found.drift) == ("unknown", ())
    assert compared(side("orders", 2), without).state == "differs"


def test_another_name_than_before_is_drift() -> None:
    """Nothing else is compared: the flow does not copy the topic until one of the names is given up."""
    renamed = ComparedTopic(
        topic="orders", remote_topic="A.orders", source=side("orders", 2), remote=side("A.orders"), copied_into="orders"
    )
    found = compare_topic(renamed, MM2_FILTER, synced=True)
    assert (found.state, found.drift) == (
        "differs",
        ("it was copied into orders so far, and would be into A.orders now",),
    )
    same = replace(renamed, copied_into="A.orders", source=side("orders"))
    assert compare_topic(same, MM2_FILTER, synced=True).state == "equal"


def test_a_right_that_is_missing_is_drift() -> None:
    """Also where the remote topic may not be described, or is missing itself."""
    missing = AclPair(source=acl("orders"), remote=None, expected=acl("A.orders"), verdict="missing")
    hidden = SideFacts(topic="A.orders", problems={"topic": "needs DESCRIBE"})
    for remote in (None, hidden, side("A.orders")):
        pair = ComparedTopic(topic="orders", remote_topic="A.orders", source=side("orders"), remote=remote)
        found = compare_topic(pair, MM2_FILTER, synced=True, acls=(missing,))
        assert found.state == "differs"
        assert found.drift[-1] == "ACL missing on the target: ALLOW User:ann READ on topic A.orders"
        assert found.acls == (missing,)


def test_sums_are_not_known_where_a_partition_is_not() -> None:
    """Half a sum would look like a difference."""
    whole = side("orders", 2)
    assert (whole.offsets, whole.size_bytes, whole.replication_factor) == (80, 2000, 3)
    half = replace(whole, partitions={0: PARTITION, 1: PartitionFacts(leader=-1, replication_factor=1)})
    assert (half.offsets, half.size_bytes, half.replication_factor) == (None, None, 1)
