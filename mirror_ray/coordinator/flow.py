"""One flow's desired state: which partitions should be copied now, and the assignments to hand out."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordinator.assignment_rules import PartitionWeight
from mirror_ray.coordinator.discovery import FlowDiscovery
from mirror_ray.coordinator.flow_context import FlowContext
from mirror_ray.coordinator.ports import TargetLimits
from mirror_ray.kafka.state_topic import gaps_transactional_id
from mirror_ray.model.assignment import Assignment, PartitionReport
from mirror_ray.model.errors import ConfigError, MirrorError, StateFencedError
from mirror_ray.model.names import FlowPartition, TopicPartition
from mirror_ray.state.records import Pause
from mirror_ray.state.schema import PAUSE


class FlowController(FlowDiscovery):
    """Desired state of one flow. It never waits for another flow.

    Guarantee: a partition whose remote log is not accounted for is never granted. What is asynchronous raises a
    MirrorError where a cluster can't be reached, or the state has not been read or could not be written.
    """

    def __init__(self, settings: FlowSettings, flow: FlowContext) -> None:
        """Prepare; nothing is sent."""
        super().__init__(settings, flow)
        #: Every partition that should be copying did so at one moment since the flow began.
        self.settled = False
        #: The flow is being ended: it wants nothing any more.
        self.retiring = False
        #: Why nothing is copied for the time being, though nobody has paused it: a window is closed.
        self.closed: str | None = None
        #: Its own, and of a route that of its flow: it stops by the pauses of both.
        self._states = [state for state in (flow.state, flow.live_state) if state is not None]
        self._rules = replication_rules(settings)
        #: Partitions that were released with every request answered.
        self._settled: set[TopicPartition] = set()

    @property
    def down(self) -> str | None:
        """Why the flow as a whole does not go on; None: it does."""
        return self.refused or self.problem or None

    def problems(self) -> tuple[str, ...]:
        """What does not run, one sentence each."""
        own = [self.down] if self.down is not None else []
        return tuple(own + [f"{topic}: {view.refused}" for topic, view in self.topics.items() if view.refused])

    def _is_active(self) -> bool:
        return self.discovered and not self.retiring and self.refused is None

    def wanted(self) -> dict[FlowPartition, PartitionWeight]:
        """Every partition that should be copying now, with its source leader."""
        if not self._is_active():
            return {}
        return {
            FlowPartition(self.name, topic, number): PartitionWeight(view.leaders.get(number, -1))
            for topic, view in self.topics.items()
            if view.refused is None and view.limits is not None
            for number in range(view.source.partitions)
            if self._may_copy(TopicPartition(topic, number))
        }

    @property
    def leased(self) -> list[TopicPartition]:
        """Partitions that somebody may hold; none while the flow must not act."""
        return self.state.leased() if self._is_active() and not self.state.fenced else []

    def _may_copy(self, partition: TopicPartition) -> bool:
        if self._stopping is not None and partition not in self._stopping:
            return False
        return self.state.record(partition) is not None and not (
            self.is_paused(partition) or self.is_changing(partition) or self.state.finished(partition)
        )

    def is_paused(self, partition: TopicPartition) -> bool:
        """Whether an operator's pause stops the partition, or a window that is closed."""
        return self.closed is not None or any(state.is_paused(partition) for state in self._states)

    @property
    def paused(self) -> bool:
        """Whether the whole flow is paused, or that which it is a route of, or its windows are closed."""
        return self.closed is not None or any(state.paused for state in self._states)

    # Ends, for an alignment with routes.

    @property
    def stopping(self) -> Collection[TopicPartition]:
        """The partitions that ``stop_at`` lets copy on."""
        return self._stopping or ()

    async def stop_at(self, ends: Mapping[TopicPartition, int]) -> None:
        """Want nothing any more but these partitions, up to these source offsets; nobody may have them."""
        self._stopping = ()
        self._mark_changed()
        if ends:
            await self.state.set_ends(ends)
            self._stopping = frozenset(ends)
            self._mark_changed()

    async def caught_up_partitions(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those of ``partitions`` on whose target nothing lies behind the last pair, and those without a record.

        Nobody may have any of them.
        """
        records = {
            partition: record for partition in partitions if (record := self.state.record(partition)) is not None
        }
        remotes = {
            partition: TopicPartition(record.target_topic, partition.partition)
            for partition, record in records.items()
            if not record.shared
        }
        bounds = await self.port.target_bounds(list(remotes.values()))
        at_end = {
            partition
            for partition, remote in remotes.items()
            if (pair := self.state.latest_pair(partition)) is not None
            and remote in bounds
            and bounds[remote].end == pair.target_offset
        }
        return at_end | (records.keys() - remotes.keys()) & self._settled | (set(partitions) - records.keys())

    # Assignments and reports.

    async def grant(self, chosen: Mapping[FlowPartition, str]) -> list[Assignment]:
        """Assignments to hand out to the chosen replicators, persisted with new epochs.

        Partitions that may not be copied are left out.
        """
        limits: dict[FlowPartition, TargetLimits] = {}
        for partition in chosen:
            view = self.topics.get(partition.topic)
            allowed = view is not None and view.refused is None and not self.is_changing(partition.source)
            if allowed and view is not None and view.limits is not None:
                limits[partition] = view.limits
        records = (self.state.record(partition.source) for partition in limits)
        waited_for = any(record is not None and record.aligned_at is not None for record in records)
        try:
            granted = await self.state.assign(
                limits,
                self.settings.produce.compression_type,
                {
                    partition: gaps_transactional_id(self.name, replicator)
                    for partition, replicator in chosen.items()
                    if self._rules.preserves_offsets(partition.topic)
                },
            )
            if waited_for:
                # The routes may go on, too.
                self._mark_changed()
            return granted
        except StateFencedError as error:
            self.fail(error)
            raise

    def on_report(self, report: PartitionReport) -> None:
        """Take in what the owner of a partition reports: its offset pair, and its fault."""
        partition = report.partition.source
        self.state.note_pair(partition, report.anchor, settled=report.settled)
        (self._settled.add if report.settled else self._settled.discard)(partition)
        if self.state.finished(partition):
            self._mark_changed()
        if self.faults.on_report(report):
            self.request()

    async def keep_flushing(self) -> None:
        """Persist the pairs that moved, about every second, until another coordinator takes the flow over."""
        while not self.state.fenced:
            await asyncio.sleep(self._flow.timing.flush_s)
            try:
                await self.state.flush()
            except Exception as error:  # noqa: BLE001 - the pairs are kept, and persisted by a later flush
                self.fail(error)

    # Commands.

    async def pause(self, pause: Pause) -> None:
        """Persist and apply a pause.

        Raises:
            ConfigError: The flow has nothing that it could stop.
        """
        counts = {topic: view.source.partitions for topic, view in self.topics.items()} if self.discovered else None
        if (reason := pause.unknown_scope(counts)) is not None:
            raise ConfigError(f"flow {self.name}: {reason}")
        await self._set_pause(pause, on=True)

    async def resume(self, pause: Pause) -> None:
        """Lift the pause of the same scope."""
        await self._set_pause(pause, on=False)

    async def _set_pause(self, pause: Pause, *, on: bool) -> None:
        if not self.opened:
            raise MirrorError(f"flow {self.name} is still starting: {self.problem or 'its state is being read'}")
        await self.state.write([(PAUSE, pause, True if on else None)])
        self._mark_changed()

    def on_decision(self) -> None:
        """Carry out what was decided about a fault as soon as may be."""
        self.request()
        self._mark_changed()

    def close(self, reason: str | None) -> None:
        """Copy nothing for that reason; None: copy again."""
        self.closed = reason
        self._mark_changed()

    def retire(self) -> None:
        """Want nothing any more; reports are still taken."""
        self.retiring = True
        self._mark_changed()
