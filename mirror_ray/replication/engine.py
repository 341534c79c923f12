"""The replicator's core: every flow's data path in one process, and the reports that the coordinator reads."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import psutil

from mirror_ray.config.difference import data_path
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.latency import LatencyCounter
from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import FlowName, FlowPartition
from mirror_ray.model.quota import QuotaShare, ThrottledTime
from mirror_ray.records import kernel
from mirror_ray.replication.flow import FlowReplication
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.pipeline import BufferBudget
from mirror_ray.replication.statistics_publisher import now_ms

_EVENTS_KEPT = 1000
_DRAIN_POLL_S = 0.005
_RECONFIGURE_DRAIN_S = 10.0
#: Ten thousands of batches are in memory and make no cycles: searching for cycles at each seven hundred new objects,
#: Python's default, takes a seventh of the processor time of small batches.
_COLLECT_AFTER_OBJECTS = 50_000


class ReplicationEngine:
    """Replicates what it is assigned until that is released, with or without a coordinator.

    Not thread-safe: every call is made on the event loop that ``start`` ran on.
    """

    def __init__(self, settings: MirrorSettings, replicator: str, node: str) -> None:
        self._settings = settings
        self._replicator, self._node = replicator, node
        self._flows: dict[FlowName, FlowReplication] = {}
        #: They outlive the flows' data paths.
        self._latencies: dict[FlowName, LatencyCounter] = {}
        self._changed: set[PartitionReplication] = set()
        self._events: deque[tuple[int, str, str]] = deque(maxlen=_EVENTS_KEPT)
        self._given_up: list[tuple[FlowPartition, int]] = []
        self._process = psutil.Process()
        self._records = self._bytes = 0
        self._counted: dict[PartitionReplication, tuple[int, int]] = {}
        self._shares: dict[FlowName, QuotaShare] = {}
        #: Of data paths that were replaced since.
        self._throttled: dict[FlowName, ThrottledTime] = {}

    async def start(self) -> None:
        """Prepare this process for assignments."""
        gc.set_threshold(_COLLECT_AFTER_OBJECTS)

    async def configure(self, settings: MirrorSettings) -> None:
        """Use other settings from now on; only flows whose data path they change are drained and started again."""
        changed = [name for name in self._flows if data_path(self._settings, name) != data_path(settings, name)]
        self._settings = settings
        for name in changed:
            flow = self._flows[name]
            copies = list(flow.copies)
            await self.release([copy.assignment.partition for copy in copies], _RECONFIGURE_DRAIN_S)
            await self._close(name)
            if data_path(settings, name) is not None:
                self.assign([replace(copy.assignment, anchor=copy.acknowledged) for copy in copies])

    def assign(self, assignments: Sequence[Assignment]) -> None:
        """Begin to replicate. A partition that is assigned already starts over with the new epoch."""
        for assignment in assignments:
            before = self._find(assignment.partition)
            if before is not None:
                self._forget(before)
                held, given = before.assignment.epoch, assignment.epoch
                self._report_given_up(assignment, f"it was handed out with epoch {given}, ours is {held}")
            if not self._flow(assignment.partition.flow).assign(assignment):
                self._give_up(assignment, "a newer assignment of it was read before this one came")

    async def release(self, partitions: Sequence[FlowPartition], deadline_s: float) -> list[PartitionReport]:
        """Stop replicating ``partitions``, after at most ``deadline_s`` for what is on its way to be acknowledged.

        Returns their last reports. What was not acknowledged in time is safe all the same: whoever gets the partition
        next reads the target's log end first.
        """
        copies = [copy for copy in map(self._find, partitions) if copy is not None]
        for copy in copies:
            self._flows[copy.assignment.partition.flow].drain(copy)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                await self._drained(copies)
        complete = {copy for copy in copies if copy.complete}
        for name in {copy.assignment.partition.flow for copy in copies} & self._flows.keys():
            await self._flows[name].flush([copy for copy in copies if copy.assignment.partition.flow == name])
        for copy in copies:
            # It may have been assigned anew while it was drained.
            if self._find(copy.assignment.partition) is copy:
                self._forget(copy)
        await self._close_backfills()
        return [replace(copy.report(), settled=copy in complete) for copy in copies]

    def allow(self, allowances: Sequence[QuotaShare]) -> None:
        """Keep to these limits from now on; flows that are not named have none."""
        self._shares = {share.flow: share for share in allowances}
        for name, flow in self._flows.items():
            flow.limit(self._shares.get(name))

    def report(self, full: bool = False) -> ReplicatorReport:
        """Describe the process, with the partitions that changed since the last report, or all of them."""
        changed = [copy for flow in self._flows.values() for copy in flow.copies] if full else list(self._changed)
        self._changed.clear()
        for copy in changed:
            self._count(copy)
        events = tuple(self._events)
        self._events.clear()
        given_up, self._given_up = tuple(self._given_up), []
        with self._process.oneshot():
            cpu, memory = self._process.cpu_times(), self._process.memory_info().rss
        return ReplicatorReport(
            replicator=self._replicator,
            node=self._node,
            pid=os.getpid(),
            cpu_seconds=cpu.user + cpu.system,
            memory_bytes=memory,
            buffered_bytes=sum(flow.budget.used_bytes for flow in self._flows.values()),
            records=self._records,
            bytes=self._bytes,
            partitions=tuple(copy.report() for copy in changed),
            assigned=sum(1 for flow in self._flows.values() for _ in flow.copies),
            given_up=given_up,
            events=events,
            latencies=tuple((name, counter.so_far()) for name, counter in self._latencies.items()),
            schema_needs=tuple({need for flow in self._flows.values() for need in flow.schema_needs}),
            has_kernel=kernel.is_available(),
            held=tuple((name, self._throttled_so_far(name)) for name in self._flows),
        )

    async def stop(self, deadline_s: float) -> None:
        """Drain everything, then close every connection."""
        everything = [copy.assignment.partition for flow in self._flows.values() for copy in flow.copies]
        await self.release(everything, deadline_s)
        await asyncio.gather(*map(self._close, list(self._flows)))

    async def _close_backfills(self) -> None:
        """Close backfills that have no partition here any more, with their connections and their share of memory."""
        over = [name for name, flow in self._flows.items() if name.backfill and not list(flow.copies)]
        await asyncio.gather(*map(self._close, over))

    async def _close(self, name: FlowName) -> None:
        self._throttled[name] = self._throttled_so_far(name)
        await self._flows.pop(name).close()

    def _throttled_so_far(self, name: FlowName) -> ThrottledTime:
        return self._throttled.get(name, ThrottledTime()) + self._flows[name].throttle.held

    def _budget(self, name: FlowName) -> BufferBudget:
        """Return a flow's share of memory: a slow target must not take the others'. A backfill has half of one."""
        shares = sum(flow.enabled for flow in self._settings.flows) * (2 if name.backfill else 1)
        return BufferBudget(self._settings.replicator_buffer_bytes // shares)

    @staticmethod
    async def _drained(copies: Sequence[PartitionReplication]) -> None:
        for copy in copies:
            # Polled every few milliseconds: an event for each batch would cost the data path more.
            while not copy.drained:  # noqa: ASYNC110
                await asyncio.sleep(_DRAIN_POLL_S)

    def _forget(self, copy: PartitionReplication) -> None:
        self._flows[copy.assignment.partition.flow].remove(copy)
        self._count(copy)
        self._counted.pop(copy, None)
        self._changed.discard(copy)

    def _outdated(self, copy: PartitionReplication, why: str) -> None:
        """Give up a partition without draining: whoever has it now reads the target's log end first."""
        self._forget(copy)
        self._give_up(copy.assignment, why)

    def _give_up(self, assignment: Assignment, why: str) -> None:
        self._given_up.append((assignment.partition, assignment.epoch))
        self._report_given_up(assignment, why)

    def _report_given_up(self, assignment: Assignment, why: str) -> None:
        self._event("warning", f"{assignment.partition} given up: {why}")

    def _count(self, copy: PartitionReplication) -> None:
        """Add to the process's totals what a partition did since it was last counted."""
        records, size = self._counted.get(copy, (0, 0))
        self._records += copy.progress.records - records
        self._bytes += copy.progress.bytes - size
        self._counted[copy] = (copy.progress.records, copy.progress.bytes)

    def _find(self, partition: FlowPartition) -> PartitionReplication | None:
        flow = self._flows.get(partition.flow)
        return flow.copy(partition) if flow is not None else None

    def _flow(self, name: FlowName) -> FlowReplication:
        if name not in self._flows:
            settings = self._settings.flow(name)
            client_id = f"{name}|{self._replicator}"
            terms = LeaseTerms(self._settings.lease_ms)
            self._flows[name] = FlowReplication(
                settings,
                ClusterConnections(self._settings.clusters[name.source], client_id),
                ClusterConnections(self._settings.clusters[name.target], client_id, user_timeout_ms=terms.kernel_ms),
                self._budget(name),
                terms,
                replicator=self._replicator,
                latencies=self._latencies.setdefault(name, LatencyCounter(now_ms)),
                on_changed=self._changed.add,
                on_outdated=self._outdated,
                on_event=self._event,
            )
            self._flows[name].limit(self._shares.get(name))
        return self._flows[name]

    def _event(self, level: str, text: str) -> None:
        self._events.append((now_ms(), level, text))
