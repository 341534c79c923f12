"""The status of a flow's consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mirror_ray.groups.commit_rules import ACTIVE
from mirror_ray.groups.offset_state import GroupOffset, GroupOffsetState
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.observe.groups import GroupPartitionStatus, GroupState, GroupStatus
from mirror_ray.offsets.translation import Translation

#: The first one of a group's partitions' states in this order is the group's.
_BY_WEIGHT: Final[tuple[GroupState, ...]] = ("kept", "active", "behind", "uncopied", "translated", "synced")


def group_statuses(
    flow: FlowName,
    offsets: GroupOffsetState,
    remote_of: Callable[[TopicPartition], tuple[TopicPartition, bool] | None],
    *,
    listed: Mapping[str, tuple[str, str]],
    without_offsets: Mapping[str, str],
    problems: Mapping[str, str],
    synced: bool,
) -> Iterator[GroupStatus]:
    """Yield every group's status, by name.

    Args:
        flow: The flow.
        offsets: The state of its groups.
        remote_of: A source partition's name on the target, and whether it came from there; None: it is not copied.
        listed: Kind and state of each group on the source.
        without_offsets: Why a group has no offsets to be synced.
        problems: What could not be asked about a group in the last round.
        synced: Whether offsets are written to the target at all.
    """
    for group in sorted({*offsets.groups, *without_offsets, *problems} - {""}):
        entries = {p: entry for p, entry in offsets.groups.get(group, {}).items() if entry.source is not None}
        why = without_offsets.get(group) or problems.get(group)
        if not entries and why is None:
            continue
        partitions = tuple(
            _partition(offsets, entries[partition], remote_of(partition), synced=synced)
            for partition in sorted(entries)
        )
        states: set[GroupState] = {status.state for status in partitions}
        if group in without_offsets:
            states = {"kept"}
        elif why is not None:
            states = {"behind"}
        state = next(known for known in _BY_WEIGHT if known in states)
        kind, source_state = listed.get(group, ("", ""))
        reasons = (status.reason for status in partitions if status.state == state)
        yield GroupStatus(
            flow=str(flow),
            group=group,
            kind=kind,
            source_state=source_state,
            state=state,
            reason=why or next(filter(None, reasons), None),
            partitions=partitions,
        )


def _partition(
    offsets: GroupOffsetState, entry: GroupOffset, remote: tuple[TopicPartition, bool] | None, *, synced: bool
) -> GroupPartitionStatus:
    merged = offsets.merged.get(entry.key.group, {}).get(remote[0]) if remote and entry.shown is not None else None
    found, counted = (entry.shown, merged) if merged is not None else (entry.translation, entry)
    return GroupPartitionStatus(
        topic=entry.key.partition.topic,
        partition=entry.key.partition.partition,
        remote_topic=remote[0].topic if remote else "",
        source_offset=entry.source.offset if entry.source else -1,
        target_offset=found.offset if found else None,
        committed_offset=counted.on_target,
        exact=found is None or found.exact,
        state="uncopied" if remote is None else _state(offsets, counted, found, written=synced and not remote[1]),
        reason=(found.reason if found and merged else None) or counted.reason,
    )


def _state(offsets: GroupOffsetState, entry: GroupOffset, found: Translation | None, *, written: bool) -> GroupState:
    if found is None or found.offset is None:
        return "behind"
    if not written:
        return "translated"
    if entry in offsets.unsynced and entry.reason == ACTIVE:
        return "active"
    if entry in offsets.unsynced and entry.reason not in (None, found.reason):
        return "kept"
    return "behind" if found.waits or entry in offsets.unsynced else "synced"
