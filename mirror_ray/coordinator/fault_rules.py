"""What becomes of a partition with a fault: which policies can be chosen, and what each means.

====================  =========================================  ==================================================
kind                  skip                                       resync
====================  =========================================  ==================================================
source_removed        go on at the first record that is left     the same: nothing brings them back
source_truncated      go on where both logs still agree; the     empty the target, copy from the source's start
                      target keeps what the source lost
source_recreated      copy the new topic behind the old one's    empty the target, copy the new topic
                      records
target_missing,       go on at the position, in the new topic    copy from the source's start
target_recreated      if that is empty                           if the new topic is empty
target_truncated      go on at the position, behind what is      recover the position of what is left, go on there;
                      left                                       where that fails, empty the target and copy anew
target_foreign        accept what others wrote, and go on        empty the target, copy from the source's start
copy_lost             no answer: it could double                 empty the target, copy from the source's start; where
                                                                 it is empty already, copy from the last pair known
record_refused        leave the records out                      no answer: the target would refuse them again
transform_failed      leave the records out                      no answer: it would fail again
====================  =========================================  ==================================================

Where offsets are preserved, what would need other offsets on the target is refused: its remote topic has to be deleted,
and is then created and copied anew. What is skipped is a gap there, and is filled; resync of a target that was
truncated goes on at its log end.

What others wrote is never deleted: a partition that is shared is not emptied. Where resync would empty it, the copy
goes on from the last pair that is known, behind all that is there: nothing is left out, what was copied since is twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mirror_ray.model.fault import LEFT_OUT_KINDS, TOPIC_KINDS, FaultKind, FaultPolicy, PartitionFault
from mirror_ray.model.names import TopicId
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FaultResolution, SkippedRange

#: The flow and its routes have these faults at the same source offset, and one resolution is for all of them.
SOURCE_KINDS: frozenset[FaultKind] = frozenset(
    {"source_removed", "source_truncated", "source_recreated", "transform_failed"}
)
#: Resync recovers the position without emptying, unless that ends in one of these.
_RECOUNT_FAILED: frozenset[FaultKind] = frozenset(
    {"target_truncated", "target_foreign", "copy_lost", "source_removed", "source_truncated"}
)
#: Faults that can be resolved by resync where others write to the remote topic, too.
_SHARED_RESYNC: frozenset[FaultKind] = frozenset(
    {"source_removed", "target_missing", "target_recreated", "target_truncated", "copy_lost"}
)
#: Why a policy is none for a kind.
_REFUSED: dict[tuple[FaultKind, FaultPolicy], str] = {
    ("copy_lost", "skip"): "where to go on is not known, so skipping could copy records twice; resync copies it anew",
    ("record_refused", "resync"): "the target would refuse the record again; skip leaves it out",
    ("transform_failed", "resync"): "the transform would fail again; skip leaves the record out",
}
#: What can be followed where offsets are preserved: the target's log can grow alone, and a gap in it can be filled.
_WITH_PRESERVED_OFFSETS: frozenset[tuple[FaultKind, FaultPolicy]] = frozenset(
    {
        ("source_removed", "skip"),
        ("source_removed", "resync"),
        ("target_missing", "resync"),
        ("target_recreated", "resync"),
        ("target_truncated", "skip"),
        ("target_truncated", "resync"),
        ("record_refused", "skip"),
        ("transform_failed", "skip"),
    }
)
#: Beyond so many ranges of records left out, those behind the position are forgotten, and the origin moves up.
_SKIPS_KEPT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContext:
    """Both sides of a partition, at a moment when nobody copies it."""

    source_topic_id: TopicId
    source_start: int
    target_topic_id: TopicId
    target_start: int
    #: Where what is committed ends; whether that is all that the leader holds.
    target_end: int
    target_settled: bool = True

    @property
    def target_is_empty(self) -> bool:
        """Whether the target partition holds no record."""
        return self.target_start == self.target_end


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultAction:
    """What is to be done: empty the target, get a producer, write record and skipped range in one transaction."""

    record: PartitionRecord
    gap: SkippedRange
    #: The record is dropped instead: the partition begins as one that was never copied.
    anew: bool = False
    #: Delete the target's records up to here.
    empty_to: int | None = None
    #: The broker's state of the partition's producer does not fit the new position: it needs one of its own.
    new_producer: bool = False


def refused_policy(kind: FaultKind, policy: FaultPolicy, *, shared: bool, preserved: bool = False) -> str | None:
    """Why a policy can't be followed; None where it can. ``preserved``: offsets are the same on both clusters."""
    if policy == "stop":
        return "the policy is to stop"
    if preserved and (kind, policy) not in _WITH_PRESERVED_OFFSETS:
        return (
            "its offsets could not be the source's any more: delete the remote topic, and resolve that by resync; or "
            "leave its topic out of offsets.topics"
        )
    if policy == "resync" and shared and kind not in _SHARED_RESYNC | LEFT_OUT_KINDS:
        return "others write to the remote topic too, and emptying it would delete their records; skip goes on"
    return _REFUSED.get((kind, policy))


def policies_for(kind: FaultKind, *, shared: bool, preserved: bool = False) -> tuple[FaultPolicy, ...]:
    """The policies that an operator may choose from."""
    offered: tuple[FaultPolicy, ...] = ("skip", "resync")
    return tuple(
        policy for policy in offered if refused_policy(kind, policy, shared=shared, preserved=preserved) is None
    )


def still_holds(resolution: FaultResolution, decided: OffsetPair, latest: OffsetPair) -> bool:
    """Whether a decision made at the pair ``decided`` still holds at ``latest``, the pair when nobody copies any more.

    A record that is refused, or fails, stops its partition before the batches in front of it are acknowledged.
    """
    if resolution.trouble.kind in LEFT_OUT_KINDS:
        return latest.source_offset <= resolution.trouble.source_from
    return resolution.trouble.kind in TOPIC_KINDS or latest == decided


def find_action(resolution: FaultResolution, record: PartitionRecord, context: FaultContext) -> FaultAction | str:
    """What following the policy means now; a sentence where it must not be followed after all.

    ``record`` holds the pair that the copier had reached when it met the fault.
    """
    fault, policy = resolution.trouble, resolution.policy
    reason = refused_policy(fault.kind, policy, shared=record.shared, preserved=record.preserve_offsets)
    if reason is not None:
        return reason
    other = _other_topic(fault.kind, record, context) or _other_range(fault.kind, record)
    if other is not None:
        return other
    if fault.kind in ("target_missing", "target_recreated") and not context.target_is_empty:
        return (
            f"the new remote topic holds records (offsets {context.target_start} to {context.target_end - 1}) that "
            f"nothing accounts for: delete it, or exclude the topic"
        )
    if policy == "resync" and (fault.kind != "source_removed" or recount_failed(record, fault)):
        return _kept_from_routes(_resync(resolution, record, context), record, fault.kind)
    return _skip(resolution, record, context)


def _other_topic(kind: FaultKind, record: PartitionRecord, context: FaultContext) -> str | None:
    """Why an answer about single partitions is not about the topics that are there now; None where it is."""
    if kind in TOPIC_KINDS:
        return None
    if context.target_topic_id != record.target_topic_id:
        return f"the remote topic was created again meanwhile (topic id {context.target_topic_id})"
    if context.source_topic_id != record.source_topic_id:
        return f"the source topic was created again meanwhile (topic id {context.source_topic_id})"
    return None


def _other_range(kind: FaultKind, record: PartitionRecord) -> str | None:
    """Why a copy that has an end must not go on in another topic; None where it may."""
    if kind != "source_recreated" or record.end_offset is None:
        return None
    return (
        f"its copy ends at source offset {record.end_offset} of the former topic, where the new one has other records: "
        f"cancel the backfill, and ask for a range of the new topic"
    )


def _kept_from_routes(action: FaultAction, record: PartitionRecord, kind: FaultKind) -> FaultAction | str:
    """The action, unless it would copy again what the flow's routes have never been offered."""
    begin, source_offset = record.routes_from, action.record.source_offset
    if begin is None or begin <= source_offset or kind == "source_recreated":
        return action
    return (
        f"its routes take records from source offset {begin} on, and the copy would begin anew at {source_offset}: "
        f"what lies between and would go to them now would be nowhere"
    )


def _skip(resolution: FaultResolution, record: PartitionRecord, context: FaultContext) -> FaultAction | str:
    fault = resolution.trouble
    match fault.kind:
        case "source_removed" | "source_truncated":
            return _go_on(resolution, record, context)
        case "source_recreated":
            moved = record.of_new_source(context.source_topic_id, context.source_start)
            untouched = context.target_end == record.target_offset
            action = _begin(resolution, moved, context, context.source_start, untouched=untouched)
            boundary = replace(resolution.skipped_range(), target_from=context.target_end, target_to=context.target_end)
            return replace(action, gap=boundary)
        case "target_missing" | "target_recreated":
            return _begin(resolution, record.of_new_target(context.target_topic_id), context, record.source_offset)
        case "target_truncated":
            return _begin(resolution, record.of_cut_target(_cut_at(fault, context)), context, record.source_offset)
        case "target_foreign":
            # The pair stays: the newest batch of ours behind it shows how far the copy has come.
            pair = replace(record.pair, sequence=record.pair.next_sequence)
            return FaultAction(
                record=replace(record.at(pair), foreign_to=context.target_end), gap=resolution.skipped_range()
            )
        case "record_refused" | "transform_failed":
            left_out = (*record.skip, (fault.source_from, fault.source_to))
            return FaultAction(record=_with_skips(record, left_out), gap=resolution.skipped_range())
        case _:
            raise AssertionError(fault.kind)


def _resync(resolution: FaultResolution, record: PartitionRecord, context: FaultContext) -> FaultAction:
    kind = resolution.trouble.kind
    if record.preserve_offsets and kind in TOPIC_KINDS:
        return FaultAction(record=record, gap=resolution.skipped_range(), anew=True)
    if record.preserve_offsets and kind == "target_truncated":
        cut = record.of_cut_target(_cut_at(resolution.trouble, context))
        return _begin(resolution, cut, context, context.target_end)
    if record.source_topic_id != context.source_topic_id:
        record = record.of_new_source(context.source_topic_id, context.source_start)
    start = max(context.source_start, record.begins_at or 0)
    if kind in ("target_missing", "target_recreated"):
        return _begin(resolution, record.of_new_target(context.target_topic_id), context, start)
    if kind == "target_truncated":
        record = record.of_cut_target(_cut_at(resolution.trouble, context))
        if _can_recount(record, context):
            return FaultAction(
                record=replace(record.at(record.origin), recounting=True), gap=resolution.skipped_range()
            )
    if record.shared or _goes_on_empty(resolution.trouble, record, context):
        return _copy_on(resolution, record, context)
    begun = replace(record, recounting=False, skip=())
    return replace(_begin(resolution, begun, context, start), empty_to=context.target_end)


def _can_recount(record: PartitionRecord, context: FaultContext) -> bool:
    """Whether both logs still hold what lies behind the origin, and recovery from there has not just failed."""
    origin = record.origin
    there = context.source_start <= origin.source_offset and origin.target_offset <= context.target_end
    return there and not record.recounting


def _goes_on_empty(fault: PartitionFault, record: PartitionRecord, context: FaultContext) -> bool:
    """Whether nothing is left on the target that what is copied again could double."""
    return fault.kind == "copy_lost" and context.target_is_empty and record.source_offset >= context.source_start


def _copy_on(resolution: FaultResolution, record: PartitionRecord, context: FaultContext) -> FaultAction:
    """Copy on from the last pair that is known, behind all that is there: what was copied since then comes twice."""
    source = max(record.source_offset, context.source_start)
    if resolution.trouble.kind == "target_truncated" and not record.recounting:
        # The lost records lie before the pair, and the source does not hold all records since the copy began.
        source = max(context.source_start, record.begins_at or 0)
    action = _begin(resolution, record, context, source)
    return replace(action, gap=replace(action.gap, target_to=context.target_end))


def _cut_at(fault: PartitionFault, context: FaultContext) -> int:
    """From where on a truncated target's log is another one."""
    return context.target_end if fault.target_from < 0 else min(fault.target_from, context.target_end)


def recount_failed(record: PartitionRecord, fault: PartitionFault) -> bool:
    """Whether recovering the position has ended in this fault, so that the target is to be emptied after all."""
    return record.recounting and fault.kind in _RECOUNT_FAILED


def _go_on(resolution: FaultResolution, record: PartitionRecord, context: FaultContext) -> FaultAction | str:
    """Go on at another source offset with the same target offset, as the replicator found it."""
    pair = resolution.trouble.resume
    if pair is None:
        return "the copier could not tell where to go on"
    if not record.shared and context.target_end != pair.target_offset:
        return (
            f"the target ends at {context.target_end}, and the pair to go on from is at {pair.target_offset}: which "
            f"source records lie between can't be told any more"
        )
    if resolution.trouble.kind == "source_truncated":
        record = record.of_cut_source(pair.source_offset)
    return FaultAction(record=record.at(pair).with_origin(pair), gap=resolution.skipped_range())


def _begin(
    resolution: FaultResolution,
    record: PartitionRecord,
    context: FaultContext,
    source_offset: int,
    *,
    untouched: bool = False,
) -> FaultAction:
    """A new pair at the target's end. ``untouched``: nothing was written or lost there since the old one."""
    target_offset = context.target_end
    pair = OffsetPair(source_offset, target_offset, record.sequence if untouched else 0 if record.shared else None)
    if record.transforms_source_offset is not None:
        # What is compared of records that others than today's transforms have made begins here anew.
        record = replace(record, transforms_source_offset=source_offset, transforms_target_offset=target_offset)
    return FaultAction(
        record=replace(record.at(pair).with_origin(pair), recounting=False),
        gap=resolution.skipped_range(),
        new_producer=not untouched,
    )


def _with_skips(record: PartitionRecord, ranges: Iterable[tuple[int, int]]) -> PartitionRecord:
    merged: list[tuple[int, int]] = []
    for first, end in sorted(set(ranges)):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    if len(merged) <= _SKIPS_KEPT:
        return replace(record, skip=tuple(merged))
    ahead = tuple(skipped for skipped in merged if skipped[1] > record.source_offset)
    return replace(record, skip=ahead).with_origin(record.pair)
