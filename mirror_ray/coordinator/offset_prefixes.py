"""Makes new remote partitions begin at the offset where their source does, before anything is copied into them.

A log that is created begins at offset 0. Fillers take the offsets before the one that it is to begin at, and are
deleted; no consumer is there yet, for the topic counts as copied from its first record on (docs/decisions/0012).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mirror_ray.config.settings import OffsetSettings
from mirror_ray.coordinator.flow_context import FlowContext
from mirror_ray.model.durations import about
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.topics.discovery_rules import TargetLogBounds, occupied_refusal
from mirror_ray.topics.preservation import missing_prefixes, prefix_refusal, prefix_seconds

#: Filled at a time: the target's brokers are busy with each.
_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class PrefixOutcome:
    """Whether the partitions of a topic begin where they should: they do, or they will, or ``refused`` says why not."""

    waits: bool = False
    refused: str | None = None


class OffsetPrefixes:
    """One flow's. What was begun goes on after a restart from where the logs end."""

    def __init__(self, flow: FlowContext, settings: OffsetSettings) -> None:
        self._flow = flow
        self.configure(settings)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        #: Why the last attempt failed.
        self._failures: dict[TopicPartition, str] = {}
        #: Since when logs have been seen to begin where they should.
        self._since_ms: dict[TopicPartition, int] = {}

    def configure(self, settings: OffsetSettings) -> None:
        """From now on begin no topic that lacks more offsets than these settings allow."""
        self._most = settings.prefix_max

    async def prepare(
        self, topic: str, remote: str, starts: Mapping[int, tuple[int, TargetLogBounds]]
    ) -> PrefixOutcome:
        """Have new partitions of ``remote`` begin at these source offsets; ``starts`` has their logs' bounds, too.

        Raises:
            MirrorError: The target can't be asked.
        """
        beyond = {number: bounds.end for number, (start, bounds) in starts.items() if bounds.end > start}
        if beyond:
            number, end = next(iter(beyond.items()))
            return PrefixOutcome(
                refused=f"remote topic {remote} can't have the source's offsets: its partition {number} ends at {end}, "
                f"and copying is to begin at {starts[number][0]}. Delete {remote}, so that it is created anew, or "
                "leave its topic out of offsets.topics"
            )
        filled = {number: bounds for number, (_, bounds) in starts.items() if bounds.end > bounds.start}
        if refused := occupied_refusal(remote, await self._others(remote, filled)):
            return PrefixOutcome(refused=refused)
        missing = missing_prefixes(starts)
        if refused := prefix_refusal(topic, remote, sum(missing.values()), self._most):
            return PrefixOutcome(refused=refused)
        waits = False
        for number, (start, bounds) in starts.items():
            partition = TopicPartition(remote, number)
            if (bounds.start, bounds.end) != (start, start):
                waits = True
                self._since_ms.pop(partition, None)
                self._begin(partition, bounds.end, start)
            elif start and not self._is_kept(partition):
                waits = True
        return PrefixOutcome(waits=waits)

    def _is_kept(self, partition: TopicPartition) -> bool:
        """Whether a log has begun where it should for so long that its brokers know it after a crash, too.

        One that is killed before that has the fillers again: they are deleted once more, and nobody has seen them.
        """
        now_ms, kept_s = self._flow.wall_ms(), self._flow.timing.prefix_kept_s
        if partition not in self._since_ms:
            self._emit(
                "info", partition, f"its log begins there; copied once its brokers have noted it, in {kept_s:g} s"
            )
        return now_ms - self._since_ms.setdefault(partition, now_ms) >= 1000 * kept_s

    async def close(self) -> None:
        """End what is under way."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _others(self, remote: str, filled: Mapping[int, TargetLogBounds]) -> dict[int, TargetLogBounds]:
        """Those of the partitions that somebody else has written to: the last batch is not our producer's."""
        ends = {TopicPartition(remote, number): bounds.end for number, bounds in filled.items()}
        producers = await self._flow.port.last_producers(ends) if ends else {}
        ours = self._producer[0]
        return {
            number: bounds
            for number, bounds in filled.items()
            if producers.get(TopicPartition(remote, number), ours) != ours
        }

    @property
    def _producer(self) -> tuple[int, int]:
        flow = self._flow.state.records.flow
        return (-1, -1) if flow is None else (flow.producer_id, flow.producer_epoch)

    def _begin(self, partition: TopicPartition, log_end: int, end: int) -> None:
        running = self._tasks.get(partition)
        if running is not None and not running.done():
            return
        if running is None:
            took = about(prefix_seconds(end - log_end))
            text = f"its log is brought to offset {end:,}, where its source begins, in about {took}"
            self._emit("info", partition, text)
        self._tasks[partition] = asyncio.create_task(self._fill(partition, log_end, end), name=f"prefix of {partition}")

    async def _fill(self, partition: TopicPartition, log_end: int, end: int) -> None:
        try:
            async with self._slots:
                await self._flow.port.fill_prefix(partition, log_end, end, self._producer)
        except (OSError, MirrorError) as error:
            if self._failures.get(partition) != str(error):
                self._failures[partition] = str(error)
                self._emit("warning", partition, f"its log is not at offset {end:,} yet, tried again: {error}")

    def _emit(self, level: str, partition: TopicPartition, text: str) -> None:
        self._flow.emit(level, str(self._flow.name), f"remote topic {partition}: {text}")
