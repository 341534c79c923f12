"""Topics as a cluster lists them, and topics that are to be created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from mirror_ray.model.names import NO_TOPIC_ID, TopicId

#: Kafka's default of ``message.max.bytes``: what a topic takes that nobody configured, or whose configs can't be read.
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588

#: MM2's ``replication.factor``, for remote topics.
REMOTE_TOPIC_REPLICATION_FACTOR: Final = 2
#: MM2's ``heartbeats.topic.replication.factor`` and its like.
INTERNAL_TOPIC_REPLICATION_FACTOR: Final = 3

#: Where a config's value comes from, as Kafka's ``ConfigEntry.ConfigSource`` names it.
ConfigSource = Literal[
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "UNKNOWN",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    """One config of a topic. ``value`` is None where the broker keeps it back (``sensitive``) or has none."""

    value: str | None
    source: ConfigSource = "DYNAMIC_TOPIC_CONFIG"
    read_only: bool = False
    sensitive: bool = False

    @property
    def is_default(self) -> bool:
        """Whether it is Kafka's own default, set neither on the topic nor on a broker."""
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """A topic as one cluster lists it."""

    name: str
    partitions: int
    topic_id: TopicId = NO_TOPIC_ID
    is_internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRemoteTopic:
    """A topic to be created. ``replication_factor`` None: MM2's default, or the number of brokers where it is less."""

    name: str
    partitions: int
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


def effective_replication_factor(explicit: int | None, default: int, brokers: int) -> int:
    """The replication factor to create a topic with.

    An explicit value is taken as it is, so that a cluster that can't hold it says so; MM2's default gives way to a
    cluster with fewer brokers, where MM2 itself would fail.
    """
    return explicit if explicit is not None else max(1, min(default, brokers))
