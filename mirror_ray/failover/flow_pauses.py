"""What a plan pauses and resumes in the running system: its flow, or for a wave the wave's topics."""

from __future__ import annotations

from collections.abc import Sequence

from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.flow_reversal import FlowReversal
from mirror_ray.failover.messages import StepOutcome, names
from mirror_ray.failover.running_system import RunningSystem, until_released
from mirror_ray.observe.status import PartitionStatus


class FlowPauses:
    """The pauses of one plan.

    Attributes:
        flow: The flow that is paused: of a plan that reverses it, the flow back.
        own: Whether the plan pauses and resumes a flow itself. In a failback without reversal the failover has paused
            it, and the last step resumes it.
    """

    def __init__(
        self, clusters: FailoverClusters, running: RunningSystem | None, reversal: FlowReversal | None, *, dry: bool
    ) -> None:
        self.flow = str(clusters.flow.name if reversal is None else clusters.ahead.name)
        self.own = clusters.kind == "failover" or reversal is not None
        self._clusters, self._running, self._reversal, self._dry = clusters, running, reversal, dry

    async def held(self) -> list[PartitionStatus]:
        """Partitions that replicators hold: one is shown as paused before its replicator has released it."""
        # Between the two directions neither flow is on.
        if self._running is None or (self._reversal is not None and not await self._reversal.runs_back()):
            return []
        scope = self._clusters.scope
        return [
            partition
            for partition in await self._running.partitions(self.flow)
            if partition.replicator or partition.state == "copying"
            if not scope.is_wave or scope.leaves(partition.topic)
        ]

    async def pause(self) -> StepOutcome:
        """Pause, and wait until replicators have let go."""
        if self._running is None:
            text = f"no running system was found, so nothing copies {self.flow}, as far as is known"
            return StepOutcome("skipped", text, {})
        topics = await self._topics()
        what = self.flow if topics is None else f"{names(topics) or 'no topic'} of {self.flow}"
        figures = {} if topics is None else {"paused": topics}
        if self._dry:
            return StepOutcome("done", f"would pause {what}", figures)
        for topic in [None] if topics is None else topics:
            await self._running.pause(self.flow, topic)
        if held := await until_released(self.held):
            text = f"{self.flow}: {len(held)} partitions go on copying: see `replicators`"
            return StepOutcome("blocked", text, {})
        return StepOutcome("done", f"{what} is paused; a pause outlives restarts", figures)

    async def lift(self) -> None:
        """Resume, so that the flow copies what was written since it was paused."""
        if self._running is None or not self.own or self._dry:
            return
        if self._reversal is not None:
            await self._reversal.go_on(self._running)
            return
        topics = await self._topics()
        for topic in [None] if topics is None else topics:
            await self._running.resume(self.flow, topic)

    async def end(self, topics: Sequence[str]) -> str:
        """The last of a failback: the flow goes on, and topics that waves have paused; returns a sentence."""
        if self._reversal is not None:
            return await self._reversal.end(topics)
        is_wave = self._clusters.scope.is_wave
        what = f"{names(topics) or 'no topic'} of {self.flow}" if is_wave else self.flow
        if self._running is None:
            how = " ".join(f"mirror-ray resume '{self.flow}' {topic}" for topic in topics) if is_wave else ""
            how = how or f"mirror-ray resume '{self.flow}'"
            return f"Start the system (`mirror-ray up CONFIG`), and lift the pause: {how}"
        if self._dry:
            return f"{what} would be resumed where it stood."
        for topic in [*topics] if is_wave else [None, *topics]:
            await self._running.resume(self.flow, topic)
        return f"{what} is resumed where it stood."

    async def _topics(self) -> list[str] | None:
        """The topics that a wave leaves; None: the plan is of the whole flow."""
        if not self._clusters.scope.is_wave:
            return None
        return sorted({partition.topic for partition in await self._clusters.topics()})
