"""One flow's data path inside one replicator: assignments come in, and a loop finds each partition its workers.

What follows from a partition's events is decided in ``lifecycle``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from functools import partial

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.latency import LatencyCounter
from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import FlowPartition, TopicPartition
from mirror_ray.model.quota import QuotaShare
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.replication.backoff import Backoff
from mirror_ray.replication.broker_loops import BrokerLoops
from mirror_ray.replication.faults import ReplicationFault, recreated
from mirror_ray.replication.flow_gaps import FlowGaps
from mirror_ray.replication.flow_parts import (
    new_fetcher,
    new_offset_map_publisher,
    new_partition,
    new_sender,
    new_statistics_publisher,
)
from mirror_ray.replication.flow_queries import FlowQueries
from mirror_ray.replication.flow_transforms import FlowTransforms
from mirror_ray.replication.lifecycle import MISSING, Lifecycle
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import CopyState
from mirror_ray.replication.pipeline import BufferBudget
from mirror_ray.replication.sample_budget import SampleBudget
from mirror_ray.replication.sender import TRANSIENT
from mirror_ray.replication.state_topic_reader import StateReader
from mirror_ray.replication.supervision import supervise
from mirror_ray.replication.throttle import FetchThrottle
from mirror_ray.replication.topic_checks import recreated_id, topic_error
from mirror_ray.state.schema import state_topic

_RETRY_S = 0.5
_LONGEST_PAUSE_S = 60.0
_FLUSH_S = 2.0
#: A shared remote topic grows without us: an idle partition's position follows its end, so that after a crash our
#: records are soon found behind it.
_SHARED_REFRESH_S = 60.0


class FlowReplication:
    """Replicates the partitions that ``assign`` brings until ``remove`` takes them away."""

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
        self.throttle = FetchThrottle()
        self._on_changed, self._on_outdated, self._on_event = on_changed, on_outdated, on_event
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        name = settings.name
        self._no_lease: str | None = None
        self._lease = StateReader(
            target,
            state_topic(name.source, name.backfill, name.route),
            terms,
            on_outdated=self._outdated,
            on_lease=self._lease_changed,
        )
        self._gaps = FlowGaps(
            target,
            most_markers=settings.offsets.gap_markers,
            lease=self._lease,
            on_filled=self._gap_filled,
            on_event=on_event,
        )
        self._loops = BrokerLoops(
            lambda broker, lane: new_fetcher(
                settings, source, broker, lane, budget=budget, throttle=self.throttle, events=self._life
            ),
            lambda broker, lane: new_sender(settings, target, broker, lane, lease=self._lease, events=self._life),
            round_trips_s=lambda: (source.round_trip_s, target.round_trip_s),
        )
        self._life = Lifecycle(
            self._loops,
            self.throttle,
            now_s=self._loop.time,
            wake=self._wake.set,
            fill=self._gaps.request,
            on_changed=self._copy_changed,
            on_event=on_event,
        )
        self._new_copy = partial(new_partition, settings, budget=budget, latencies=latencies, samples=SampleBudget())
        self._transforms = FlowTransforms(
            settings, source, target, events=self._life, wake=self._wake.set, on_event=on_event
        )
        self._queries = FlowQueries(
            settings, source, target, self._life, transforms=self._transforms, gaps=self._gaps, wake=self._wake.set
        )
        self._offset_map = new_offset_map_publisher(settings, source, target, on_event)
        self._statistics = new_statistics_publisher(settings, target, replicator, lambda: self.copies, on_event)
        self._task = asyncio.create_task(self._run(), name=f"flow {name}")

    def assign(self, assignment: Assignment) -> bool:
        """Take over a partition that is not assigned here, from where the target's log end shows.

        Returns:
            False when somebody else has it by now, as the state topic shows.
        """
        if not self._lease.assign(assignment):
            return False
        copy = self._new_copy(assignment, self._transforms.of(assignment))
        if assignment.partition.topic not in self._source.metadata.topics:
            self._life.stale_source = True
        if assignment.target.topic not in self._target.metadata.topics:
            self._life.stale_target = True
        self._gaps.assigned(assignment)
        self._life.add(copy)
        return True

    def limit(self, share: QuotaShare | None) -> None:
        """Keep to these limits from now on; None: to none."""
        if self.throttle.follow(share, self._loop.time()):
            self._loops.limits_changed()

    def copy(self, partition: FlowPartition) -> PartitionReplication | None:
        """Return the partition, if it is assigned here."""
        return self._life.copies.get(partition)

    @property
    def copies(self) -> Iterable[PartitionReplication]:
        """All partitions of this flow that are assigned here."""
        return self._life.copies.values()

    @property
    def schema_needs(self) -> Iterable[SchemaNeed]:
        """What partitions wait for, where schema ids are translated."""
        return self._transforms.schema_needs

    def drain(self, copy: PartitionReplication) -> None:
        """Fetch nothing more of the partition; what is buffered is still sent."""
        self._life.drain(copy)

    def remove(self, copy: PartitionReplication) -> None:
        """Forget the partition; what became of the batches in flight is not known."""
        if self._statistics is not None:
            self._statistics.leave(copy)
        self._life.remove(copy)
        self._gaps.forget(copy)
        self._transforms.forget(copy)
        self._lease.drop(copy.source)

    async def flush(self, copies: Iterable[PartitionReplication]) -> None:
        """Publish offsets and statistics of partitions that are about to be removed, if that can be done soon."""
        released = list(copies)
        flushes = [self._offset_map.flush(released)]
        if self._statistics is not None:
            flushes.append(self._statistics.flush(released))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_S):
                await asyncio.gather(*flushes)

    async def close(self) -> None:
        """End every loop. Partitions should have been drained before."""
        self._task.cancel()
        await asyncio.gather(
            self._task,
            self._lease.close(),
            self._queries.close(),
            self._gaps.close(),
            self._offset_map.close(),
            self._transforms.close(),
            *([self._statistics.close()] if self._statistics is not None else []),
            return_exceptions=True,
        )
        await self._loops.close()
        await asyncio.gather(self._source.close(), self._target.close())

    def _copy_changed(self, copy: PartitionReplication) -> None:
        self._offset_map.changed(copy)
        if copy.transforms is not None:
            self._transforms.changed(copy)
        self._on_changed(copy)

    def _gap_filled(self, copy: PartitionReplication, end: int | None, why: str) -> None:
        self._life.gap_filled(copy, end, why)

    def _outdated(self, source: TopicPartition, why: str) -> None:
        copy = self._life.copies.get(FlowPartition(self._settings.name, source.topic, source.partition))
        if copy is not None:
            self._on_outdated(copy, why)

    def _lease_changed(self, problem: str | None) -> None:
        """Note why nothing may be sent, or that everything may be again.

        Nobody else can have had a partition in between, or a higher epoch would have been read: what is in flight is
        still answered in order, and the sequences go on as if nothing had happened.
        """
        before, self._no_lease = self._no_lease, problem
        if problem is not None and before is None:
            self._on_event("error", f"flow {self._settings.name}: {problem}")
        elif problem is None and before is not None:
            self._on_event("info", f"flow {self._settings.name}: the state topic can be read again: copying goes on")
        self._life.lease_changed(before, problem)

    async def _run(self) -> None:
        await supervise(
            self._pass, f"flow {self._settings.name}", Backoff(_RETRY_S, _RETRY_S), self._failed, level=logging.WARNING
        )

    def _failed(self, error: Exception) -> None:
        self._life.stale_source = self._life.stale_target = True
        self._life.waiting_for_target(self.copies, str(error))

    async def _pass(self) -> None:
        self._wake.clear()
        await self._refresh_metadata()
        self._refresh_shared()
        self._queries.begin()
        self._place()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s()):
                await self._wake.wait()

    def _pause_s(self) -> float:
        now_s = self._loop.time()
        waits = [
            retry.at_s - now_s
            for copy, retry in self._life.retries.items()
            if self._queries.is_to_ask(copy) or copy in self._life.unplaced
        ]
        return max(0.001, min(waits, default=_LONGEST_PAUSE_S))

    async def _refresh_metadata(self) -> None:
        life = self._life
        if life.stale_source and life.copies:
            life.stale_source = False
            await self._source.refresh({partition.topic for partition in life.copies})
        if life.stale_target and life.copies:
            life.stale_target = False
            await self._target.refresh({copy.assignment.target.topic for copy in life.copies.values()})

    def _refresh_shared(self) -> None:
        now_s = self._loop.time()
        for copy in self.copies:
            idle = copy.assignment.shared and copy.state is CopyState.RUNNING and copy.settled
            if idle and now_s - self._life.retries[copy].established_s > _SHARED_REFRESH_S:
                self._life.follow_shared(copy)

    def _place(self) -> None:
        """Give each unplaced partition its fetcher and its sender, by the leaders in the metadata."""
        life, now_s = self._life, self._loop.time()
        for copy, broker_id in list(life.unplaced.items()):
            if life.retries[copy].at_s <= now_s and self._source_exists(copy):
                source, target = copy.source, copy.assignment.target
                brokers = self._source.metadata
                reader = broker_id if broker_id in brokers.brokers else brokers.leader(source)
                writer = self._target.metadata.leader(target)
                if reader < 0 or writer < 0:
                    life.leaderless(copy, f"source {source}" if reader < 0 else f"remote {target}")
                else:
                    life.place(copy, reader, writer)

    def _source_exists(self, copy: PartitionReplication) -> bool:
        """Whether the source topic is the assigned one, as far as metadata shows; stops the partition if not."""
        source, assigned = copy.source, copy.assignment.source_topic_id
        found = recreated_id(self._source, source, assigned)
        error = topic_error(self._source, source)
        if found is not None:
            self._life.failed(copy, ReplicationFault(recreated("source", source.topic, found, assigned)))
        elif error is not None and (error not in TRANSIENT or self._life.retries[copy].moves_for_long):
            hint = "; was it deleted?" if error in MISSING else ""
            self._life.failed(copy, MirrorError(f"source topic {source.topic} can't be read: {error}{hint}"))
        return copy in self._life.unplaced
