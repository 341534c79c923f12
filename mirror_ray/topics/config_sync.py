"""Which configs of a remote topic are altered, so that they stay as on its source.

MM2 sends every config of every topic in every round; here only differences are altered, to the same effect. Source:
``org.apache.kafka.connect.mirror.MirrorSourceConnector`` (syncTopicConfigs, targetConfig, incrementalAlterConfigs).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from mirror_ray.model.cluster_change import ConfigChange
from mirror_ray.model.config_policy import UNLIMITED
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.filters import ConfigPropertyFilter
from mirror_ray.model.topics import ConfigValue
from mirror_ray.topics.remote_topics import Configs, remote_configs


def planned_changes(
    remotes: Mapping[str, str],
    source: Mapping[str, Configs | MirrorError],
    target: Mapping[str, Configs | MirrorError],
    configs: ConfigPropertyFilter,
) -> tuple[dict[str, tuple[ConfigChange, ...]], dict[str, str]]:
    """The changes by remote topic, and by topic why its configs can't be compared.

    Args:
        remotes: Topics with their remote topics, one topic of a merge alone.
        source: The configs of topics that exist.
        target: The configs of remote topics that exist.
        configs: Which of them are synced, and how far they may differ.
    """
    changes: dict[str, tuple[ConfigChange, ...]] = {}
    problems: dict[str, str] = {}
    for topic, remote in remotes.items():
        here, there = source.get(topic), target.get(remote)
        refused = next((answer for answer in (here, there) if isinstance(answer, MirrorError)), None)
        if refused is not None:
            problems[topic] = str(refused)
        elif isinstance(here, Mapping) and isinstance(there, Mapping):
            altered = config_changes(here, there, configs)
            if altered:
                changes[remote] = altered
    return changes, problems


def config_changes(source: Configs, remote: Configs, configs: ConfigPropertyFilter) -> tuple[ConfigChange, ...]:
    """The changes that bring a remote topic in sync, in the order of the keys; of all configs, defaults included."""
    changes: list[ConfigChange] = []
    synced = remote_configs(source, configs)
    for key, config in sorted(source.items()):
        there = remote.get(key)
        # Brokers refuse a config that they don't know, and with it the topic's other changes.
        if there is None or there.read_only:
            continue
        after = synced.get(key)
        if after is None and not (config.is_default and configs.should_replicate_config_property(key)):
            continue
        before = there.value if there.source == "DYNAMIC_TOPIC_CONFIG" else None
        if before != after and not may_differ(key, config, there, configs):
            why = "set on the source" if after is not None else "the source leaves it at its default"
            changes.append(ConfigChange(key=key, before=before, after=after, why=why))
    return tuple(changes)


def may_differ(key: str, source: ConfigValue, remote: ConfigValue, configs: ConfigPropertyFilter) -> bool:
    """Whether a policy lets the remote topic have its value although the source has another one."""
    policy = configs.policy_for(key)
    here, there = _number(key, source.value), _number(key, remote.value)
    if policy == "source" or here is None or there is None:
        return policy == "target"
    return there >= here if policy == "floor" else there <= here


def _number(key: str, value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return math.inf if number == -1 and key in UNLIMITED else number
