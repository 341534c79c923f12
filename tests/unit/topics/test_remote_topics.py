"""Which remote topics are created and extended, and what is warned of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.settings import TopicSettings
from mirror_ray.model.filters import ConfigPropertyFilter
from mirror_ray.model.names import FlowName
from mirror_ray.model.topics import ConfigSource, ConfigValue, effective_replication_factor
from mirror_ray.topics.remote_topics import (
    Configs,
    Extension,
    RemoteTopicPlan,
    TopicFacts,
    find_shared,
    plan_remote_topic,
    remote_configs,
)

MM2_FILTER = ConfigPropertyFilter(TopicSettings().config_properties_exclude)


def facts(name: str, partitions: int = 1, configs: Configs | None = None, **values: str) -> TopicFacts:
    """A topic whose configs are set on it, written with underscores."""
    own = {key.replace("_", "."): ConfigValue(value=value) for key, value in values.items()}
    return TopicFacts(name=name, partitions=partitions, configs={**(configs or {}), **own})


def planned(source: TopicFacts, target: TopicFacts | None = None, factor: int | None = None) -> RemoteTopicPlan:
    """What is to be done about a topic's copy."""
    return plan_remote_topic(source, target, f"A.{source.name}", replication_factor=factor, configs=MM2_FILTER)


def test_a_missing_remote_topic_is_created_as_its_source() -> None:
    """Partitions, the flow's replication factor and the configs set on the source go into the new topic."""
    source = facts("orders", 7, cleanup_policy="compact", retention_ms="1")
    plan = planned(source, factor=3)
    assert plan.create is not None
    assert (plan.create.name, plan.create.partitions, plan.create.replication_factor) == ("A.orders", 7, 3)
    assert plan.create.configs == {"cleanup.policy": "compact", "retention.ms": "1"}
    assert plan.extend is None


@pytest.mark.parametrize(
    ("config", "carried"),
    [
        (ConfigValue(value="1"), True),
        (ConfigValue(value="1", source="DYNAMIC_BROKER_CONFIG"), True),
        (ConfigValue(value="1", source="DYNAMIC_DEFAULT_BROKER_CONFIG"), True),
        (ConfigValue(value="1", source="STATIC_BROKER_CONFIG"), False),
        (ConfigValue(value="1", source="DEFAULT_CONFIG"), False),
        (ConfigValue(value="1", read_only=True), False),
        (ConfigValue(value=None, sensitive=True), False),
    ],
)
def test_configs_are_carried_by_mm2s_rule(config: ConfigValue, *, carried: bool) -> None:
    """Set values are carried; defaults, read-only, sensitive and a broker's own values are not."""
    assert ("retention.ms" in remote_configs({"retention.ms": config}, MM2_FILTER)) is carried


@pytest.mark.parametrize("key", TopicSettings().config_properties_exclude)
def test_excluded_configs_stay_behind(key: str) -> None:
    """Each of MM2's default exclusions holds."""
    assert remote_configs({key: ConfigValue(value="1")}, MM2_FILTER) == {}


def test_defaults_are_carried_from_the_source_on_request() -> None:
    """With use.defaults.from=source a default of the source is set on the remote topic, exclusions still hold."""
    configs = {
        "retention.ms": ConfigValue(value="604800000", source="DEFAULT_CONFIG"),
        "min.insync.replicas": ConfigValue(value="1", source="DEFAULT_CONFIG"),
    }
    carried = remote_configs(configs, ConfigPropertyFilter(["min.insync.replicas"], "source"))
    assert carried == {"retention.ms": "604800000"}


def test_a_topic_with_fewer_partitions_is_extended() -> None:
    """Partitions added on the source are added on the target."""
    plan = planned(facts("t", 5), facts("A.t", 2))
    assert plan.extend == Extension(topic="A.t", from_partitions=2, to_partitions=5)
    assert plan.create is None


def test_a_topic_with_more_partitions_is_left_with_a_warning() -> None:
    """A remote topic is never shrunk."""
    plan = planned(facts("t", 2), facts("A.t", 5))
    assert plan.extend is None
    assert "A.t has 5 partitions" in plan.warnings[0]


def test_nothing_is_created_with_configs_that_could_not_be_read() -> None:
    """A compacted source must not become a deleting copy for want of DESCRIBE_CONFIGS."""
    plan = planned(TopicFacts(name="t", partitions=1, configs=None))
    assert plan.create is None
    assert plan.blocked is not None
    assert "DESCRIBE_CONFIGS" in plan.blocked


@pytest.mark.parametrize(
    ("source", "target", "warning"),
    [
        ({}, {"message_timestamp_type": "LogAppendTime"}, "LogAppendTime"),
        ({}, {"message_timestamp_before_max_ms": "1000"}, "message.timestamp.before.max.ms=1000"),
        ({"cleanup_policy": "delete"}, {"cleanup_policy": "compact,delete"}, "without a key"),
        ({"max_message_bytes": "2000000"}, {}, "max.message.bytes=2000000"),
    ],
)
def test_what_the_target_would_change_is_warned_of(
    source: dict[str, str], target: dict[str, str], warning: str
) -> None:
    """Each way in which an existing target topic can't hold records as they are is named."""
    assert warning in "\n".join(planned(facts("t", 1, None, **source), facts("A.t", 1, None, **target)).warnings)


def test_equal_topics_have_no_warnings() -> None:
    """A pair of topics with the same unusual configs passes without a word."""
    values = {"cleanup_policy": "compact", "max_message_bytes": "9000000", "message_timestamp_before_max_ms": "5"}
    assert not planned(facts("t", 3, None, **values), facts("A.t", 3, None, **values)).warnings


def test_a_size_from_the_brokers_file_is_warned_of_at_creation() -> None:
    """message.max.bytes of the source's brokers is not carried over, so larger batches may not fit."""
    configs = {"max.message.bytes": ConfigValue(value="5000000", source="STATIC_BROKER_CONFIG")}
    plan = planned(facts("t", 1, configs))
    assert "max.message.bytes=5000000" in plan.warnings[0]


def test_flows_into_one_remote_topic_share_it() -> None:
    """Fan-in under the identity policy names both flows and the topic; the same name on another cluster is none."""
    shared = find_shared(
        [
            (FlowName("A", "C"), "t", "t"),
            (FlowName("B", "C"), "t", "t"),
            (FlowName("A", "B"), "t", "t"),
            (FlowName("A", "C"), "u", "u"),
        ]
    )
    assert len(shared) == 1
    assert shared[0].sources == ((FlowName("A", "C"), "t"), (FlowName("B", "C"), "t"))
    assert "A->C (topic t) and B->C (topic t)" in str(shared[0])


@pytest.mark.parametrize(("explicit", "brokers", "effective"), [(None, 1, 1), (None, 2, 2), (None, 9, 2), (3, 1, 3)])
def test_only_a_silent_replication_factor_gives_way(explicit: int | None, brokers: int, effective: int) -> None:
    """MM2's default shrinks to a small cluster; an explicit value does not."""
    assert effective_replication_factor(explicit, 2, brokers) == effective


SOURCES: tuple[ConfigSource, ...] = ("DYNAMIC_TOPIC_CONFIG", "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG")


@given(
    st.integers(1, 50),
    st.none() | st.integers(1, 50),
    st.dictionaries(
        st.sampled_from(["retention.ms", "cleanup.policy", "min.insync.replicas"]),
        st.builds(ConfigValue, value=st.just("1"), source=st.sampled_from(SOURCES), read_only=st.booleans()),
    ),
)
def test_a_plan_once_carried_out_is_empty(
    partitions: int, existing: int | None, configs: dict[str, ConfigValue]
) -> None:
    """Whatever was created or extended leaves nothing to create or extend."""
    source = TopicFacts(name="t", partitions=partitions, configs=configs)
    target = None if existing is None else facts("A.t", existing)
    plan = planned(source, target)
    assert (plan.create is not None) == (existing is None)
    done = plan.create.partitions if plan.create else plan.extend.to_partitions if plan.extend else existing or 0
    again = planned(source, facts("A.t", done))
    assert again.create is None
    assert again.extend is None
