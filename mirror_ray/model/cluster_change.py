"""Changes to a cluster and operator commands, as they are written to the audit log."""

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
        before, after = ("the target's default" if value is None else value for value in (self.before, self.after))
        return f"{self.key}: {before} -> {after} ({self.why})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChange:
    """One change, or one operator command. Values are texts; None: there was, or is, none."""

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
    """The commits of one group at one time; ``before``: what was committed before, where that is known."""
    replaced = {partition: before[partition] for partition in after if partition in before}
    return ClusterChange(
        kind="commit_offsets",
        cluster=cluster,
        subject=f"group {group}",
        before=_summary(replaced) if replaced else None,
        after=_summary(after),
    )


def many_committed(cluster: str, groups: Mapping[str, Mapping[TopicPartition, int]]) -> ClusterChange:
    """The commits of so many groups at one time that they have one entry together."""
    partitions = sum(map(len, groups.values()))
    lines = "\n".join(f"{group} {_listed(groups[group])}" for group in sorted(groups))
    return ClusterChange(
        kind="commit_offsets",
        cluster=cluster,
        subject=f"{len(groups)} more groups",
        after=f"{partitions} partitions, sha256 of all: {_digest(lines)}",
    )


def _summary(offsets: Mapping[TopicPartition, int]) -> str:
    if len(offsets) <= _PARTITIONS_NAMED:
        return _listed(offsets)
    topics = {partition.topic for partition in offsets}
    return f"{len(offsets)} partitions of {len(topics)} topics, sha256 of all: {_digest(_listed(offsets))}"


def _listed(offsets: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{partition}: {offset}" for partition, offset in sorted(offsets.items()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
