"""What a flow asks the leaders of its partitions, and how its partitions go on from the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import MirrorError
from mirror_ray.replication.faults import ReplicationFault, recreated
from mirror_ray.replication.flow_gaps import FlowGaps
from mirror_ray.replication.flow_transforms import FlowTransforms
from mirror_ray.replication.leader_queries import LeaderQueries
from mirror_ray.replication.lifecycle import Lifecycle
from mirror_ray.replication.log_end_queries import TargetProbe, TargetRefusedError, query_sources, query_targets
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.topic_checks import recreated_id

_RETRY_S = 0.5


class FlowQueries:
    """Asks for target log ends and source log bounds where they are needed, until ``close``."""

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        life: Lifecycle,
        *,
        transforms: FlowTransforms,
        gaps: FlowGaps,
        wake: Callable[[], None],
    ) -> None:
        """``wake()`` is called when something was answered."""
        self._settings = settings
        self._source, self._target = source, target
        self._life, self._transforms, self._gaps = life, transforms, gaps
        self._loop = asyncio.get_running_loop()
        self._targets, self._sources = (
            LeaderQueries(f"flow {settings.name}: {what}", ask, on_done=wake, on_failed=self._unanswered)
            for what, ask in (
                ("log ends of targets", self._query_targets),
                ("log bounds of sources", self._query_sources),
            )
        )

    def is_to_ask(self, copy: PartitionReplication) -> bool:
        """Whether the log end of a partition is to be asked for, and is not yet."""
        return copy.needs_end and copy not in self._targets and self._transforms.not_ready is None

    def begin(self) -> None:
        """Ask what is to be asked now."""
        now_s, not_ready = self._loop.time(), self._transforms.not_ready
        if not_ready is not None:
            self._life.waiting_for_target(self._life.copies.values(), not_ready)
        self._targets.begin(
            (copy for copy, retry in self._life.retries.items() if self.is_to_ask(copy) and retry.at_s <= now_s),
            lambda copy: self._target.metadata.leader(copy.assignment.target),
        )
        self._sources.begin(
            (copy for copy in self._life.copies.values() if copy.asks_source),
            lambda copy: self._source.metadata.leader(copy.source),
        )

    async def close(self) -> None:
        """End what is under way."""
        await asyncio.gather(self._targets.close(), self._sources.close())

    def _unanswered(self, copies: list[PartitionReplication], text: str) -> None:
        self._life.stale_source = self._life.stale_target = True
        for copy in copies:
            if copy.asks_source:
                self._life.interrupted(copy, text)
            if copy in self._life.retries:
                self._life.retries[copy].at_s = self._loop.time() + _RETRY_S
        self._life.waiting_for_target(copies, text)

    async def _query_targets(self, copies: list[PartitionReplication]) -> None:
        """Read the target's log ends, and go on from there."""
        present: list[PartitionReplication] = []
        for copy in copies:
            assignment = copy.assignment
            found = recreated_id(self._target, assignment.target, assignment.target_topic_id)
            if found is None:
                present.append(copy)
            else:
                topic = assignment.target.topic
                self._life.failed(copy, ReplicationFault(recreated("remote", topic, found, assignment.target_topic_id)))
        await self._gaps.settle(present)
        for copy, answer in (await query_targets(self._target, present)).items():
            if copy not in self._life.retries:
                continue
            if isinstance(answer, TargetProbe):
                self._establish(copy, answer)
            elif isinstance(answer, TargetRefusedError):
                self._life.back_off(copy, answer.error, answer.what)
            else:
                self._life.uncommitted(copy)

    def _establish(self, copy: PartitionReplication, probe: TargetProbe) -> None:
        if not copy.needs_end:
            return
        problem = self._transforms.problem(copy.assignment)
        if problem is not None:
            self._life.failed(copy, MirrorError(problem))
            return
        try:
            copy.established(probe.log, probe.contents)
        except MirrorError as error:
            self._life.failed(copy, error)
        else:
            self._life.established(copy)

    async def _query_sources(self, copies: list[PartitionReplication]) -> None:
        """Ask the sources' leaders where their logs begin and end."""
        found = await query_sources(self._source, copies, self._settings.fetch.isolation_level)
        for copy, bounds in found.items():
            if not copy.asks_source or copy not in self._life.retries:
                continue
            if isinstance(bounds, str):
                self._life.interrupted(copy, f"source partition {copy.source}: {bounds}")
                continue
            try:
                copy.source_bounds(*bounds)
            except MirrorError as error:
                self._life.failed(copy, error)
            else:
                self._life.source_answered(copy)
