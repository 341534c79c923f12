"""What is compared of each partition: asked of the map, the state, the logs and the topics' configs when it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordination.state import FlowMemory, PartitionRecord, decode, state_topic
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION, error_info
from mirror_ray.kafka.offsets import EARLIEST, LATEST, OffsetAnswer
from mirror_ray.kafka.state import read_state
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.offsets.book import Page
from mirror_ray.offsets.maps import FollowedMap
from mirror_ray.topics.selection import replication_rules
from mirror_ray.verification.begin import NotKnown, begin_of
from mirror_ray.verification.job import Job
from mirror_ray.verification.ranges import RANGE_OFFSETS, Pair, cut, cut_shared, range_offsets, sampled

#: Where no time was asked for.
_NO_TIME = OffsetAnswer(0, 0)
#: Troubles in which a running system's pair is of another topic than the one that is there.
_OTHER_TOPIC = frozenset({"source_recreated", "target_recreated", "target_missing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What somebody asks for."""

    #: Source topics; empty: all that the flow copies.
    topics: tuple[str, ...] = ()
    #: Of the ranges, or of a compacted partition's keys.
    sample: float = 1.0
    #: Records from that time on, in ms since the epoch.
    since_ms: int | None = None
    #: Least source offsets of a range.
    range_offsets: int = RANGE_OFFSETS


class _Logs(NamedTuple):
    """One side's logs."""

    starts: Mapping[TopicPartition, OffsetAnswer]
    ends: Mapping[TopicPartition, OffsetAnswer]


class Planner:
    """Plans for one flow. ``own_map`` is followed by somebody else, and was read to its end."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster, own_map: FollowedMap) -> None:
        self._flow = flow
        self._rules = replication_rules(flow)
        self._source, self._target = source, target
        self._map = own_map
        self._memory = FlowMemory()
        self._since: Mapping[TopicPartition, OffsetAnswer] = {}

    async def plan(self, wanted: Wanted, running: Sequence[PartitionStatus] = ()) -> list[Job]:
        """One job for each partition, by topic and number; what can't be compared says why.

        Args:
            wanted: What is asked for.
            running: What a running system says of the flow's partitions.

        Raises:
            ConfigError: The flow copies no such topic.
            ClusterUnreachableError: A cluster does not answer.
            MirrorError: The state topic can't be read.
        """
        sources = await self._sources(wanted)
        remotes = {each: TopicPartition(self._rules.remote_topic(each.topic), each.partition) for each in sources}
        await self._target.refresh({each.topic for each in remotes.values()})
        self._memory = await self._read_memory()
        policies = await asyncio.gather(
            _configs(self._source, {each.topic for each in sources}),
            _configs(self._target, {each.topic for each in remotes.values()}),
        )
        told = {TopicPartition(each.topic, each.partition): each for each in running}
        jobs = [self._job(each, remotes[each], policies) for each in sources]
        reached = {job.source: self._reached(job, told.get(job.source)) for job in jobs}
        # Later than that: up to there, both logs are as long.
        logs = await asyncio.gather(
            self._logs(self._source, sources, committed=self._committed),
            self._logs(self._target, remotes.values(), committed=True),
        )
        if wanted.since_ms is not None and sources:
            asked = dict.fromkeys(sources, wanted.since_ms)
            self._since = await self._source.list_offsets(asked, "read_uncommitted")
        return [
            await self._bounded(job, reached[job.source], logs, wanted) if job.reason is None else job for job in jobs
        ]

    async def begin_at(self, job: Job, source: int, target: int) -> Pair | None:
        """The first exact pair at or behind both positions; None: none is known."""
        page, record = self._page(job), self._record(job)
        found = await begin_of(self._map.translator, job.source, page, record, (source, target))
        return None if isinstance(found, NotKnown) else found.pair

    @property
    def _committed(self) -> bool:
        return self._flow.fetch.isolation_level == "read_committed"

    async def _sources(self, wanted: Wanted) -> list[TopicPartition]:
        found = (await self._source.refresh(None)).topics
        copied = {name for name in found if self._rules.should_replicate_topic(name)}
        for topic in wanted.topics:
            if topic not in copied:
                why = "does not copy it" if topic in found else "finds no such topic on its source"
                raise ConfigError(f"topic {topic!r}: the flow {self._flow.name} {why}; `mirror-ray topics` lists them")
        chosen = set(wanted.topics) or copied
        return sorted(TopicPartition(topic, number) for topic in chosen for number in found[topic].partitions)

    async def _read_memory(self) -> FlowMemory:
        topic = state_topic(self._flow.name.source)
        found = (await self._target.refresh([topic])).topics[topic]
        if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return FlowMemory()
        return decode(await asyncio.to_thread(read_state, self._target.settings, topic))

    async def _logs(self, cluster: Cluster, partitions: Iterable[TopicPartition], *, committed: bool) -> _Logs:
        known = [each for each in partitions if cluster.metadata.partition(each) is not None]
        isolation = "read_committed" if committed else "read_uncommitted"
        starts, ends = await asyncio.gather(
            cluster.list_offsets(dict.fromkeys(known, EARLIEST), "read_uncommitted"),
            cluster.list_offsets(dict.fromkeys(known, LATEST), isolation),  # type: ignore[arg-type]
        )
        return _Logs(starts, ends)

    def _job(
        self, source: TopicPartition, target: TopicPartition, policies: Sequence[Mapping[str, _Policy | MirrorError]]
    ) -> Job:
        alias = self._target.settings.alias
        gaps = tuple(gap for (each, _), gap in sorted(self._memory.gaps.items()) if each == source)
        job = Job(source=source, target=target, gaps=gaps)
        if self._target.metadata.partition(target) is None:
            return replace(job, reason=f"{target} is missing on cluster {alias}")
        mine, theirs = policies[0].get(source.topic), policies[1].get(target.topic)
        if not isinstance(mine, _Policy) or not isinstance(theirs, _Policy):
            refused = theirs if isinstance(mine, _Policy) else mine
            return replace(job, reason=f"the topic's configs can't be read: {refused or 'it was deleted'}")
        notes = ("the remote topic has LogAppendTime: timestamps were not compared",) if theirs.append_time else ()
        return replace(
            job,
            source_topic_id=self._source.metadata.topics[source.topic].topic_id,
            target_topic_id=self._target.metadata.topics[target.topic].topic_id,
            compacted=mine.compacted or theirs.compacted,
            timestamps=not theirs.append_time,
            notes=notes,
        )

    async def _bounded(self, job: Job, reached: Pair | None, logs: tuple[_Logs, _Logs], wanted: Wanted) -> Job:
        since = self._since.get(job.source, _NO_TIME)
        mine, theirs = (
            (logs[0].starts[job.source], logs[0].ends[job.source]),
            (
                logs[1].starts[job.target],
                logs[1].ends[job.target],
            ),
        )
        failed = next((each.error_code for each in (*mine, *theirs, since) if each.error_code), 0)
        if failed:
            return replace(job, reason=f"a leader does not answer: {error_info(failed).name}")
        if reached is None:
            return job if mine[0].offset == mine[1].offset else replace(job, reason=self._why_nothing(job))
        until = Pair(min(reached.source, mine[1].offset), min(reached.target, theirs[1].offset))
        notes = job.notes
        if until != reached:
            notes += (f"a log lost its end: source offset {reached.source} was target offset {reached.target}",)
        first = max(mine[0].offset, until.source if since.offset < 0 else since.offset)
        if first >= until.source or theirs[0].offset >= until.target:
            return replace(job, begin=until, end=until, notes=notes)
        starts = first, theirs[0].offset
        found = await begin_of(self._map.translator, job.source, self._page(job), self._record(job), starts)
        if isinstance(found, NotKnown):
            return replace(job, reason=found.why, notes=notes)
        begin = min(found.pair, until)
        begin = Pair(begin.source, min(begin.target, until.target))
        notes += (found.note,) if found.note else ()
        return self._with_ranges(replace(job, begin=begin, end=until, notes=notes), wanted)

    def _with_ranges(self, job: Job, wanted: Wanted) -> Job:
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

    def _reached(self, job: Job, running: PartitionStatus | None) -> Pair | None:
        """How far the copy has come, by whoever knows it best; None: nowhere yet, as far as is known."""
        page, record = self._page(job), self._record(job)
        head = None if page is None else Pair(page.places.head.source, page.places.head.target)
        if self._is_shared(job):
            # Behind the head it is not known which records of the target are ours.
            return head
        if running is not None and running.position >= 0 and running.trouble not in _OTHER_TOPIC:
            return Pair(running.position, running.target_end)
        told = None if record is None else Pair(record.source_offset, record.target_offset)
        return max((each for each in (head, told) if each is not None), default=None)

    def _is_shared(self, job: Job) -> bool:
        record = self._record(job)
        return record is not None and record.shared

    def _page(self, job: Job) -> Page | None:
        """What the map says of these very topics."""
        page = self._map.book.find(job.source)
        if page is None or not len(page.places):
            return None
        ids = (page.source_topic_id, page.target_topic_id)
        return page if ids == (job.source_topic_id, job.target_topic_id) else None

    def _record(self, job: Job) -> PartitionRecord | None:
        """What the state says of these very topics."""
        record = self._memory.partitions.get(job.source)
        if record is None or record.target_topic != job.target.topic:
            return None
        ids = (record.source_topic_id, record.target_topic_id)
        return record if ids == (job.source_topic_id, job.target_topic_id) else None

    def _why_nothing(self, job: Job) -> str:
        known = job.source in self._memory.partitions or self._map.book.find(job.source) is not None
        return (
            "a topic was created anew, and nothing of that was copied yet" if known else "nothing was copied of it yet"
        )


@dataclass(frozen=True, slots=True)
class _Policy:
    """Of a topic's configs what decides how it is compared."""

    compacted: bool
    append_time: bool


async def _configs(cluster: Cluster, topics: Collection[str]) -> dict[str, _Policy | MirrorError]:
    admin = ClusterAdmin(cluster.settings, "mirror-ray-verify")
    try:
        found = await asyncio.to_thread(admin.try_describe_topic_configs, topics)
    finally:
        await asyncio.to_thread(admin.close)
    return {
        name: configs
        if isinstance(configs, MirrorError)
        else _Policy(
            compacted="compact" in (configs["cleanup.policy"].value or ""),
            append_time=configs["message.timestamp.type"].value == "LogAppendTime",
        )
        for name, configs in found.items()
    }
