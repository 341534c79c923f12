"""How remote topics are named and recognised: MM2's replication policies, by MM2 4.3.0's rules.

Source: ``org.apache.kafka.connect.mirror.{ReplicationPolicy,DefaultReplicationPolicy,IdentityReplicationPolicy}``.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Protocol

DEFAULT_POLICY_CLASS: Final = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY_POLICY_CLASS: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

SEPARATOR_CONFIG: Final = "replication.policy.separator"
INTERNAL_SEPARATOR_CONFIG: Final = "replication.policy.internal.topic.separator.enabled"
SOURCE_ALIAS_CONFIG: Final = "source.cluster.alias"

#: Packages of Java classes, which a Python process can't load.
_JAVA_PACKAGES = ("org.apache.", "com.", "io.", "net.", "org.", "java.")


class ReplicationPolicy(ABC):
    """Names remote topics. Subclass it for a naming of your own.

    A subclass is constructed with one argument, the policy's part of the configuration (``replication.policy.*`` and
    ``source.cluster.alias``), as MM2 passes it to ``configure``. Methods must be pure: every process asks for itself.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)

    @abstractmethod
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name on the target of ``topic`` from the cluster ``source_alias``."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that a topic was copied from; None for a topic that is no copy."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """The name that a remote topic has on its source cluster; None for a topic that is no copy."""

    def original_topic(self, topic: str) -> str:
        """The name of the topic where it was first written, across any number of hops."""
        return self.upstream_names(topic)[-1]

    def upstream_names(self, topic: str) -> list[str]:
        """The topic's name, and the names that it may have on the clusters upstream, the nearest first."""
        names = [topic]
        while (upstream := self.upstream_topic(names[-1])) is not None and upstream not in names:
            names.append(upstream)
        return names

    def heartbeats_topic(self) -> str:
        """The topic that heartbeats are emitted to; the same under every policy."""
        return "heartbeats"

    def offset_syncs_topic(self, alias: str) -> str:
        """The topic of offset syncs, for the other cluster's alias."""
        return f"mm2-offset-syncs.{alias}.internal"

    def checkpoints_topic(self, alias: str) -> str:
        """The topic of checkpoints, for the source cluster's alias."""
        return f"{alias}.checkpoints.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether the topic holds heartbeats, emitted here or copied."""
        return self.heartbeats_topic() == self.original_topic(topic)

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether the topic holds checkpoints."""
        return topic.endswith(".checkpoints.internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Whether MM2 or mirror-ray keeps the topic for itself (mirror-ray's start with ``mm2-ray-``)."""
        return (topic.startswith("mm2") and topic.endswith(".internal")) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Whether the topic is never copied: Kafka's own, or MM2's."""
        return topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic)


class DefaultReplicationPolicy(ReplicationPolicy):
    """MM2's default: the source's alias is put before the name, ``A.orders``.

    Args:
        separator: Stands between alias and name. Not empty.
        internal_separator: Used in the names of checkpoints and offset-syncs topics; None: same as ``separator``.
    """

    def __init__(self, separator: str = ".", internal_separator: str | None = None) -> None:
        super().__init__({SEPARATOR_CONFIG: separator})
        if not separator:
            raise ValueError(
                f"{SEPARATOR_CONFIG} is empty: copies could not be told from originals; set it, e.g. to '.'"
            )
        self.separator = separator
        self.internal_separator = separator if internal_separator is None else internal_separator

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Alias + separator + name."""
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """The first piece of the name. Any dotted name looks remote, as in MM2."""
        source, found, rest = topic.partition(self.separator)
        # Java's split drops empty pieces at the end, so "a." and "a.." have one piece: no source.
        while rest.startswith(self.separator):
            rest = rest.removeprefix(self.separator)
        return source if found and rest else None

    def upstream_topic(self, topic: str) -> str | None:
        """The name without its first piece."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def offset_syncs_topic(self, alias: str) -> str:
        """``mm2-offset-syncs.<alias>.internal``, with the internal separator."""
        return self.internal_separator.join(("mm2-offset-syncs", alias, "internal"))

    def checkpoints_topic(self, alias: str) -> str:
        """``<alias>.checkpoints.internal``, with the internal separator."""
        return self.internal_separator.join((alias, "checkpoints", "internal"))

    def is_checkpoints_topic(self, topic: str) -> bool:
        """By the end of the name."""
        return topic.endswith(self.internal_separator.join(("", "checkpoints", "internal")))

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """By beginning and end of the name, with the internal separator."""
        # Ours always end in ".internal", whatever the separator, like the Connect worker's own topics of MM2.
        if topic.startswith("mm2-ray-") and topic.endswith(".internal"):
            return True
        ours = topic.startswith("mm2") and topic.endswith(f"{self.internal_separator}internal")
        return ours or self.is_checkpoints_topic(topic)


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """MM2's identity policy: names stay as they are, but heartbeats are renamed, so that they can be told apart.

    Cycles can't be seen from such names. A topic's source is taken to be ``source_alias``.
    """

    def __init__(
        self, separator: str = ".", internal_separator: str | None = None, source_alias: str | None = None
    ) -> None:
        super().__init__(separator, internal_separator)
        self.source_alias = source_alias

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name unchanged, except for heartbeats."""
        return super().format_remote_topic(source_alias, topic) if self._looks_like_heartbeat(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """The configured source, except for heartbeats."""
        return super().topic_source(topic) if self._looks_like_heartbeat(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """The name unchanged, except for heartbeats."""
        return super().upstream_topic(topic) if self._looks_like_heartbeat(topic) else topic

    def _looks_like_heartbeat(self, topic: str) -> bool:
        return topic.endswith(self.heartbeats_topic())


_MM2_POLICIES: Final[Mapping[str, type[ReplicationPolicy]]] = {
    DEFAULT_POLICY_CLASS: DefaultReplicationPolicy,
    IDENTITY_POLICY_CLASS: IdentityReplicationPolicy,
}


class PolicyValues(Protocol):
    """What ``load_policy`` needs to know; ``PolicySettings`` has it."""

    @property
    def class_name(self) -> str:
        """MM2's Java class name or a Python ``package.module.Class``."""

    @property
    def separator(self) -> str:
        """``replication.policy.separator``."""

    @property
    def internal_topic_separator_enabled(self) -> bool:
        """``replication.policy.internal.topic.separator.enabled``."""

    @property
    def options(self) -> Mapping[str, str]:
        """All other ``replication.policy.*`` keys, for a class of the user's own."""


def load_policy(values: PolicyValues, source_alias: str | None) -> ReplicationPolicy:
    """Build the policy that a configuration names; ``source_alias`` None where it names no source cluster.

    Raises:
        ValueError: The class is a Java class other than MM2's two, can't be imported, or is no ReplicationPolicy.
    """
    internal = values.separator if values.internal_topic_separator_enabled else "."
    found = _MM2_POLICIES.get(values.class_name) or _import_policy(values.class_name)
    # Ours take values, not the mapping.
    if found is DefaultReplicationPolicy:
        return DefaultReplicationPolicy(values.separator, internal)
    if found is IdentityReplicationPolicy:
        return IdentityReplicationPolicy(values.separator, internal, source_alias)
    config = {
        **values.options,
        SEPARATOR_CONFIG: values.separator,
        INTERNAL_SEPARATOR_CONFIG: str(values.internal_topic_separator_enabled).lower(),
        **({} if source_alias is None else {SOURCE_ALIAS_CONFIG: source_alias}),
    }
    try:
        return found(config)
    except Exception as error:
        raise ValueError(f"{values.class_name} could not be built from its configuration: {error}") from error


def _import_policy(class_name: str) -> type[ReplicationPolicy]:
    advice = (
        "use MM2's DefaultReplicationPolicy or IdentityReplicationPolicy, or the importable name package.module.Class "
        "of a Python subclass of mirror_ray.model.policy.ReplicationPolicy"
    )
    module_name, _, name = class_name.rpartition(".")
    if not module_name:
        raise ValueError(f"{class_name!r} names no module; {advice}")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        if class_name.startswith(_JAVA_PACKAGES):
            raise ValueError(f"{class_name} is a Java class, which can't be carried over; {advice}") from error
        raise ValueError(f"{class_name} can't be imported ({error}); {advice}") from error
    if not (isinstance(found, type) and issubclass(found, ReplicationPolicy)):
        raise ValueError(f"{class_name} is not a ReplicationPolicy; {advice}")  # noqa: TRY004
    return found
