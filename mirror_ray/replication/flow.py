"""One flow's data path inside one replicator: the loop that puts its partitions where they belong.

What becomes of a partition after whatever happens to it is decided in ``lifecycle``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.internal_topic_writer import IdempotentTopicWriter, InternalTopicWriter
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.internal_topics import segments_topic, statistics_topic
from mirror_ray.model.latency import LatencyCounter
from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import NO_TOPIC_ID, FlowPartition, TopicId, TopicPartition
from mirror_ray.model.policy import load_policy
from mirror_ray.model.quota import QuotaShare
from mirror_ray.replication.broker_loops import BrokerLoops
from mirror_ray.replication.faults import ReplicationFault, recreated
from mirror_ray.replication.fetcher import Fetcher
from mirror_ray.replication.flow_transforms import FlowTransforms
from mirror_ray.replication.leader_queries import LeaderQueries
from mirror_ray.replication.lifecycle import MISSING, Lifecycle
from mirror_ray.replication.log_end_queries import TargetProbe, TargetRefusedError, look_at_sources, look_at_targets
from mirror_ray.replication.offset_map_publisher import OffsetMapPublisher
from mirror_ray.replication.outgoing_batch import BufferBudget
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.sender import TRANSIENT, Sender
from mirror_ray.replication.state_topic_reader import StateReader
from mirror_ray.replication.statistics import StatisticsTally
from mirror_ray.replication.statistics_publisher import StatisticsPublisher, now_ms
from mirror_ray.replication.throttle import FetchThrottle
from mirror_ray.state.schema import state_topic

log = logging.getLogger(__name__)

_TROUBLE_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
_TELL_S = 2.0
#: A shared remote topic grows without us: an idle copy's anchor follows its end, so that ours is soon found behind it.
_SHARED_REFRESH_S = 60.0


class FlowReplication:
    """Copies the partitions that ``assign`` brings until ``remove`` takes them away."""

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        budget: BufferBudget,
        terms: LeaseTerms,
        *,
        replicator: str,
        latencies: LatencyCounter,
        on_changed: Callable[[PartitionReplication], None],
        on_outdated: Callable[[PartitionReplication, str], None],
        on_event: Callable[[str, str], None],
    ) -> None:
        """``on_outdated(copy, why)``: somebody else has the partition, or may have; remove it.

        ``latencies`` counts what is acknowledged. ``on_event(level, text)`` is for the event log.
        """
        self._settings = settings
        self._source, self._target = source, target
        self.budget = budget
        self.pacer = FetchThrottle()
        self._latencies = latencies
        self._on_changed, self._on_outdated, self._on_event = on_changed, on_outdated, on_event
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._workers = BrokerLoops(self._new_fetcher, self._new_sender)
        self._life = Lifecycle(
            self._workers, now_s=self._loop.time, wake=self._wake.set, on_changed=self._copy_changed, on_event=on_event
        )
        name = settings.name
        self._targets, self._sources = (
            LeaderQueries(f"flow {name}: {what}", ask, on_done=self._wake.set, on_failed=self._unanswered)
            for what, ask in (("looking at targets", self._establish), ("looking at sources", self._ask_source))
        )
        self._no_lease: str | None = None
        self._lease = StateReader(
            target,
            state_topic(name.source, name.backfill, name.route),
            terms,
            on_outdated=self._outdated,
            on_lease=self._lease_changed,
        )
        self._transforms = FlowTransforms(
            settings,
            source,
            target,
            on_written=self._workers.touch,
            on_waiting=self._life.explain,
            on_event=on_event,
        )
        self._telling = _telling(settings, source, target, on_event)
        self._publishing = self._new_publishing(replicator) if settings.statistics.emit_enabled else None
        self._task = asyncio.create_task(self._run(), name=f"flow {name}")

    def assign(self, assignment: Assignment) -> bool:
        """Take over a partition that is not assigned here. Its copy begins where the target's log end says.

        Returns:
            False when somebody else has it by now, as the state topic says.
        """
        if not self._lease.assign(assignment):
            return False
        copy = PartitionReplication(
            assignment,
            self.budget,
            buffer_limit_bytes=2 * self._settings.fetch.max_partition_bytes,
            read_committed=self._settings.fetch.isolation_level == "read_committed",
            tally=self._new_tally(assignment) if self._publishing is not None else None,
            latencies=self._latencies,
            transforms=self._transforms.of(assignment),
        )
        if assignment.partition.topic not in self._source.metadata.topics:
            self._life.stale_source = True
        if assignment.target.topic not in self._target.metadata.topics:
            self._life.stale_target = True
        self._life.add(copy)
        return True

    def follow(self, allowance: QuotaShare | None) -> None:
        """Keep to these limits from now on; None: to none."""
        if self.pacer.follow(allowance, self._loop.time()):
            self._workers.limits_changed()

    def copy(self, partition: FlowPartition) -> PartitionReplication | None:
        """The partition's state, if it is assigned here."""
        return self._life.copies.get(partition)

    @property
    def copies(self) -> Iterable[PartitionReplication]:
        """All partitions of this flow that are assigned here."""
        return self._life.copies.values()

    def drain(self, copy: PartitionReplication) -> None:
        """Fetch nothing more for the partition; what is buffered still goes out."""
        copy.draining = True
        self._workers.touch(copy)

    def remove(self, copy: PartitionReplication) -> None:
        """Forget the partition; what is in flight has an unknown outcome from here on."""
        if self._publishing is not None:
            self._publishing.leave(copy)
        self._life.remove(copy)
        self._transforms.forget(copy)
        self._lease.drop(copy.assignment.partition.source)

    async def tell(self, copies: Iterable[PartitionReplication]) -> None:
        """Tell what copies that are about to be removed have done, and of their offsets, if that can be done soon."""
        gone = list(copies)
        flushes = [self._telling.flush(gone)]
        if self._publishing is not None:
            flushes.append(self._publishing.flush(gone))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TELL_S):
                await asyncio.gather(*flushes)

    async def close(self) -> None:
        """Stop every loop. Partitions should have been drained before."""
        self._task.cancel()
        await asyncio.gather(
            self._task,
            self._lease.close(),
            self._targets.close(),
            self._sources.close(),
            self._telling.close(),
            self._transforms.close(),
            *([self._publishing.close()] if self._publishing is not None else []),
            return_exceptions=True,
        )
        await self._workers.close()
        await asyncio.gather(self._source.close(), self._target.close())

    def _copy_changed(self, copy: PartitionReplication) -> None:
        self._telling.changed(copy)
        if copy.transforms is not None:
            self._transforms.changed(copy)
        self._on_changed(copy)

    # ---- called by the reader of the state topic

    def _outdated(self, source: TopicPartition, why: str) -> None:
        copy = self._life.copies.get(FlowPartition(self._settings.name, source.topic, source.partition))
        if copy is not None:
            self._on_outdated(copy, why)

    def _lease_changed(self, problem: str | None) -> None:
        """Nothing may be sent, or everything again.

        Nobody else can have had a partition in between, or a higher epoch would have been seen: what is in flight is
        still answered in order, and the sequences go on as if nothing had been.
        """
        before, self._no_lease = self._no_lease, problem
        if problem is not None and before is None:
            self._on_event("error", f"flow {self._settings.name}: {problem}")
        elif problem is None and before is not None:
            self._on_event("info", f"flow {self._settings.name}: the state topic can be read again: copying goes on")
        for copy in self.copies:
            if (copy.state == "copying" and problem is not None) or (before is not None and copy.reason == before):
                copy.reason = problem
                self._on_changed(copy)
        if problem is None:
            self._workers.wake_senders()

    # ---- the loop that puts partitions where they belong

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._refresh_metadata()
                self._refresh_shared()
                self._look_around()
                self._place()
            except Exception as error:
                unforeseen = not isinstance(error, OSError | MirrorError)
                log.warning("flow %s: %s", self._settings.name, error, exc_info=unforeseen)
                self._life.stale_source = self._life.stale_target = True
                self._life.explain_waiting(self.copies, str(error))
                await asyncio.sleep(_TROUBLE_PAUSE_S)
                continue
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _pause_s(self) -> float:
        now_s = self._loop.time()
        waits = [
            retry.at_s - now_s
            for copy, retry in self._life.retries.items()
            if (copy.needs_end and copy not in self._targets) or copy in self._life.homeless
        ]
        return max(0.001, min(waits, default=_LONGEST_PAUSE_S))

    async def _refresh_metadata(self) -> None:
        life = self._life
        if life.stale_source and life.copies:
            life.stale_source = False
            await self._source.refresh({key.topic for key in life.copies})
        if life.stale_target and life.copies:
            life.stale_target = False
            await self._target.refresh({copy.assignment.target.topic for copy in life.copies.values()})

    def _refresh_shared(self) -> None:
        now_s = self._loop.time()
        for copy in self.copies:
            idle = copy.assignment.shared and copy.state == "copying" and copy.settled
            if idle and now_s - self._life.retries[copy].established_s > _SHARED_REFRESH_S:
                self._life.establish_again(copy)

    def _look_around(self) -> None:
        now_s = self._loop.time()
        self._targets.begin(
            (copy for copy, retry in self._life.retries.items() if copy.needs_end and retry.at_s <= now_s),
            lambda copy: self._target.metadata.leader(copy.assignment.target),
        )
        self._sources.begin(
            (copy for copy in self.copies if copy.asks_source),
            lambda copy: self._source.metadata.leader(copy.assignment.partition.source),
        )

    def _unanswered(self, copies: list[PartitionReplication], text: str) -> None:
        self._life.stale_source = self._life.stale_target = True
        for copy in copies:
            if copy.asks_source:
                self._life.again(copy, text)
            if copy in self._life.retries:
                self._life.retries[copy].at_s = self._loop.time() + _TROUBLE_PAUSE_S
        self._life.explain_waiting(copies, text)

    async def _establish(self, copies: list[PartitionReplication]) -> None:
        """Read the target's log ends and let the copies go on from there."""
        there: list[PartitionReplication] = []
        for copy in copies:
            assignment = copy.assignment
            found = _another(self._target, assignment.target, assignment.target_topic_id)
            if found is None:
                there.append(copy)
            else:
                topic = assignment.target.topic
                self._life.stop(copy, ReplicationFault(recreated("remote", topic, found, assignment.target_topic_id)))
        for copy, look in (await look_at_targets(self._target, there)).items():
            if copy not in self._life.retries:
                continue
            if isinstance(look, TargetProbe):
                self._settle(copy, look)
            elif isinstance(look, TargetRefusedError):
                self._life.back_off(copy, look.error, look.what)
            else:
                self._life.unsettled(copy)

    def _settle(self, copy: PartitionReplication, seen: TargetProbe) -> None:
        if not copy.needs_end:
            return
        problem = self._transforms.problem(copy.assignment)
        if problem is not None:
            self._life.stop(copy, MirrorError(problem))
            return
        try:
            copy.established(seen.log, seen.contents)
        except MirrorError as error:
            self._life.stop(copy, error)
        else:
            self._life.established(copy)

    async def _ask_source(self, copies: list[PartitionReplication]) -> None:
        """Read where the source's logs begin and end; only their leaders know."""
        found = await look_at_sources(self._source, copies, self._settings.fetch.isolation_level)
        for copy, bounds in found.items():
            source = copy.assignment.partition.source
            if not copy.asks_source or copy not in self._life.retries:
                continue
            if isinstance(bounds, str):
                self._life.again(copy, f"source partition {source}: {bounds}")
                continue
            try:
                copy.source_bounds(*bounds)
            except MirrorError as trouble:
                self._life.stop(copy, trouble)
                continue
            if copy.state == "establishing":
                self._life.again(copy, f"source partition {source} was cleaned meanwhile")
            else:
                self._workers.touch(copy)

    def _place(self) -> None:
        """Give each partition without one its fetcher and its sender, by the leaders that the metadata names."""
        life, now_s = self._life, self._loop.time()
        for copy, broker_id in list(life.homeless.items()):
            if copy.state != "copying":
                life.homeless.pop(copy)
            elif life.retries[copy].at_s <= now_s and self._is_there(copy):
                source, target = copy.assignment.partition.source, copy.assignment.target
                brokers = self._source.metadata
                reader = broker_id if broker_id in brokers.brokers else brokers.leader(source)
                writer = self._target.metadata.leader(target)
                if reader < 0 or writer < 0:
                    life.leaderless(copy, f"source {source}" if reader < 0 else f"remote {target}")
                    continue
                life.homeless.pop(copy)
                self._workers.attach(copy, reader, writer)

    def _is_there(self, copy: PartitionReplication) -> bool:
        """Whether the source topic is the one that was assigned, as far as metadata tells; stops the copy if not."""
        source = copy.assignment.partition.source
        another = _another(self._source, source, copy.assignment.source_topic_id)
        error = _topic_error(self._source, source)
        if another is not None:
            assigned = copy.assignment.source_topic_id
            self._life.stop(copy, ReplicationFault(recreated("source", source.topic, another, assigned)))
        elif error is not None and (error not in TRANSIENT or self._life.retries[copy].moves_for_long):
            hint = "; was it deleted?" if error in MISSING else ""
            self._life.stop(copy, MirrorError(f"source topic {source.topic} can't be read: {error}{hint}"))
        return copy in self._life.homeless

    def _new_tally(self, assignment: Assignment) -> StatisticsTally:
        return StatisticsTally(self._settings.statistics.interval_ms, now_ms, shared=assignment.shared)

    def _new_publishing(self, replicator: str) -> StatisticsPublisher:
        name = self._settings.name
        return StatisticsPublisher(
            str(name),
            replicator,
            IdempotentTopicWriter(self._target, statistics_topic(name.source), cleanup_policy="delete"),
            lambda: self.copies,
            interval_ms=self._settings.statistics.interval_ms,
            on_event=self._on_event,
        )

    def _new_fetcher(self, broker_id: int) -> Fetcher:
        settings = self._settings.fetch
        parameters = fetch.FetchParameters(
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            max_partition_bytes=settings.max_partition_bytes,
            read_committed=settings.isolation_level == "read_committed",
            rack=self._source.settings.client_rack or "",
        )
        return Fetcher(
            self._source,
            broker_id,
            parameters,
            self.budget,
            purpose="fetch",
            receive_buffer_bytes=settings.receive_buffer_bytes,
            pacer=self.pacer,
            on_ready=self._life.ready,
            on_stopped=self._life.stop,
            on_again=self._life.again,
            on_moved=self._life.moved,
        )

    def _new_sender(self, broker_id: int, lane: int) -> Sender:
        settings = self._settings.produce
        return Sender(
            self._target,
            broker_id,
            purpose=f"produce {lane}",
            max_request_bytes=settings.max_request_bytes,
            timeout_ms=settings.request_timeout_ms,
            send_buffer_bytes=settings.send_buffer_bytes,
            lease=self._lease,
            on_throttled=lambda wait_s: self.pacer.throttled_by_target(wait_s, self._loop.time()),
            on_answered=self._workers.room_made,
            on_acknowledged=self._life.acknowledged,
            on_refused=self._life.refused,
            on_stopped=self._life.stop,
            on_lost=self._life.lost,
        )


def _telling(
    settings: FlowSettings, source: ClusterConnections, target: ClusterConnections, on_event: Callable[[str, str], None]
) -> OffsetMapPublisher:
    name, syncs = settings.name, settings.offset_syncs
    there, alias = (source, name.target) if syncs.location == "source" else (target, name.source)
    topic = load_policy(settings.policy, name.source).offset_syncs_topic(alias)
    return OffsetMapPublisher(
        str(name),
        # What a backfill copies is no part of the flow's offsets: no group is carried over by it.
        None if name.backfill else InternalTopicWriter(target, segments_topic(name.source, name.route)),
        InternalTopicWriter(there, topic) if syncs.enabled and not name.backfill else None,
        on_event=on_event,
    )


def _topic_error(cluster: ClusterConnections, partition: TopicPartition) -> str | None:
    topic = cluster.metadata.topics.get(partition.topic)
    return error_info(topic.error_code).name if topic is not None and topic.error_code else None


def _another(cluster: ClusterConnections, partition: TopicPartition, assigned: TopicId) -> TopicId | None:
    """The id of the topic of that name, where it is not the one that was assigned."""
    topic = cluster.metadata.topics.get(partition.topic)
    if topic is None or NO_TOPIC_ID in {topic.topic_id, assigned} or topic.topic_id == assigned:
        return None
    return topic.topic_id
