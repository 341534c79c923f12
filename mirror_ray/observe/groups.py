"""Snapshots of consumer groups on their way: frozen values that travel between processes and become JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from mirror_ray.observe.figures import figure, gauge

#: synced: the group stands on the target where it stands on the source.
#: active: it has members on the target.
#: behind: it follows; a moment ago its offset on the source was not copied yet. Usual while records flow.
#: kept: it stands elsewhere on the target, and the reason says why it is left there.
#: uncopied: the flow does not copy the topic.
#: translated: its place is known and not written, by the configuration, or because the topic came from the target.
GroupState = Literal["synced", "translated", "uncopied", "behind", "active", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitionStatus:
    """One group, one partition."""

    topic: str
    partition: int
    #: On the target; "" where the flow does not copy the topic.
    remote_topic: str
    #: Committed on the source.
    source_offset: int
    #: Where that is on the target; None: there is no such place yet.
    target_offset: int | None
    #: Whether it is the very place; else some records before it.
    exact: bool
    state: GroupState
    reason: str | None
    #: Where the group stood on the target when that was last seen; None: nowhere, or it was not looked at.
    committed_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """One group of a flow."""

    flow: str
    group: str
    #: As the source's brokers call it: ``classic``, ``consumer``, ``share``, ``streams``; "" before Kafka 3.8.
    kind: str
    #: On the source: ``Stable``, ``Empty`` and so on.
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
    """What a checkpoint actor tells the coordinator."""

    #: (time in ms, level, subject, text), oldest first.
    events: tuple[tuple[int, str, str, str], ...]
    flows: dict[str, FlowGroups]
    #: Why a flow's audit log has not all that was committed for its groups.
    audit: dict[str, str] = field(default_factory=dict)
