"""What of a job's logs is not compared: how much it is, and which target offsets are to be read for who wrote them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.verification.compared_ranges import PositionPair
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.range_bounds import LogLimits
from mirror_ray.verification.uncompared import ProducerOwners, Span, UncomparedAccount, without


@dataclass(frozen=True, slots=True, kw_only=True)
class UncomparedCounts:
    """What is known of a partition beside its job.

    Attributes:
        reached: How far the copy has come; None: nothing is known of one.
        source: Its log.
        target: Its remote partition's log.
        target_end: Where that ended when the command began.
        record: What the state says of it.
        writers: Who may have written the remote partition.
        mapped: Target offsets that the flow's map accounts for; in a shared topic, of all that are copied there.
        since: Whether only what is behind some time is wanted.
        headers_alone: Whether no record is compared.
    """

    reached: PositionPair | None
    source: LogLimits
    target: LogLimits
    target_end: int
    record: PartitionRecord | None
    writers: ProducerOwners
    mapped: Iterable[Span]
    since: bool = False
    headers_alone: bool = False


def with_outside(job: CompareJob, seen: UncomparedCounts) -> CompareJob:
    """The job with what lies outside of what it compares."""
    if seen.reached is None:
        # What others wrote where the flow has written nothing is told by why it can't be compared.
        return replace(job, account=UncomparedAccount(not_copied=max(0, seen.source.stable - seen.source.start)))
    shared = seen.record is not None and seen.record.shared
    origin = 0 if seen.record is None or shared else seen.record.origin.target_offset
    began = 0 if seen.record is None else seen.record.origin.source_offset
    compared = job.begin.target >= 0
    begin = min(job.begin.target, job.end.target) if compared else seen.reached.target
    before = not seen.since and compared
    start = seen.target.start
    account = UncomparedAccount(
        not_copied=max(0, seen.source.stable - seen.reached.source),
        before_copy=max(0, min(began, job.begin.source) - seen.source.start) if before else 0,
        before_copy_target=max(0, min(origin, begin) - start) if before else 0,
        removed_on_source=max(0, begin - max(start, origin)) if before and not shared else 0,
        removed_on_target=max(0, job.begin.source - max(seen.source.start, began)) if before and not shared else 0,
    )
    return replace(
        job,
        beside=tuple(_beside(job, seen, begin, shared=shared, before=before)),
        copied=seen.reached,
        writers=seen.writers,
        origin=origin,
        source_end=seen.source.stable,
        account=account,
    )


def _beside(job: CompareJob, seen: UncomparedCounts, begin: int, *, shared: bool, before: bool) -> list[Span]:
    reached = seen.reached
    if reached is None:
        return []
    compared = [(span.target, span.target_end) for span in job.ranges]
    if not shared:
        compared = [(begin, max(begin, job.end.target))] if job.begin.target >= 0 else []
    first = seen.target.start if before or seen.headers_alone else begin
    mapped = [(start, min(end, reached.target)) for start, end in seen.mapped] if not shared else list(seen.mapped)
    return without((first, max(first, seen.target_end)), [*compared, *mapped])
