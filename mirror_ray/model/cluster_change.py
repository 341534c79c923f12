"""A change that is made to a cluster, as whoever makes it tells it to the audit log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mirror_ray.model.names import TopicPartition

#: Of one group and round, so many partitions are named; of more there is a digest.
_PARTITIONS_NAMED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One config to be altered. Values are those set on the remote topic itself; None: the target's default holds."""

    key: str
    before: str | None
    after: str | None
    why: str

    def __str__(self) -> str:
        before, after = ("the target's default" if each is None else each for each in (self.before, self.after))
        return f"{self.key}: {before} -> {after} ({self.why})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChange:
    """One change, or one act of an operator. Values are texts; None: there was, or is, none."""

    #: ``create_topic``, ``commit_offsets``, ``pause``: what is done; docs/audit.md has all.
    kind: str
    #: The cluster's alias; "" for what is done to the system.
    cluster: str
    #: ``topic A.orders``, ``group billing``, ``flow A->B``.
    subject: str
    before: str | None = None
    after: str | None = None
    why: str = ""


def committed(
    cluster: str, group: str, before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]
) -> ClusterChange:
    """The commits of one group at one time; ``before``: what had stood there, where that is known."""
    there = {each: before[each] for each in after if each in before}
    return ClusterChange(
        kind="commit_offsets",
        cluster=cluster,
        subject=f"group {group}",
        before=_places(there) if there else None,
        after=_places(after),
    )


def many_committed(cluster: str, groups: Mapping[str, Mapping[TopicPartition, int]]) -> ClusterChange:
    """The commits of so many groups at one time that they are not told one by one."""
    partitions = sum(len(each) for each in groups.values())
    lines = "\n".join(f"{group} {_listed(groups[group])}" for group in sorted(groups))
    return ClusterChange(
        kind="commit_offsets",
        cluster=cluster,
        subject=f"{len(groups)} more groups",
        after=f"{partitions} partitions, sha256 of all: {_digest(lines)}",
    )


def _places(offsets: Mapping[TopicPartition, int]) -> str:
    if len(offsets) <= _PARTITIONS_NAMED:
        return _listed(offsets)
    topics = {each.topic for each in offsets}
    return f"{len(offsets)} partitions of {len(topics)} topics, sha256 of all: {_digest(_listed(offsets))}"


def _listed(offsets: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}: {offsets[each]}" for each in sorted(offsets))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
