"""What of a partition lies outside of what is compared.

Every target offset is either compared, or accounted for by the flow's offset map, or read to see who wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirror_ray.model.names import TopicPartition
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import Pause
from mirror_ray.state.schema import FlowStateRecords
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.range_bounds import LogBounds
from mirror_ray.verification.ranges import PositionPair, Span, subtract_spans
from mirror_ray.verification.report import Halt, UncomparedAccount


def with_uncompared(
    job: CompareJob,
    *,
    reached: PositionPair | None,
    source: LogBounds,
    target: LogBounds,
    target_end: int,
    record: PartitionRecord | None,
    mapped: Sequence[Span],
    since: bool = False,
    headers_only: bool = False,
) -> CompareJob:
    """Add to a job what lies outside of what it compares: figures, and the target offsets that are to be read.

    ``reached`` is how far the copy has come, None where no copy is known; ``target_end`` is where the remote partition
    ended when the command began. ``mapped`` are target offsets that the offset map accounts for; in a shared topic, the
    maps of all that is copied there. ``since``: only records from some time on are wanted.
    """
    if reached is None:
        # Where the flow has written nothing, the reason why it can't be compared covers what others wrote.
        return replace(job, account=UncomparedAccount(not_copied=max(0, source.stable - source.start)))
    shared = record is not None and record.shared
    copy_start = 0 if record is None or shared else record.origin.target_offset
    source_copy_start = 0 if record is None else record.origin.source_offset
    is_compared = job.begin.target >= 0
    begin = min(job.begin.target, job.end.target) if is_compared else reached.target
    from_start = is_compared and not since
    account = UncomparedAccount(
        not_copied=max(0, source.stable - reached.source),
        before_copy=max(0, min(source_copy_start, job.begin.source) - source.start) if from_start else 0,
        before_copy_target=max(0, min(copy_start, begin) - target.start) if from_start else 0,
        removed_on_source=max(0, begin - max(target.start, copy_start)) if from_start and not shared else 0,
        removed_on_target=(
            max(0, job.begin.source - max(source.start, source_copy_start)) if from_start and not shared else 0
        ),
    )
    accounted = list(mapped)
    if shared:
        accounted += [(span.target, span.target_end) for span in job.ranges]
    else:
        accounted = [(first, min(end, reached.target)) for first, end in mapped]
        accounted += [(begin, max(begin, job.end.target))] if is_compared else []
    first = target.start if from_start or headers_only else begin
    return replace(
        job,
        uncompared=tuple(subtract_spans((first, max(first, target_end)), accounted)),
        acknowledged=reached,
        copy_start=copy_start,
        source_end=source.stable,
        account=account,
    )


def halt_of(state: FlowStateRecords, source: TopicPartition, running: PartitionStatus | None) -> Halt | None:
    """Why a partition is not copied at the moment: as the running system says, else as its state does; None: it is."""
    if running is not None:
        if running.state == "paused":
            return Halt("paused", running.reason or "an operator paused it")
        halted = running.state in ("stopped", "refused")
        return Halt("stopped", running.reason or running.state) if halted else None
    if state.handed_back_ms is not None:
        return Halt("stopped", "the flow was handed back to MirrorMaker 2")
    if source in state.resolutions:
        repair = state.resolutions[source]
        return Halt("stopped", f"{repair.trouble.kind}, to be answered by {repair.policy}: {repair.trouble.text}")
    pause = min((found for found in state.paused if found.covers(source)), key=_narrowness, default=None)
    if pause is None:
        return None
    what = "the flow" if pause.topic is None else "the topic" if pause.partition is None else "it"
    return Halt("paused", f"an operator paused {what}")


def _narrowness(pause: Pause) -> int:
    return (pause.topic is not None) + (pause.partition is not None)
