"""Looking at target and source partitions, so that their copies know where to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mirror_ray.copying.partition import PartitionCopy
from mirror_ray.copying.recovery import Contents, TargetLog
from mirror_ray.copying.tails import read_tails
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.errors import OFFSET_NOT_AVAILABLE, error_info
from mirror_ray.kafka.offsets import EARLIEST, LATEST, IsolationLevel, LogEnd
from mirror_ray.kafka.reading import read_between
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.records.batch import Batch


@dataclass(frozen=True, slots=True)
class Refused:
    """Kafka's name of the error with which a leader answered, and what was asked."""

    error: str
    what: str | None = None


class Unsettled:
    """The leader's log end is not committed yet, or it is new and can't tell: look again soon."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What ``PartitionCopy.established`` wants to know."""

    log: TargetLog
    contents: Contents | None = None


Look = Seen | Refused | Unsettled


class SourceBounds(NamedTuple):
    """What ``PartitionCopy.source_bounds`` wants to know."""

    start: int
    end: int
    stable_end: int


async def look_at_targets(target: Cluster, copies: Sequence[PartitionCopy]) -> dict[PartitionCopy, Look]:
    """The state of each copy's target partition, as far as the copy needs it; one round of requests for most."""
    found = await target.log_ends({copy.assignment.target for copy in copies})
    looks: dict[PartitionCopy, Look] = {}
    plain: dict[PartitionCopy, int] = {}
    for copy in copies:
        log = found[copy.assignment.target]
        if log.error_code not in (0, OFFSET_NOT_AVAILABLE):
            looks[copy] = Refused(error_info(log.error_code).name)
        elif log.error_code or not _is_settled(log, copy.assignment):
            looks[copy] = Unsettled()
        else:
            looks[copy] = Seen(TargetLog(end=log.end_offset))
            if copy.needs_tail(log.end_offset) and not copy.needs_scan:
                plain[copy] = log.end_offset
    tails = await read_tails(
        target,
        {copy.assignment.target: copy.assignment.target_topic_id for copy in plain},
        {copy.assignment.target: end for copy, end in plain.items()},
    )
    for copy, end in plain.items():
        error = tails.errors.get(copy.assignment.target)
        looks[copy] = (
            Refused(error_info(error).name, "reading its last batch")
            if error is not None
            else Seen(TargetLog(end=end, tail=tails.batches.get(copy.assignment.target)))
        )
    thorough = [copy for copy in copies if copy.needs_scan or copy.wants_contents]
    closely = await asyncio.gather(*(_look_closely(target, copy, looks[copy]) for copy in thorough))
    return looks | dict(zip(thorough, closely, strict=True))


def _is_settled(log: LogEnd, assignment: Assignment) -> bool:
    """Whether all that the leader holds is committed. A shared log may have grown between the two questions."""
    return log.end_offset == log.high_watermark or (assignment.shared and log.end_offset < log.high_watermark)


async def _look_closely(target: Cluster, copy: PartitionCopy, look: Look) -> Look:
    """Read everything behind the anchor: who wrote it, and where it is wanted what."""
    assignment, anchor = copy.assignment, copy.acknowledged
    if not isinstance(look, Seen) or not copy.needs_tail(look.log.end):
        return look
    partition, end = assignment.target, look.log.end
    try:
        (earliest,) = (await target.list_offsets({partition: EARLIEST}, "read_uncommitted")).values()
        if earliest.error_code:
            return Refused(error_info(earliest.error_code).name, "reading where it begins")
        newest: Batch | None = None
        stranger: Batch | None = None
        contents = Contents()
        start = max(anchor.target_offset, earliest.offset)
        async for batches, _ in read_between(target, partition, assignment.target_topic_id, start, end):
            for batch in batches:
                if batch.producer_id == assignment.producer_id:
                    newest = batch
                    if copy.wants_contents:
                        contents.add(batch)
                elif stranger is None and batch.base_offset >= assignment.foreign_to:
                    stranger = batch
    except (OSError, TimeoutError, MirrorError) as error:
        return Refused("NETWORK_EXCEPTION", f"reading what it holds: {error}")
    # Where nobody else writes, the last batch counts, whoever wrote it.
    log = look.log
    if copy.needs_scan:
        log = replace(log, tail=newest, stranger=stranger, start=earliest.offset)
    return Seen(log, contents if copy.wants_contents else None)


async def look_at_sources(
    source: Cluster, copies: Sequence[PartitionCopy], isolation_level: IsolationLevel
) -> dict[PartitionCopy, SourceBounds | str]:
    """Where each copy's source begins and ends, once that is committed; else why that can't be said."""
    partitions = [copy.assignment.partition.source for copy in copies]
    starts = await source.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted")
    ends = await source.log_ends(partitions)
    stable = await source.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level)
    found: dict[PartitionCopy, SourceBounds | str] = {}
    for copy, partition in zip(copies, partitions, strict=True):
        start, end, last = starts[partition], ends[partition], stable[partition]
        error = start.error_code or end.error_code or last.error_code
        if error:
            found[copy] = error_info(error).name
        elif end.end_offset != end.high_watermark:
            found[copy] = "not all is committed"
        else:
            found[copy] = SourceBounds(start.offset, end.end_offset, last.offset)
    return found
