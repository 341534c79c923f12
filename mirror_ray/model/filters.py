"""Which topics, groups and topic configs a flow carries over: MM2's filters.

Source: ``org.apache.kafka.connect.mirror.{DefaultTopicFilter,DefaultGroupFilter,DefaultConfigPropertyFilter}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from mirror_ray.model.config_policy import ConfigPolicy
from mirror_ray.model.patterns import Pattern, compile_patterns

#: A pattern that stands for one topic only.
_LITERAL = re.compile(r"(?:[A-Za-z0-9_-]|\\[._-])+")


def literal_topic(pattern: str) -> str | None:
    """The one topic that a pattern stands for; None: it may fit several."""
    return pattern.replace("\\", "") if _LITERAL.fullmatch(pattern) else None


class _ListFilter:
    """Include and exclude lists; a whole name must match, and an exclusion wins."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include = compile_patterns(include)
        self._exclude = compile_patterns(exclude)

    def _accepts(self, name: str) -> bool:
        return _matches(self._include, name) and not _matches(self._exclude, name)


def _matches(pattern: Pattern | None, name: str) -> bool:
    return pattern is not None and pattern.fits(name)


class TopicFilter(_ListFilter):
    """MM2's ``DefaultTopicFilter``: ``topics`` and ``topics.exclude``.

    Raises:
        ValueError: A pattern can't be used.
    """

    def should_replicate_topic(self, topic: str) -> bool:
        """Whether the lists let the topic through."""
        return self._accepts(topic)


class GroupFilter(_ListFilter):
    """MM2's ``DefaultGroupFilter``: ``groups`` and ``groups.exclude``.

    Raises:
        ValueError: A pattern can't be used.
    """

    def should_replicate_group(self, group: str) -> bool:
        """Whether the lists let the consumer group through."""
        return self._accepts(group)


class ConfigPropertyFilter:
    """MM2's ``DefaultConfigPropertyFilter``: ``config.properties.exclude`` and ``use.defaults.from``; and policies.

    Raises:
        ValueError: A pattern can't be used.
    """

    def __init__(
        self,
        exclude: Sequence[str],
        use_defaults_from: Literal["source", "target"] = "target",
        policies: Mapping[str, ConfigPolicy] = MappingProxyType({}),
    ) -> None:
        self._exclude = compile_patterns(exclude)
        self._use_defaults_from = use_defaults_from
        self._policies = policies

    def should_replicate_config_property(self, key: str) -> bool:
        """Whether a topic config set on the source is set on the remote topic too."""
        return self.policy_for(key) != "target" and not _matches(self._exclude, key)

    def policy_for(self, key: str) -> ConfigPolicy:
        """Who decides on a config that is not excluded; by default the source."""
        return self._policies.get(key, "source")

    def should_replicate_source_default(self, key: str) -> bool:  # noqa: ARG002 - MM2's signature
        """Whether a value that the source merely defaults to is set on the remote topic."""
        return self._use_defaults_from == "source"
