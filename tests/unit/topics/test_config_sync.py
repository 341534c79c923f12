"""Which configs of a remote topic are altered."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.settings import TopicSettings
from mirror_ray.model.cluster_change import ConfigChange
from mirror_ray.model.config_policy import ConfigPolicy
from mirror_ray.model.filters import ConfigPropertyFilter
from mirror_ray.model.topics import ConfigSource, ConfigValue
from mirror_ray.topics.config_sync import config_changes
from mirror_ray.topics.remote_topics import Configs

_KEYS = ("retention.ms", "cleanup.policy", "min.insync.replicas", "segment.bytes")
_DEFAULTS = dict(zip(_KEYS, ("604800000", "delete", "1", "1073741824"), strict=True))


def filtered(defaults_from: Literal["source", "target"] = "target") -> ConfigPropertyFilter:
    """MM2's, with its default exclusions."""
    return ConfigPropertyFilter(TopicSettings().config_properties_exclude, defaults_from)


def configs(**own: str) -> dict[str, ConfigValue]:
    """All configs of a topic on which some are set, written with underscores."""
    values = {key: ConfigValue(value=value, source="DEFAULT_CONFIG") for key, value in _DEFAULTS.items()}
    return {**values, **{key.replace("_", "."): ConfigValue(value=value) for key, value in own.items()}}


def altered(source: Configs, remote: Configs, **policies: ConfigPolicy) -> dict[str, tuple[str | None, str | None]]:
    """Key to what the remote topic had and gets."""
    by_key = {key.replace("_", "."): policy for key, policy in policies.items()}
    rules = ConfigPropertyFilter(TopicSettings().config_properties_exclude, policies=by_key)
    return {change.key: (change.before, change.after) for change in config_changes(source, remote, rules)}


def test_what_is_set_on_the_source_is_set() -> None:
    """Where it differs, or is only a default on the target."""
    source = configs(retention_ms="1", cleanup_policy="compact")
    assert altered(source, configs(retention_ms="2")) == {
        "retention.ms": ("2", "1"),
        "cleanup.policy": (None, "compact"),
    }
    assert altered(source, source) == {}


def test_what_the_source_leaves_at_its_default_is_taken_away() -> None:
    """As MM2's DELETE: only where the remote topic has it of its own."""
    assert altered(configs(), configs(retention_ms="2")) == {"retention.ms": ("2", None)}
    broker = configs() | {"retention.ms": ConfigValue(value="5", source="STATIC_BROKER_CONFIG")}
    assert altered(configs(), broker) == {}


def test_defaults_of_the_source_are_set_where_they_are_used() -> None:
    """``use.defaults.from = source``; the default exclusions hold all the same."""
    changes = config_changes(configs(), configs(), filtered("source"))
    assert {change.key: change.after for change in changes} == {
        key: value for key, value in _DEFAULTS.items() if key != "min.insync.replicas"
    }


@pytest.mark.parametrize("source", ["STATIC_BROKER_CONFIG", "DEFAULT_CONFIG"])
def test_what_brokers_have_in_their_own_files_is_left_alone(source: ConfigSource) -> None:
    """MM2 passes over what stands in the source's server.properties; a default takes away what is set."""
    here = configs() | {"retention.ms": ConfigValue(value="7", source=source)}
    expected = {} if source == "STATIC_BROKER_CONFIG" else {"retention.ms": ("2", None)}
    assert altered(here, configs(retention_ms="2")) == expected


def test_excluded_read_only_and_unknown_configs_are_left_alone() -> None:
    """One that the target's brokers don't know would make them refuse the others, too."""
    remote = dict(configs())
    del remote["segment.bytes"]
    remote["cleanup.policy"] = ConfigValue(value="delete", read_only=True)
    source = configs(min_insync_replicas="2", segment_bytes="1", cleanup_policy="compact")
    assert altered(source, remote) == {}


@pytest.mark.parametrize(
    ("policy", "source", "remote", "change"),
    [
        ("target", "1", "2", False),
        ("floor", "1", "2", False),
        ("floor", "2", "1", True),
        ("floor", "5", "-1", False),
        ("floor", "-1", "5", True),
        ("ceiling", "1", "2", True),
        ("ceiling", "2", "1", False),
        ("ceiling", "-1", "5", False),
    ],
)
def test_a_policy_may_let_the_target_differ(policy: ConfigPolicy, source: str, remote: str, *, change: bool) -> None:
    """More on the target with ``floor``, less with ``ceiling``; -1 is more than any number."""
    found = altered(configs(retention_ms=source), configs(retention_ms=remote), retention_ms=policy)
    assert found == ({"retention.ms": (remote, source)} if change else {})


def test_a_longer_retention_of_the_targets_own_stays() -> None:
    """MM2 takes it away within ten minutes, since the source has its default."""
    assert altered(configs(), configs(retention_ms="-1"), retention_ms="floor") == {}
    assert altered(configs(), configs(retention_ms="1"), retention_ms="floor") == {"retention.ms": ("1", None)}


def test_a_change_says_what_and_why() -> None:
    """For the audit log."""
    change = ConfigChange(key="retention.ms", before="1", after=None, why="the source leaves it at its default")
    assert str(change) == "retention.ms: 1 -> the target's default (the source leaves it at its default)"


_VALUES = st.sampled_from(["1", "2", "-1"])
_SOURCES: st.SearchStrategy[ConfigSource] = st.sampled_from(
    ["DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG"]
)
_TOPIC = st.dictionaries(
    st.sampled_from(_KEYS), st.builds(ConfigValue, value=_VALUES, source=_SOURCES, read_only=st.booleans())
)


@given(source=_TOPIC, remote=_TOPIC, defaults_from=st.sampled_from(["source", "target"]))
def test_once_altered_nothing_is_left_to_alter(
    source: Configs, remote: Configs, defaults_from: Literal["source", "target"]
) -> None:
    """So that a second round sends nothing."""
    rules = filtered(defaults_from)
    after = dict(remote)
    for change in config_changes(source, remote, rules):
        after[change.key] = (
            ConfigValue(value=change.after)
            if change.after is not None
            else ConfigValue(value=_DEFAULTS[change.key], source="DEFAULT_CONFIG")
        )
    assert config_changes(source, after, rules) == ()
