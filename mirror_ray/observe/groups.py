"""The status of consumer groups: frozen values that are passed between processes and become JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from mirror_ray.observe.figures import figure, gauge

#: synced: the group's committed offset on the target is the translated one.
#: active: the group has members on the target.
#: behind: its committed offset on the source was not copied yet a moment ago. Usual while records are copied.
#: kept: its committed offset on the target differs, and the reason says why it is not overwritten.
#: uncopied: the flow does not copy the topic.
#: translated: the translated offset is not committed, by the configuration, or because the topic came from the target.
GroupState = Literal["synced", "translated", "uncopied", "behind", "active", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitionStatus:
    """One group, one partition."""

    topic: str
    partition: int
    #: Its name on the target; "" if the flow does not copy the topic.
    remote_topic: str
    #: The committed offset on the source.
    source_offset: int
    #: The translated offset; None: there is none yet.
    target_offset: int | None
    #: Whether the translated offset is exact; else it is a lower bound.
    exact: bool
    state: GroupState
    reason: str | None
    #: The committed offset on the target as last read; None: there is none, or it was not read.
    committed_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """One group of a flow."""

    flow: str
    group: str
    #: The type by the source's brokers: ``classic``, ``consumer``, ``share``, ``streams``; "" before Kafka 3.8.
    kind: str
    #: The group's state on the source: ``Stable``, ``Empty`` and so on.
    source_state: str
    state: GroupState
    reason: str | None
    partitions: tuple[GroupPartitionStatus, ...]

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.flow}  {self.group}  {self.state}{why}  {len(self.partitions)} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowGroups:
    """How the group sync of one flow proceeds."""

    groups: int = field(metadata=figure(metric=gauge("groups", "Consumer groups that are carried over.")))
    #: Pairs of group and partition without an exact target offset that the group has not committed on the target yet.
    untranslated: int = field(
        metadata=figure(
            metric=gauge("group_offsets_untranslated", "Offsets of groups that have no exact place on the target yet.")
        )
    )
    unsynced: int = field(
        metadata=figure(metric=gauge("group_offsets_unsynced", "Offsets of groups that stand elsewhere on the target."))
    )
    round_s: float | None
    problem: str | None
    #: Since the last round that succeeded, or since the first was to begin; None: groups are not synced.
    age_s: float | None = field(
        default=None,
        metadata=figure(metric=gauge("checkpoint_age_seconds", "Since consumer groups were last carried over.")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """The report of a checkpoint actor to the coordinator."""

    #: (time in ms, level, subject, text), oldest first.
    events: tuple[tuple[int, str, str, str], ...]
    flows: dict[str, FlowGroups]
    #: Why a flow's audit log does not have all commits for its groups.
    audit: dict[str, str] = field(default_factory=dict)
