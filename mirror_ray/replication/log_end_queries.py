"""Reading the log ends of target and source partitions, so that it is known where copying goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import OFFSET_NOT_AVAILABLE, error_info
from mirror_ray.kafka.last_batch import read_last_batches
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, IsolationLevel, KnownProducers, LogEnd, OffsetAnswer
from mirror_ray.kafka.partition_reader import read_between
from mirror_ray.model.assignment import NO_END, Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.target_log import TargetContents, TargetLog, TargetScan, scan_start, wants_producer_state
from mirror_ray.replication.target_queries import query_epoch_ends, query_producers


@dataclass(frozen=True, slots=True)
class TargetRefusedError:
    """The Kafka error that a leader answered, and what it was asked."""

    error: str
    what: str | None = None


class TargetUncommittedError:
    """The leader's log end is not committed yet, or the leader is new and does not know: ask again soon."""


@dataclass(frozen=True, slots=True)
class TargetProbe:
    """The arguments of ``PartitionReplication.established``."""

    log: TargetLog
    contents: TargetContents | None = None


TargetAnswer = TargetProbe | TargetRefusedError | TargetUncommittedError


class SourceBounds(NamedTuple):
    """The arguments of ``PartitionReplication.source_bounds``."""

    start: int
    end: int
    stable_end: int


async def query_targets(
    target: ClusterConnections, copies: Sequence[PartitionReplication]
) -> dict[PartitionReplication, TargetAnswer]:
    """Read each partition's target log, as far as is needed; one round of requests for most."""
    found = await target.log_ends({copy.assignment.target for copy in copies})
    agreed = await query_epoch_ends(target, copies, found)
    answers = {copy: _by_log_end(copy, found[copy.assignment.target], agreed.get(copy)) for copy in copies}
    plain = {
        copy: answer.log.end
        for copy, answer in answers.items()
        if isinstance(answer, TargetProbe) and copy.needs_last_batch(answer.log.end) and not copy.needs_scan
    }
    last = await read_last_batches(
        target,
        {copy.assignment.target: copy.assignment.target_topic_id for copy in plain},
        {copy.assignment.target: end for copy, end in plain.items()},
    )
    for copy, end in plain.items():
        partition = copy.assignment.target
        error = last.errors.get(partition)
        answers[copy] = (
            TargetRefusedError(error_info(error).name, "reading its last batch")
            if error is not None
            else TargetProbe(TargetLog(end=end, epoch=found[partition].leader_epoch, tail=last.batches.get(partition)))
        )
    scanned = [copy for copy in copies if copy.needs_scan or copy.wants_contents]
    by_scan = await asyncio.gather(*(_scan(target, copy, answers[copy]) for copy in scanned))
    return await _with_producer_state(target, answers | dict(zip(scanned, by_scan, strict=True)))


def _by_log_end(copy: PartitionReplication, log: LogEnd, agreed: OffsetAnswer | None) -> TargetAnswer:
    if log.error_code not in (0, OFFSET_NOT_AVAILABLE):
        return TargetRefusedError(error_info(log.error_code).name)
    if log.error_code or not _is_committed(log, copy.assignment) or (agreed is not None and agreed.error_code):
        return TargetUncommittedError()
    agrees_to = NO_END if agreed is None else agreed.offset
    return TargetProbe(TargetLog(end=log.end_offset, epoch=log.leader_epoch, agrees_to=agrees_to))


def _is_committed(log: LogEnd, assignment: Assignment) -> bool:
    """Whether all that the leader holds is committed. A shared log may have grown between the two questions."""
    return log.end_offset == log.high_watermark or (assignment.shared and log.end_offset < log.high_watermark)


async def _scan(target: ClusterConnections, copy: PartitionReplication, answer: TargetAnswer) -> TargetAnswer:
    """Read everything behind the acknowledged pair, or from where the log may have been cut."""
    assignment, anchor = copy.assignment, copy.acknowledged
    if not isinstance(answer, TargetProbe):
        return answer
    begin, end, partition = scan_start(anchor, answer.log), answer.log.end, assignment.target
    if not copy.needs_last_batch(end) and begin == anchor.target_offset:
        return answer
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
    return TargetProbe(scan.describe(answer.log) if copy.needs_scan else answer.log, scan.contents)


async def _with_producer_state(
    target: ClusterConnections, answers: Mapping[PartitionReplication, TargetAnswer]
) -> dict[PartitionReplication, TargetAnswer]:
    """Add the broker's state of our producer where what was read does not decide."""
    undecided = {
        copy: answer.log
        for copy, answer in answers.items()
        if isinstance(answer, TargetProbe) and wants_producer_state(copy.acknowledged, answer.log, copy.assignment)
    }
    partitions = {copy.assignment.target for copy in undecided}
    if not partitions:
        return dict(answers)
    known = await query_producers(target, partitions)
    # The broker's state may belong to a log that ended otherwise a moment before, or to what is not committed.
    ends = await target.log_ends(partitions)
    return dict(answers) | {
        copy: _by_producer_state(copy, answers[copy], log, known[copy.assignment.target], ends[copy.assignment.target])
        for copy, log in undecided.items()
        if copy.assignment.target in known
    }


def _by_producer_state(
    copy: PartitionReplication, answer: TargetAnswer, log: TargetLog, known: KnownProducers, now: LogEnd
) -> TargetAnswer:
    if known.error_code:
        return TargetRefusedError(error_info(known.error_code).name, "asking for its producers")
    same_leader = not now.error_code and now.leader_epoch == log.epoch and _is_committed(now, copy.assignment)
    if not same_leader or (now.end_offset != log.end and not copy.assignment.shared):
        return TargetUncommittedError()
    last = known.last_sequences.get(copy.assignment.producer_id)
    following = None if last is None else (last + 1) % SEQUENCE_MODULUS
    contents = answer.contents if isinstance(answer, TargetProbe) else None
    # The end stays the one that was read up to: what has been appended since is searched for from there.
    return TargetProbe(replace(log, remembered=following), contents)


async def query_sources(
    source: ClusterConnections, copies: Sequence[PartitionReplication], isolation_level: IsolationLevel
) -> dict[PartitionReplication, SourceBounds | str]:
    """Read where each partition's source begins and ends, once that is committed; else why it is not known."""
    partitions = [copy.source for copy in copies]
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
