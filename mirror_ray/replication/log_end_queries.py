"""Looking at target and source partitions, so that their copies know where to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import OFFSET_NOT_AVAILABLE, error_info
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, IsolationLevel, KnownProducers, LogEnd, OffsetAnswer
from mirror_ray.kafka.partition_reader import read_between
from mirror_ray.model.assignment import NO_END, Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.replication.copied_records import TargetLog, scanned_from, wants_memory
from mirror_ray.replication.last_batch import read_tails
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.recovery import TargetContents
from mirror_ray.replication.scan import TargetScan
from mirror_ray.replication.target_queries import ask_for_producers, ask_where_epochs_ended


@dataclass(frozen=True, slots=True)
class TargetRefusedError:
    """Kafka's name of the error with which a leader answered, and what was asked."""

    error: str
    what: str | None = None


class TargetUnsettledError:
    """The leader's log end is not committed yet, or it is new and can't tell: look again soon."""


@dataclass(frozen=True, slots=True)
class TargetProbe:
    """What ``PartitionReplication.established`` wants to know."""

    log: TargetLog
    contents: TargetContents | None = None


Look = TargetProbe | TargetRefusedError | TargetUnsettledError


class SourceBounds(NamedTuple):
    """What ``PartitionReplication.source_bounds`` wants to know."""

    start: int
    end: int
    stable_end: int


async def look_at_targets(
    target: ClusterConnections, copies: Sequence[PartitionReplication]
) -> dict[PartitionReplication, Look]:
    """The state of each copy's target partition, as far as the copy needs it; one round of requests for most."""
    found = await target.log_ends({copy.assignment.target for copy in copies})
    agreed = await ask_where_epochs_ended(target, copies, found)
    looks = {copy: _first_look(copy, found[copy.assignment.target], agreed.get(copy)) for copy in copies}
    plain = {
        copy: look.log.end
        for copy, look in looks.items()
        if isinstance(look, TargetProbe) and copy.needs_tail(look.log.end) and not copy.needs_scan
    }
    tails = await read_tails(
        target,
        {copy.assignment.target: copy.assignment.target_topic_id for copy in plain},
        {copy.assignment.target: end for copy, end in plain.items()},
    )
    for copy, end in plain.items():
        partition = copy.assignment.target
        error = tails.errors.get(partition)
        looks[copy] = (
            TargetRefusedError(error_info(error).name, "reading its last batch")
            if error is not None
            else TargetProbe(TargetLog(end=end, epoch=found[partition].leader_epoch, tail=tails.batches.get(partition)))
        )
    thorough = [copy for copy in copies if copy.needs_scan or copy.wants_contents]
    closely = await asyncio.gather(*(_look_closely(target, copy, looks[copy]) for copy in thorough))
    return await _with_memory(target, looks | dict(zip(thorough, closely, strict=True)))


def _first_look(copy: PartitionReplication, log: LogEnd, agreed: OffsetAnswer | None) -> Look:
    if log.error_code not in (0, OFFSET_NOT_AVAILABLE):
        return TargetRefusedError(error_info(log.error_code).name)
    if log.error_code or not _is_settled(log, copy.assignment) or (agreed is not None and agreed.error_code):
        return TargetUnsettledError()
    agrees_to = NO_END if agreed is None else agreed.offset
    return TargetProbe(TargetLog(end=log.end_offset, epoch=log.leader_epoch, agrees_to=agrees_to))


def _is_settled(log: LogEnd, assignment: Assignment) -> bool:
    """Whether all that the leader holds is committed. A shared log may have grown between the two questions."""
    return log.end_offset == log.high_watermark or (assignment.shared and log.end_offset < log.high_watermark)


async def _look_closely(target: ClusterConnections, copy: PartitionReplication, look: Look) -> Look:
    """Read everything behind the anchor, or behind where the log may be another one since: who wrote it, and what."""
    assignment, anchor = copy.assignment, copy.acknowledged
    if not isinstance(look, TargetProbe):
        return look
    begin, end, partition = scanned_from(anchor, look.log), look.log.end, assignment.target
    if not copy.needs_tail(end) and begin == anchor.target_offset:
        return look
    try:
        (earliest,) = (await target.list_offsets({partition: EARLIEST}, "read_uncommitted")).values()
        if earliest.error_code:
            return TargetRefusedError(error_info(earliest.error_code).name, "reading where it begins")
        scan = TargetScan(assignment, anchor, begin, TargetContents() if copy.wants_contents else None)
        start = max(begin, earliest.offset)
        async for batches, _ in read_between(target, partition, assignment.target_topic_id, start, end):
            scan.add(batches)
    except (OSError, TimeoutError, MirrorError) as error:
        return TargetRefusedError("NETWORK_EXCEPTION", f"reading what it holds: {error}")
    # Where nobody else writes, the last batch counts, whoever wrote it.
    return TargetProbe(scan.told(look.log) if copy.needs_scan else look.log, scan.contents)


async def _with_memory(
    target: ClusterConnections, looks: Mapping[PartitionReplication, Look]
) -> dict[PartitionReplication, Look]:
    """Where what was read does not decide: what the broker remembers of the copy's producer."""
    undecided = {
        copy: look.log
        for copy, look in looks.items()
        if isinstance(look, TargetProbe) and wants_memory(copy.acknowledged, look.log, copy.assignment)
    }
    partitions = {copy.assignment.target for copy in undecided}
    if not partitions:
        return dict(looks)
    known = await ask_for_producers(target, partitions)
    # What the broker remembers may be of a log that ended otherwise a moment before, or of what is not committed.
    ends = await target.log_ends(partitions)
    return dict(looks) | {
        copy: _remembering(copy, looks[copy], log, known[copy.assignment.target], ends[copy.assignment.target])
        for copy, log in undecided.items()
        if copy.assignment.target in known
    }


def _remembering(copy: PartitionReplication, look: Look, log: TargetLog, known: KnownProducers, now: LogEnd) -> Look:
    if known.error_code:
        return TargetRefusedError(error_info(known.error_code).name, "asking for its producers")
    same_leader = not now.error_code and now.leader_epoch == log.epoch and _is_settled(now, copy.assignment)
    if not same_leader or (now.end_offset != log.end and not copy.assignment.shared):
        return TargetUnsettledError()
    last = known.last_sequences.get(copy.assignment.producer_id)
    following = None if last is None else (last + 1) % SEQUENCE_MODULUS
    contents = look.contents if isinstance(look, TargetProbe) else None
    # The end stays the one that was read up to: what has come since is looked for from there.
    return TargetProbe(replace(log, remembered=following), contents)


async def look_at_sources(
    source: ClusterConnections, copies: Sequence[PartitionReplication], isolation_level: IsolationLevel
) -> dict[PartitionReplication, SourceBounds | str]:
    """Where each copy's source begins and ends, once that is committed; else why that can't be said."""
    partitions = [copy.assignment.partition.source for copy in copies]
    starts = await source.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted")
    ends = await source.log_ends(partitions)
    stable = await source.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level)
    found: dict[PartitionReplication, SourceBounds | str] = {}
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
