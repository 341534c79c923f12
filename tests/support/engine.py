"""A ReplicationEngine without Ray, as its coordinator would know it from its reports."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.model.assignment import Assignment, PartitionReport
from mirror_ray.model.fault import FaultKind, PartitionFault
from mirror_ray.model.names import FlowPartition, TopicPartition
from mirror_ray.replication.engine import ReplicationEngine
from tests.support.waiting import PATIENCE

_POLL_S = 0.02

SourceEnds = Callable[[Collection[TopicPartition]], Awaitable[dict[TopicPartition, int]]]
Advertised = Callable[[str, int], tuple[str, int]]


class Engine:
    """A running ReplicationEngine, and what a coordinator would know from its reports."""

    def __init__(self, settings: MirrorSettings, source_ends: SourceEnds, advertised: Advertised | None = None) -> None:
        self.core = ReplicationEngine(settings, "replicator-0", "node")
        self.events: list[str] = []
        self.given_up: list[tuple[FlowPartition, int]] = []
        self.reports: dict[TopicPartition, PartitionReport] = {}
        self.most_buffered_bytes = 0
        self.records = 0
        self._source_ends = source_ends
        self._advertised = advertised
        self._assigned: set[TopicPartition] = set()

    def assign(self, assignments: Sequence[Assignment]) -> None:
        """Hand out."""
        self._assigned |= {assignment.partition.source for assignment in assignments}
        self.core.assign(assignments)
        if self._advertised is not None:
            for flow in self.core._flows.values():
                _readdress(flow._source, self._advertised)
                _readdress(flow._target, self._advertised)

    def look(self) -> dict[TopicPartition, PartitionReport]:
        """Read a report, as a coordinator does every so often."""
        report = self.core.report()
        self.reports |= {partition.partition.source: partition for partition in report.partitions}
        self.events += [text for *_, text in report.events]
        self.given_up += report.given_up
        self.most_buffered_bytes = max(self.most_buffered_bytes, report.buffered_bytes)
        self.records = report.records
        return self.reports

    @property
    def stops(self) -> list[str]:
        """Events that tell of a partition that stopped."""
        return [event for event in self.events if " stopped, tried again later: " in event]

    async def until(self, condition: Callable[[], object], timeout_s: float, what: str) -> None:
        """Read reports until ``condition`` holds."""
        timeout_s *= PATIENCE
        try:
            async with asyncio.timeout(timeout_s):
                self.look()
                while not condition():
                    await asyncio.sleep(_POLL_S)
                    self.look()
        except TimeoutError:
            states = [f"{r.partition}: {r.state} {r.position}/{r.source_end} {r.reason}" for r in self.reports.values()]
            raise AssertionError(f"not within {timeout_s:g} s: {what}; {states[:8]}; {self.events[-8:]}") from None

    async def caught_up(
        self, timeout_s: float = 30.0, but: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, PartitionReport]:
        """Wait until every partition, except ``but``, is where its source ends now, and says so."""
        ends = await self._source_ends(self._assigned - set(but))
        await self.until(
            lambda: all(_is_caught_up(self.reports.get(p), end) for p, end in ends.items()), timeout_s, "caught up"
        )
        return self.reports

    async def reached(self, ends: Mapping[TopicPartition, int], timeout_s: float = 30.0) -> None:
        """Wait until the positions are at ``ends`` or beyond."""
        await self.until(
            lambda: all(p in self.reports and self.reports[p].position >= end for p, end in ends.items()),
            timeout_s,
            f"positions {ends}",
        )

    async def stopped(self, partition: TopicPartition, timeout_s: float = 20.0) -> str:
        """Wait until ``partition`` has stopped, and return its reason."""
        await self.until(
            lambda: partition in self.reports and self.reports[partition].state == "stopped",
            timeout_s,
            f"{partition} stopped",
        )
        return self.reports[partition].reason or ""

    async def troubled(self, partition: TopicPartition, kind: FaultKind, timeout_s: float = 20.0) -> PartitionFault:
        """Wait until ``partition`` is in that trouble; it is stopped then, and its reason says what the trouble is."""

        def found() -> bool:
            report = self.reports.get(partition)
            return report is not None and report.trouble is not None and report.trouble.kind == kind

        await self.until(found, timeout_s, kind)
        report = self.reports[partition]
        assert report.state == "stopped"
        assert report.trouble is not None
        assert report.reason == report.trouble.text
        assert partition.topic in report.trouble.text
        return report.trouble

    async def stop(self) -> None:
        """Drain and stop."""
        await self.core.stop(10.0)
        self.look()

    async def crash(self) -> None:
        """End it as SIGKILL would: nothing is drained, connections are reset."""
        for flow in self.core._flows.values():
            tasks = [
                flow._task,
                *flow._queries._targets._tasks,
                *flow._queries._sources._tasks,
                *((flow._gaps._filler._task,) if flow._gaps._filler is not None else ()),
                flow._lease._task,
                flow._offset_map._writer._task,
                *((flow._transforms._task,) if flow._transforms._task is not None else ()),
                *((ids._task,) if (ids := flow._transforms._schema_ids)._task is not None else ()),
                *((flow._statistics._task, flow._statistics._writer._task) if flow._statistics is not None else ()),
                *(f._task for f in flow._loops._fetchers.values()),
                *(s._task for s in flow._loops._senders.values()),
            ]
            for task in tasks:
                task.cancel()
            for cluster in (flow._source, flow._target):
                for opening in cluster._connections.values():
                    if opening.done() and not opening.cancelled() and opening.exception() is None:
                        opening.result().abort("crashed")
                await cluster.close()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.core._flows.clear()


def _is_caught_up(report: PartitionReport | None, end: int) -> bool:
    return report is not None and report.state == "copying" and end <= report.source_end <= report.position


def _readdress(cluster: ClusterConnections, advertised: Advertised) -> None:
    """Reach each broker by another address than the one it advertises."""
    opened = cluster._open

    async def open_elsewhere(host: str, port: int, *buffers: int, **options: Any) -> Connection:
        connection = await opened(*advertised(host, port), *buffers, **options)
        connection.host, connection.port = host, port
        return connection

    vars(cluster)["_open"] = open_elsewhere
