"""Remote topics' names by configuration: by a map, else by the first rename pattern that fits.

What neither names, the replication policy does. A replacement refers to groups as Java's ``Matcher.replaceAll`` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mirror_ray.model.pattern_syntax import escaped
from mirror_ray.model.patterns import Pattern, compile_patterns
from mirror_ray.model.policy import ReplicationPolicy

#: ``org.apache.kafka.common.internals.Topic``.
MAX_NAME_LENGTH: Final = 249
_LEGAL = re.compile(r"[A-Za-z0-9._-]+")
_REFERENCE = re.compile(r"\$(?:(?P<number>\d+)|\{(?P<name>\w+)\})", re.ASCII)

_CHARACTERS = "letters, digits, '.', '_' and '-' alone may be in it"

#: What names a topic.
NamedBy = Literal["map", "rename", "policy"]


def illegal_name(name: str) -> str | None:
    """Why Kafka takes no topic of that name; None: it does."""
    if not name:
        return "a topic's name can't be empty"
    if name in (".", ".."):
        return f"{name!r} can't be a topic's name"
    if len(name) > MAX_NAME_LENGTH:
        return f"{name[:40]}... has {len(name)} characters, a topic's name at most {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"{name!r} can't be a topic's name: {_CHARACTERS}"
    return None


def reserved_name(policy: ReplicationPolicy, name: str) -> str | None:
    """Why a topic of that name must not be a remote topic, nor be renamed; None: it may."""
    if policy.is_internal_topic(name):
        return f"{name} is an internal topic of Kafka or MirrorMaker 2"
    return f"{name} is a topic of heartbeats" if policy.is_heartbeats_topic(name) else None


class Rename:
    """One pattern and its replacement.

    Raises:
        ValueError: No regular expression; a group that it does not have; or a replacement that no topic can have.
    """

    def __init__(self, match: str, to: str) -> None:
        """``match`` must fit a whole name; ``to`` has ``$1``, ``${1}`` or ``${name}`` for the pattern's groups."""
        pattern = compile_patterns([match]) if match else None
        if pattern is None:
            raise ValueError("a rename pattern is empty; .* fits every name")
        self.match, self.to, self._pattern = match, to, pattern
        self._parts = tuple(_parts(pattern, match, to))
        literals = "".join(part for part in self._parts if isinstance(part, str))
        why = None
        if not self._parts:
            why = "the replacement is empty"
        elif self.constant is not None:
            why = illegal_name(literals)
        elif literals and not _LEGAL.fullmatch(literals):
            why = _CHARACTERS
        if why is not None:
            raise ValueError(f"{match!r} can't be renamed to {to!r}: {why}")
        self._image = Pattern("".join(escaped(part) if isinstance(part, str) else ".*" for part in self._parts))

    @property
    def constant(self) -> str | None:
        """The one name that all topics get; None: it refers to groups."""
        return self.to if not any(isinstance(part, int) for part in self._parts) else None

    @property
    def is_groups_alone(self) -> bool:
        """Whether the replacement allows any name."""
        return not any(isinstance(part, str) for part in self._parts)

    def apply(self, topic: str) -> str | None:
        """The topic's new name; None: the pattern does not fit."""
        found = self._pattern.groups_of(topic)
        if found is None:
            return None
        return "".join(part if isinstance(part, str) else found[part] or "" for part in self._parts)

    def may_give(self, name: str) -> bool:
        """Whether some topic might get that name, whatever the groups can hold."""
        return self._image.fits(name)


def _parts(pattern: Pattern, match: str, to: str) -> list[str | int]:
    """Literal text, and groups by number."""
    parts: list[str | int] = []
    at = 0
    for reference in _REFERENCE.finditer(to):
        parts.append(to[at : reference.start()])
        digits, name = reference["number"], reference["name"]
        at = reference.end()
        if digits is not None:
            # As in Java: as many digits as there is such a group.
            length = next((n for n in range(len(digits), 0, -1) if int(digits[:n]) <= pattern.groups), 0)
            if not length:
                raise ValueError(f"{to!r} refers to group {digits}, {match!r} has {pattern.groups}")
            parts.append(int(digits[:length]))
            at -= len(digits) - length
        elif name.isdigit() and int(name) <= pattern.groups:
            parts.append(int(name))
        elif name in pattern.groupindex:
            parts.append(pattern.groupindex[name])
        else:
            raise ValueError(f"{to!r} refers to group {name!r}, which {match!r} does not have")
    parts.append(to[at:])
    return [part for part in parts if part != ""]


class TopicNames:
    """The names that one flow gives; false where it gives none."""

    def __init__(self, mapped: Mapping[str, str] | None = None, renames: Sequence[Rename] = ()) -> None:
        self.mapped = dict(mapped or {})
        self.renames = tuple(renames)

    def __bool__(self) -> bool:
        return bool(self.mapped or self.renames)

    def of(self, topic: str) -> str | None:
        """The remote topic's name; None: the policy gives it."""
        mapped = self.mapped.get(topic)
        if mapped is not None:
            return mapped
        return next((name for rename in self.renames if (name := rename.apply(topic)) is not None), None)

    def named_by(self, topic: str) -> NamedBy:
        """What names the topic."""
        if topic in self.mapped:
            return "map"
        return "policy" if self.of(topic) is None else "rename"

    def mapped_from(self, remote: str) -> tuple[str, ...]:
        """The topics that the map gives that name."""
        return tuple(topic for topic, name in self.mapped.items() if name == remote)

    def may_rename_to(self, remote: str) -> bool:
        """Whether a pattern might give that name to some topic."""
        return any(rename.may_give(remote) for rename in self.renames)

    def may_give(self, remote: str) -> bool:
        """Whether the map or a pattern might give that name."""
        return remote in self.mapped.values() or self.may_rename_to(remote)


NO_NAMES: Final = TopicNames()


@dataclass(frozen=True, slots=True)
class FlowNames:
    """The names that a flow from one cluster to another gives, by the clusters' aliases."""

    source: str
    target: str
    names: TopicNames
    #: Whether they are those of a route: beside them the flow has its own.
    of_route: bool = False


class NamedPolicy(ReplicationPolicy):
    """A policy beside which one flow's map and patterns give names: it knows those copies, too.

    What a pattern renamed has no upstream name here: it is found among the topics of the source.
    """

    def __init__(self, policy: ReplicationPolicy, names: TopicNames, source_alias: str) -> None:
        """``source_alias``: the flow's source."""
        super().__init__(policy.config)
        self._policy, self._names, self._source_alias = policy, names, source_alias

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name that is given, else the policy's."""
        given = source_alias == self._source_alias and not self._policy.is_heartbeats_topic(topic)
        named = self._names.of(topic) if given else None
        return self._policy.format_remote_topic(source_alias, topic) if named is None else named

    def topic_source(self, topic: str) -> str | None:
        """The flow's source for a name that is, or may be, given; else as the policy says."""
        return self._source_alias if self._is_given(topic) else self._policy.topic_source(topic)

    def upstream_topic(self, topic: str) -> str | None:
        """The topic that the map gives the name, where it is one; None for what a pattern may have renamed."""
        if not self._is_given(topic):
            return self._policy.upstream_topic(topic)
        mapped = self._names.mapped_from(topic)
        return mapped[0] if len(mapped) == 1 else None

    def heartbeats_topic(self) -> str:
        """The policy's."""
        return self._policy.heartbeats_topic()

    def offset_syncs_topic(self, alias: str) -> str:
        """The policy's."""
        return self._policy.offset_syncs_topic(alias)

    def checkpoints_topic(self, alias: str) -> str:
        """The policy's."""
        return self._policy.checkpoints_topic(alias)

    def is_heartbeats_topic(self, topic: str) -> bool:
        """As the policy says."""
        return self._policy.is_heartbeats_topic(topic)

    def is_checkpoints_topic(self, topic: str) -> bool:
        """As the policy says."""
        return self._policy.is_checkpoints_topic(topic)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """As the policy says."""
        return self._policy.is_mm2_internal_topic(topic)

    def _is_given(self, topic: str) -> bool:
        reserved = self._policy.is_heartbeats_topic(topic) or self._policy.is_internal_topic(topic)
        return not reserved and self._names.may_give(topic)
