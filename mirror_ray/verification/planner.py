"""What is compared of each partition: asked of the map, the state, the logs and the topics' configs when it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION, error_info
from mirror_ray.kafka.leader_requests import LATEST, OffsetAnswer
from mirror_ray.kafka.state_topic import read_state
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.offsets.map_store import PartitionOffsetMap
from mirror_ray.offsets.map_tailer import OffsetMapTailer
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import FlowStateRecords, decode, state_topic
from mirror_ray.transforms.loading import TransformChains
from mirror_ray.verification import transformed_ranges
from mirror_ray.verification.cluster_queries import (
    NOT_THERE,
    ComparePolicy,
    LogEnds,
    ask_logs,
    ask_offsets,
    ask_policies,
)
from mirror_ray.verification.compared_ranges import RANGE_OFFSETS, PositionPair, cut, cut_shared, range_offsets, sampled
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.log_ends import Ask, acknowledged, no_system
from mirror_ray.verification.range_bounds import LogLimits, RangeStart, UnknownBounds, between, until_of, within
from mirror_ray.verification.range_starts import begin_of
from mirror_ray.verification.uncompared import UncomparedAccount, halted
from mirror_ray.verification.uncompared_counts import UncomparedCounts, with_outside
from mirror_ray.verification.writers import PartitionWriters

#: Where no time was asked for.
_NO_TIME = OffsetAnswer(0, 0)
#: Troubles in which a running system's pair is of another topic than the one that is there.
_OTHER_TOPIC = frozenset({"source_recreated", "target_recreated", "target_missing"})
#: Partitions whose places are looked for at once.
_AT_ONCE = 4
#: So often, and so long apart, logs are asked again that seem to have lost their ends: a new leader knows of all that
#: was committed a moment later, and transactions end.
_ASKED, _AGAIN_S = 10, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """What somebody asks for."""

    #: Source topics; empty: all that the flow copies.
    topics: tuple[str, ...] = ()
    #: Of the ranges, or of a compacted partition's keys.
    sample: float = 1.0
    #: Records from that time on, in ms since the epoch.
    since_ms: int | None = None
    #: Least source offsets of a range.
    range_offsets: int = RANGE_OFFSETS
    #: Whether no record is compared: it is looked at alone who wrote what the map does not account for.
    headers_alone: bool = False


class VerifyPlanner:
    """Plans for one flow. ``own_map`` is followed by somebody else, and was read to its end."""

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        own_map: OffsetMapTailer,
        chains: TransformChains,
    ) -> None:
        self._flow = flow
        self._chains = chains
        self._rules = replication_rules(flow)
        self._source, self._target = source, target
        self._map = own_map
        self._memory = FlowStateRecords()
        self._since: Mapping[TopicPartition, OffsetAnswer] = {}
        self._ends: Mapping[TopicPartition, OffsetAnswer] = {}
        self._writing = PartitionWriters(flow, target, own_map.book)

    async def plan(self, wanted: VerifyRequest, running: Ask = no_system) -> list[CompareJob]:
        """One job for each partition, by topic and number; what can't be compared says why.

        Args:
            wanted: What is asked for.
            running: Asks the running system, where there is one.

        Raises:
            ConfigError: The flow copies no such topic, or none at all.
            ClusterUnreachableError: A cluster does not answer.
            MirrorError: The state topic can't be read.
        """
        sources = await self._sources(wanted)
        remotes = {each: TopicPartition(self._rules.remote_topic(each.topic), each.partition) for each in sources}
        await self._target.refresh({each.topic for each in remotes.values()})
        told = await self._acknowledged(remotes, running)
        policies = await asyncio.gather(
            ask_policies(self._source, {each.topic for each in sources}),
            ask_policies(self._target, {each.topic for each in remotes.values()}),
        )
        await self._writing.read(self._memory)
        jobs = [
            replace(self._job(each, remotes[each], policies), halt=halted(self._memory, each, told.get(each)))
            for each in sources
        ]
        reached = {job.source: self._reached(job, told.get(job.source)) for job in jobs}
        # Later than that: up to there, both logs are as long.
        logs = await self._all_logs(jobs, reached)
        if wanted.since_ms is not None and sources:
            self._since = await ask_offsets(self._source, dict.fromkeys(sources, wanted.since_ms))
        room = asyncio.Semaphore(_AT_ONCE)

        async def bounded(job: CompareJob) -> CompareJob:
            if job.reason is not None:
                return self._not_asked(job, reached[job.source], logs[0])
            async with room:
                return await self._bounded(job, reached[job.source], logs, wanted)

        return await asyncio.gather(*(bounded(job) for job in jobs))

    async def begin_at(self, job: CompareJob, source: int, target: int) -> PositionPair | None:
        """The first exact pair at or behind both positions, or the job's end; None: none is known."""
        found = await self._begin_of(job, (source, target), job.reached)
        return None if isinstance(found, UnknownBounds) else within(found.pair, job.end)

    async def _acknowledged(
        self, remotes: Mapping[TopicPartition, TopicPartition], running: Ask
    ) -> Mapping[TopicPartition, PartitionStatus]:
        """What the running system says, of what the target held when this began; the state is of no later time."""
        there = [each for each in remotes.values() if self._target.metadata.partition(each) is not None]
        self._ends = await ask_offsets(self._target, dict.fromkeys(there, LATEST))
        self._memory = await self._read_memory()
        shared = {each for each, record in self._memory.partitions.items() if record.shared}
        ends = {each: self._ends[remote].offset for each, remote in remotes.items() if remote in self._ends}
        told, waited = await acknowledged(running, self._flow.name, ends, shared)
        if waited:
            self._memory = await self._read_memory()
        return told

    @property
    def _committed(self) -> bool:
        return self._flow.fetch.isolation_level == "read_committed"

    async def _sources(self, wanted: VerifyRequest) -> list[TopicPartition]:
        found = (await self._source.refresh(None)).topics
        copied = {name for name in found if self._rules.should_replicate_topic(name)}
        for topic in wanted.topics:
            if topic not in copied:
                why = "does not copy it" if topic in found else "finds no such topic on its source"
                raise ConfigError(f"topic {topic!r}: the flow {self._flow.name} {why}; `mirror-ray topics` lists them")
        chosen = set(wanted.topics) or copied
        if not chosen:
            raise ConfigError(
                f"flow {self._flow.name}: none of the topics that can be seen on cluster {self._flow.name.source} is "
                "copied, so there is nothing to verify: see its topics.include and topics.exclude, and whether this "
                "command has DESCRIBE on the topics"
            )
        return sorted(TopicPartition(topic, number) for topic in chosen for number in found[topic].partitions)

    async def _read_memory(self) -> FlowStateRecords:
        name = self._flow.name
        memory = await self._read_state(name.route)
        if name.route:
            # What pauses a flow pauses its routes.
            memory.paused |= (await self._read_state("")).paused
        return memory

    async def _read_state(self, route: str) -> FlowStateRecords:
        topic = state_topic(self._flow.name.source, route=route)
        found = (await self._target.refresh([topic])).topics[topic]
        if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return FlowStateRecords()
        return decode(await asyncio.to_thread(read_state, self._target.settings, topic))

    async def _all_logs(
        self, jobs: Sequence[CompareJob], reached: Mapping[TopicPartition, PositionPair | None]
    ) -> tuple[LogEnds, LogEnds]:
        for _ in range(_ASKED):
            logs = await asyncio.gather(
                ask_logs(self._source, [job.source for job in jobs], committed=self._committed),
                ask_logs(self._target, [job.target for job in jobs], committed=True),
            )
            if not any(_seems_short(job, reached[job.source], logs) for job in jobs if job.reason is None):
                break
            await asyncio.sleep(_AGAIN_S)
        return logs

    def _job(
        self,
        source: TopicPartition,
        target: TopicPartition,
        policies: Sequence[Mapping[str, ComparePolicy | MirrorError]],
    ) -> CompareJob:
        alias = self._target.settings.alias
        gaps = tuple(gap for (each, _), gap in sorted(self._memory.gaps.items()) if each == source)
        job = CompareJob(source=source, target=target, gaps=gaps)
        if self._target.metadata.partition(target) is None:
            return replace(job, reason=f"{target} is missing on cluster {alias}")
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
        job = replace(
            job,
            compacted=mine.compacted or theirs.compacted,
            timestamps=not theirs.append_time,
            notes=notes,
        )
        return self._transformed(replace(job, notes=(*notes, *self._writing.notes(self._record(job)))))

    def _transformed(self, job: CompareJob) -> CompareJob:
        """With what its transforms mean for comparing."""
        chain = self._chains.chain(job.source.topic)
        unlike = transformed_ranges.why_not(chain, self._record(job), compacted=job.compacted)
        if chain is None or unlike is not None:
            return replace(job, unlike=unlike)
        note = f"the source's records were compared as they come out of {chain.identity}"
        return replace(job, transformed=True, notes=(*job.notes, note))

    async def _bounded(
        self, job: CompareJob, reached: PositionPair | None, logs: tuple[LogEnds, LogEnds], wanted: VerifyRequest
    ) -> CompareJob:
        since = self._since.get(job.source, _NO_TIME)
        end = self._ends.get(job.target, NOT_THERE)
        failed = end.error_code or logs[0].error(job.source) or logs[1].error(job.target) or since.error_code
        if failed:
            return replace(job, reason=f"a leader does not answer: {error_info(failed).name}")
        mine, theirs = logs[0].bounds(job.source), logs[1].bounds(job.target)
        if wanted.headers_alone:
            found = self._known(job, reached, mine, theirs)
        elif job.unlike is not None:
            found = replace(job, reason=job.unlike)
        else:
            found = await self._compared(job, reached, (mine, theirs), wanted)
        seen = UncomparedCounts(
            reached=reached,
            source=mine,
            target=theirs,
            target_end=end.offset,
            record=self._record(job),
            writers=self._writing.writers(job, self._record(job)),
            mapped=self._writing.mapped(job, self._page(job), shared=self._is_shared(job)),
            since=wanted.since_ms is not None,
            headers_alone=wanted.headers_alone,
        )
        return with_outside(found, seen)

    def _not_asked(self, job: CompareJob, reached: PositionPair | None, source: LogEnds) -> CompareJob:
        """One of which no more is known than how much of its source is not copied."""
        if source.error(job.source):
            return job
        start, _, stable = source.bounds(job.source)
        return replace(
            job, account=UncomparedAccount(not_copied=max(0, stable - (reached.source if reached else start)))
        )

    def _known(self, job: CompareJob, reached: PositionPair | None, mine: LogLimits, theirs: LogLimits) -> CompareJob:
        """For headers alone: whose records a remote partition holds is not known where none of it was acknowledged."""
        if reached is not None or theirs.start == theirs.end or self._holds_nothing(job, mine, theirs):
            return job
        return replace(job, reason=f"{job.target} holds records, and {self._why_nothing(job)}")

    async def _compared(
        self, job: CompareJob, reached: PositionPair | None, bounds: tuple[LogLimits, LogLimits], wanted: VerifyRequest
    ) -> CompareJob:
        mine, theirs = bounds
        since = self._since.get(job.source, _NO_TIME)
        if reached is None:
            return job if self._holds_nothing(job, mine, theirs) else replace(job, reason=self._why_nothing(job))
        page = self._page(job)
        until = until_of(reached, mine, theirs, page.places if page is not None else ())
        if isinstance(until, str):
            return replace(job, reason=until)
        if until.lost and self._is_shared(job):
            return replace(job, reason=until.short)
        first = max(mine.start, until.reached.source if since.offset < 0 else since.offset)
        starts, note = transformed_ranges.starts_of(self._record(job), (first, theirs.start))
        begin = await self._begin_of(job, starts, until.reached)
        job = replace(job, notes=(*job.notes, note)) if note else job
        found = between(job, begin, until, starts[0])
        return found if found.reason is not None or found.begin == found.end else self._with_ranges(found, wanted)

    async def _begin_of(
        self, job: CompareJob, starts: tuple[int, int], reached: PositionPair
    ) -> RangeStart | UnknownBounds:
        page, record = self._page(job), self._record(job)
        return await begin_of(self._map.translator, job.source, page, record, starts=starts, reached=reached)

    def _holds_nothing(self, job: CompareJob, mine: LogLimits, theirs: LogLimits) -> bool:
        """Whether a partition of which it is not known how far the copy has come has nothing to compare."""
        record = self._record(job)
        if mine.start < mine.stable:
            return False
        if record is not None:
            return record.source_offset <= mine.stable
        return not self._is_known(job) and theirs.start == theirs.end

    def _with_ranges(self, job: CompareJob, wanted: VerifyRequest) -> CompareJob:
        page = self._page(job)
        size = range_offsets(job.begin, job.end, wanted.range_offsets)
        if job.compacted:
            size = max(1, job.end.source)
        segments = list(page.places) if page is not None else []
        ranges = (cut_shared if self._is_shared(job) else cut)(segments, job.begin, job.end, size)
        if isinstance(ranges, str):
            return replace(job, reason=ranges)
        fraction = 1.0 if job.compacted else wanted.sample
        return replace(
            job,
            ranges=tuple(ranges),
            chosen=tuple(sampled(len(ranges), fraction, str(job.source))),
            key_fraction=wanted.sample if job.compacted else 1.0,
        )

    def _reached(self, job: CompareJob, running: PartitionStatus | None) -> PositionPair | None:
        """How far the copy has come, by whoever knows it best; None: nowhere yet, as far as is known."""
        page, record = self._page(job), self._record(job)
        head = None if page is None else PositionPair(page.places.head.source, page.places.head.target)
        if self._is_shared(job):
            # Behind the head it is not known which records of the target are ours.
            return head
        if running is not None and running.position >= 0 and running.trouble not in _OTHER_TOPIC:
            return PositionPair(running.position, running.target_end)
        told = None if record is None else PositionPair(record.source_offset, record.target_offset)
        return max((each for each in (head, told) if each is not None), default=None)

    def _is_shared(self, job: CompareJob) -> bool:
        record = self._record(job)
        return record is not None and record.shared

    def _page(self, job: CompareJob) -> PartitionOffsetMap | None:
        """What the map says of these very topics."""
        page = self._map.book.find(job.source)
        if page is None or not len(page.places):
            return None
        ids = (page.source_topic_id, page.target_topic_id)
        return page if ids == (job.source_topic_id, job.target_topic_id) else None

    def _record(self, job: CompareJob) -> PartitionRecord | None:
        """What the state says of these very topics."""
        record = self._memory.partitions.get(job.source)
        if record is None or record.target_topic != job.target.topic:
            return None
        ids = (record.source_topic_id, record.target_topic_id)
        return record if ids == (job.source_topic_id, job.target_topic_id) else None

    def _why_nothing(self, job: CompareJob) -> str:
        if self._record(job) is not None:
            return "which offsets belong together is not known: the segments topic on the target tells nothing of it"
        if self._is_known(job):
            return "a topic was created anew, and nothing of that was copied yet"
        return "nothing was copied of it yet"

    def _is_known(self, job: CompareJob) -> bool:
        return job.source in self._memory.partitions or self._map.book.find(job.source) is not None


def _seems_short(job: CompareJob, reached: PositionPair | None, logs: tuple[LogEnds, LogEnds]) -> bool:
    stable = logs[0].stable[job.source].offset, logs[1].stable[job.target].offset
    return reached is not None and (stable[0] < reached.source or stable[1] < reached.target)
