"""Plans what is compared of each partition, by what the offset map, the state and both logs say when it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.leader_requests import LATEST, OffsetAnswer
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.offsets.translator import OffsetMapTailer
from mirror_ray.transforms.loading import TransformChains
from mirror_ray.verification.cluster_queries import (
    UNKNOWN_PARTITION,
    ClusterLogs,
    ComparePolicy,
    PartitionQuery,
    acknowledged_partitions,
    no_system,
    query_logs,
    query_offsets,
    query_policies,
)
from mirror_ray.verification.copy_state import FlowCopyState
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.range_bounds import (
    LogBounds,
    RangeStart,
    UnknownStart,
    clipped,
    range_end,
    transformed_starts,
    why_not_comparable,
    with_bounds,
)
from mirror_ray.verification.range_starts import find_range_start
from mirror_ray.verification.ranges import RANGE_OFFSETS, PositionPair, cut, cut_shared, range_offsets, sample_ranges
from mirror_ray.verification.report import UncomparedAccount
from mirror_ray.verification.uncompared import with_uncompared

#: Where no time was asked for.
_NO_TIME = OffsetAnswer(0, 0)
#: Partitions whose bounds are translated at once.
_CONCURRENCY = 4
#: Logs that seem to have lost their ends are asked again: a new leader knows a moment later of all that was committed,
#: and transactions end.
_ATTEMPTS, _RETRY_INTERVAL_S = 10, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """What is to be verified."""

    #: Source topics; empty: all that the flow copies.
    topics: tuple[str, ...] = ()
    #: Fraction of the ranges, or of a compacted partition's keys.
    sample: float = 1.0
    #: Records from that time on, in ms since the epoch.
    since_ms: int | None = None
    #: Least number of source offsets in a range.
    range_offsets: int = RANGE_OFFSETS
    #: Compare no record; only find out who wrote what the offset map does not account for.
    headers_only: bool = False
    #: Whether the schemas are compared that the records have the ids of.
    schemas: bool = False


class VerifyPlanner:
    """Plans for one flow. ``offset_map`` is followed by its owner, and was read to its end."""

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        offset_map: OffsetMapTailer,
        chains: TransformChains,
    ) -> None:
        self._flow = flow
        self._chains = chains
        self._rules = replication_rules(flow)
        self._source, self._target = source, target
        self._translator = offset_map.translator
        self._copy = FlowCopyState(flow, target, offset_map.store)
        self._since: Mapping[TopicPartition, OffsetAnswer] = {}
        self._ends: Mapping[TopicPartition, OffsetAnswer] = {}

    async def plan(self, request: VerifyRequest, running: PartitionQuery = no_system) -> list[CompareJob]:
        """Make one job for each partition, by topic and number; a job that can't be compared says why.

        Raises:
            ConfigError: The flow copies no such topic, or none at all.
            ClusterUnreachableError: A cluster does not answer.
            MirrorError: The state topic can't be read.
        """
        sources = await self._sources(request)
        remotes = {
            source: TopicPartition(self._rules.remote_topic(source.topic), source.partition) for source in sources
        }
        await self._target.refresh({remote.topic for remote in remotes.values()})
        statuses = await self._acknowledged(remotes, running)
        policies = await asyncio.gather(
            query_policies(self._source, {source.topic for source in sources}),
            query_policies(self._target, {remote.topic for remote in remotes.values()}),
        )
        await self._copy.read_other_flows()
        jobs = [
            replace(self._job(source, remotes[source], policies), halt=self._copy.halt(source, statuses.get(source)))
            for source in sources
        ]
        reached = {job.source: self._copy.position(job, statuses.get(job.source)) for job in jobs}
        # Asked for after the positions: up to there, both logs are as long.
        logs = await self._query_logs(jobs, reached)
        if request.since_ms is not None and sources:
            self._since = await query_offsets(self._source, dict.fromkeys(sources, request.since_ms))
        semaphore = asyncio.Semaphore(_CONCURRENCY)

        async def complete(job: CompareJob) -> CompareJob:
            if job.reason is not None:
                return self._with_lag(job, reached[job.source], logs[0])
            async with semaphore:
                return await self._completed(job, reached[job.source], logs, request)

        return await asyncio.gather(*(complete(job) for job in jobs))

    async def find_pair(self, job: CompareJob, source: int, target: int) -> PositionPair | None:
        """Find the first exact pair at or behind both positions, or the job's end; None: none is known."""
        found = await self._range_start(job, (source, target), job.reached)
        return None if isinstance(found, UnknownStart) else clipped(found.pair, job.end)

    async def _acknowledged(
        self, remotes: Mapping[TopicPartition, TopicPartition], running: PartitionQuery
    ) -> Mapping[TopicPartition, PartitionStatus]:
        """What the running system says of all that the target held when this began; the state is read no earlier."""
        there = [remote for remote in remotes.values() if self._target.metadata.partition(remote) is not None]
        self._ends = await query_offsets(self._target, dict.fromkeys(there, LATEST))
        await self._copy.read()
        ends = {source: self._ends[remote].offset for source, remote in remotes.items() if remote in self._ends}
        statuses, waited = await acknowledged_partitions(running, self._flow.name, ends, self._copy.shared_partitions)
        if waited:
            await self._copy.read()
        return statuses

    async def _sources(self, request: VerifyRequest) -> list[TopicPartition]:
        found = (await self._source.refresh(None)).topics
        copied = {name for name in found if self._rules.should_replicate_topic(name)}
        for topic in request.topics:
            if topic not in copied:
                why = "does not copy it" if topic in found else "finds no such topic on its source"
                raise ConfigError(f"topic {topic!r}: the flow {self._flow.name} {why}; `mirror-ray topics` lists them")
        chosen = set(request.topics) or copied
        if not chosen:
            raise ConfigError(
                f"flow {self._flow.name}: none of the topics that can be seen on cluster {self._flow.name.source} is "
                "copied, so there is nothing to verify: see its topics.include and topics.exclude, and whether this "
                "command has DESCRIBE on the topics"
            )
        return sorted(TopicPartition(topic, number) for topic in chosen for number in found[topic].partitions)

    async def _query_logs(
        self, jobs: Sequence[CompareJob], reached: Mapping[TopicPartition, PositionPair | None]
    ) -> tuple[ClusterLogs, ClusterLogs]:
        committed = self._flow.fetch.isolation_level == "read_committed"
        for _ in range(_ATTEMPTS):
            logs = await asyncio.gather(
                query_logs(self._source, [job.source for job in jobs], committed=committed),
                query_logs(self._target, [job.target for job in jobs], committed=True),
            )
            if not any(_seems_short(job, reached[job.source], logs) for job in jobs if job.reason is None):
                break
            await asyncio.sleep(_RETRY_INTERVAL_S)
        return logs

    def _job(
        self,
        source: TopicPartition,
        target: TopicPartition,
        policies: Sequence[Mapping[str, ComparePolicy | MirrorError]],
    ) -> CompareJob:
        job = CompareJob(source=source, target=target, skipped_ranges=self._copy.skipped_ranges(source))
        if self._target.metadata.partition(target) is None:
            return replace(job, reason=f"{target} is missing on cluster {self._target.settings.alias}")
        job = replace(
            job,
            source_topic_id=self._source.metadata.topics[source.topic].topic_id,
            target_topic_id=self._target.metadata.topics[target.topic].topic_id,
        )
        mine, theirs = policies[0].get(source.topic), policies[1].get(target.topic)
        if not isinstance(mine, ComparePolicy) or not isinstance(theirs, ComparePolicy):
            refused = theirs if isinstance(mine, ComparePolicy) else mine
            return replace(job, reason=f"the topic's configs can't be read: {refused or 'it was deleted'}")
        notes = ("the remote topic has LogAppendTime: timestamps were not compared",) if theirs.append_time else ()
        return self._with_transforms(
            replace(
                job,
                compacted=mine.compacted or theirs.compacted,
                timestamps=not theirs.append_time,
                notes=(*notes, *self._copy.notes(job)),
            )
        )

    def _with_transforms(self, job: CompareJob) -> CompareJob:
        """Add what the topic's transforms mean for the comparison."""
        chain = self._chains.chain(job.source.topic)
        why_not = why_not_comparable(chain, self._copy.record(job), compacted=job.compacted)
        if chain is None or why_not is not None:
            return replace(job, irreproducible=why_not)
        note = f"the source's records were compared as they come out of {chain.identity}"
        return replace(job, transformed=True, notes=(*job.notes, note))

    async def _completed(
        self,
        job: CompareJob,
        reached: PositionPair | None,
        logs: tuple[ClusterLogs, ClusterLogs],
        request: VerifyRequest,
    ) -> CompareJob:
        """Add what is compared of the job, and what is not."""
        since = self._since.get(job.source, _NO_TIME)
        end = self._ends.get(job.target, UNKNOWN_PARTITION)
        failed = end.error_code or logs[0].error(job.source) or logs[1].error(job.target) or since.error_code
        if failed:
            return replace(job, reason=f"a leader does not answer: {error_info(failed).name}")
        source, target = logs[0].bounds(job.source), logs[1].bounds(job.target)
        job = replace(job, owners=self._copy.owners(job))
        if request.headers_only:
            found = self._with_ownership(job, reached, source, target)
        elif job.irreproducible is not None:
            found = replace(job, reason=job.irreproducible)
        else:
            found = await self._with_ranges(job, reached, (source, target), request)
        return with_uncompared(
            found,
            reached=reached,
            source=source,
            target=target,
            target_end=end.offset,
            record=self._copy.record(job),
            mapped=self._copy.mapped_spans(job),
            since=request.since_ms is not None,
            headers_only=request.headers_only,
        )

    def _with_lag(self, job: CompareJob, reached: PositionPair | None, source: ClusterLogs) -> CompareJob:
        """Add how much of its source is not copied; no more is known of a job that can't be compared."""
        if source.error(job.source):
            return job
        start, _, stable = source.bounds(job.source)
        not_copied = max(0, stable - (reached.source if reached else start))
        return replace(job, account=UncomparedAccount(not_copied=not_copied))

    def _with_ownership(
        self, job: CompareJob, reached: PositionPair | None, source: LogBounds, target: LogBounds
    ) -> CompareJob:
        """For headers alone: where nothing was acknowledged, it is unknown whose records a remote partition holds."""
        if reached is not None or target.start == target.end or self._copy.has_nothing_to_compare(job, source, target):
            return job
        return replace(job, reason=f"{job.target} holds records, and {self._copy.why_unknown(job)}")

    async def _with_ranges(
        self, job: CompareJob, reached: PositionPair | None, logs: tuple[LogBounds, LogBounds], request: VerifyRequest
    ) -> CompareJob:
        source, target = logs
        if reached is None:
            if self._copy.has_nothing_to_compare(job, source, target):
                return job
            return replace(job, reason=self._copy.why_unknown(job))
        offset_map = self._copy.offset_map(job)
        end = range_end(reached, source, target, offset_map.segments if offset_map is not None else ())
        if isinstance(end, str):
            return replace(job, reason=end)
        if end.lost and self._copy.is_shared(job):
            return replace(job, reason=end.short)
        since = self._since.get(job.source, _NO_TIME)
        first = max(source.start, end.reached.source if since.offset < 0 else since.offset)
        starts, note = transformed_starts(self._copy.record(job), (first, target.start))
        start = await self._range_start(job, starts, end.reached)
        job = replace(job, notes=(*job.notes, note)) if note else job
        found = with_bounds(job, start, end, starts[0])
        return found if found.reason is not None or found.begin == found.end else self._cut(found, request)

    async def _range_start(
        self, job: CompareJob, starts: tuple[int, int], reached: PositionPair
    ) -> RangeStart | UnknownStart:
        offset_map, record = self._copy.offset_map(job), self._copy.record(job)
        return await find_range_start(self._translator, job.source, offset_map, record, starts=starts, reached=reached)

    def _cut(self, job: CompareJob, request: VerifyRequest) -> CompareJob:
        offset_map = self._copy.offset_map(job)
        size = range_offsets(job.begin, job.end, request.range_offsets)
        if job.compacted:
            size = max(1, job.end.source)
        segments = list(offset_map.segments) if offset_map is not None else []
        ranges = (cut_shared if self._copy.is_shared(job) else cut)(segments, job.begin, job.end, size)
        if isinstance(ranges, str):
            return replace(job, reason=ranges)
        fraction = 1.0 if job.compacted else request.sample
        return replace(
            job,
            ranges=tuple(ranges),
            chosen=tuple(sample_ranges(len(ranges), fraction, str(job.source))),
            key_fraction=request.sample if job.compacted else 1.0,
        )


def _seems_short(job: CompareJob, reached: PositionPair | None, logs: tuple[ClusterLogs, ClusterLogs]) -> bool:
    stable = logs[0].stable[job.source].offset, logs[1].stable[job.target].offset
    return reached is not None and (stable[0] < reached.source or stable[1] < reached.target)
