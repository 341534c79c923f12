"""One flow's first offset pairs: where new partitions begin, and whether their remote topics are shared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordinator.flow_context import FlowContext
from mirror_ray.coordinator.offset_prefixes import OffsetPrefixes
from mirror_ray.coordinator.ports import ClusterTopics, FlowClusters
from mirror_ray.coordinator.transform_changes import TransformChanges
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.model.start import EARLIEST, StartPosition, out_of_bounds
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.topics import discovery_rules
from mirror_ray.topics.discovery_rules import TargetLogBounds, TopicSide


async def find_starts(
    port: FlowClusters, starts: Mapping[str, StartPosition], fresh: Mapping[str, Sequence[int]]
) -> tuple[dict[TopicPartition, int], dict[str, str]]:
    """The first offsets to copy; partitions that can't be asked now are left out.

    Args:
        port: The flow's.
        starts: By topic; one without begins at its earliest record, and so does a partition without an offset.
        fresh: Partitions by topic.

    Returns:
        The offsets, and by topic why it can't begin where it should.

    Raises:
        MirrorError: The source can't be reached, or refuses.
    """
    asked = {
        TopicPartition(topic, number): starts.get(topic, EARLIEST)
        for topic, numbers in fresh.items()
        for number in numbers
    }
    named = {
        partition: offset
        for partition, start in asked.items()
        for number, offset in start.offsets
        if number == partition.partition
    }
    firsts = [partition for partition, start in asked.items() if start.kind in ("earliest", "offsets")]
    ends = [partition for partition, start in asked.items() if start.kind == "latest" or partition in named]
    times = {partition: start.time_ms for partition, start in asked.items() if start.kind == "timestamp"}
    first, end, since = await asyncio.gather(
        port.source_offsets(firsts, latest=False), port.source_offsets(ends, latest=True), port.offsets_since(times)
    )
    bounds = {
        partition: (first[partition], end[partition]) for partition in named if partition in first and partition in end
    }
    found = {partition: offset for partition, offset in [*first.items(), *end.items()] if partition not in named}
    found |= {**since, **{partition: named[partition] for partition in bounds}}
    misplaced: dict[str, str] = {}
    for topic in fresh.keys() & starts.keys():
        within = {partition.partition: pair for partition, pair in bounds.items() if partition.topic == topic}
        if reason := out_of_bounds(topic, starts[topic], fresh[topic], within):
            misplaced[topic] = reason
    return found, misplaced


#: Partitions of a topic that are asked again before all of them are, where some could not be asked.
_SAMPLE = 16


@dataclass(frozen=True, slots=True)
class _NewPartition:
    """Log bounds of a partition without a record; None: it can't be asked now."""

    bounds: TargetLogBounds | None
    start: int | None


class StartPositions:
    """Gives each partition its first record, and turns records of lone writers into shared ones.

    Guarantee: no partition begins in a shared remote topic before every other writer there knows that it is shared.
    """

    def __init__(self, settings: FlowSettings, flow: FlowContext, transforms: TransformChanges) -> None:
        """``transforms`` are noted in each new record; of a route they know where it begins, as its flow determines."""
        self._flow = flow
        self._state, self._writers = flow.state, flow.writers
        self._transforms = transforms
        self._declared = compile_patterns(settings.topics.shared_remote)
        self._rules = replication_rules(settings)
        self._prefixes = OffsetPrefixes(flow, settings.offsets)
        self._both_sides_write = settings.both_sides_write
        #: Where a backfill's partitions end; those that it leaves out end where they begin.
        self._ends = settings.backfill.ends if settings.backfill is not None else None
        self._shared: set[str] = set()
        #: Partitions of shared topics that are still copied as if nobody else wrote there.
        self._alone: set[TopicPartition] = set()
        self._known_version = 0
        #: By topic, partitions that could not be asked when all were: some are asked before all are asked again.
        self._missing: dict[str, list[int]] = {}
        #: Why a topic can't begin where it should.
        self._misplaced: dict[str, str] = {}

    def configure(self, settings: FlowSettings) -> None:
        """Begin topics by these settings from now on: of those that it goes by, one can change while the flow runs."""
        self._prefixes.configure(settings.offsets)

    async def close(self) -> None:
        """End what is under way."""
        await self._prefixes.close()

    def at_other_offsets(self, topics: Iterable[str]) -> list[str]:
        """Topics whose offsets were to be preserved, and that were copied before at offsets of their own."""
        records = self._state.by_topic()
        return [
            topic
            for topic in topics
            if self._rules.preserves_offsets(topic)
            and any(not record.preserve_offsets for record in records.get(topic, {}).values())
        ]

    def holds_back(self, partition: TopicPartition) -> bool:
        """Whether the partition must not be copied before its record says that others write there too."""
        record = self._state.record(partition)
        return partition.topic in self._shared and record is not None and not record.shared

    def is_shared(self, topic: str) -> bool:
        """Whether others write to the topic's remote topic, too."""
        return topic in self._shared

    @property
    def ready(self) -> bool:
        """Whether there is something to do that could not be done before."""
        return self._known_version != self._writers.version or any(map(self._flow.is_unassigned, self._alone))

    async def share(self, selected: Mapping[str, str], target: ClusterTopics) -> bool:
        """Find out which remote topics are shared, and persist that for partitions that nobody copies now.

        Returns:
            Whether a topic waits for another flow to do the same.
        """
        records = self._state.by_topic()
        self._writers.remove_left(
            self._flow.name, lambda topic: topic not in selected and self._nobody_has(topic, records)
        )
        for topic, remote in selected.items():
            self._writers.add((target.cluster_id, remote), (self._flow.name, topic))
        # Topics of this flow that share a remote topic know of each other by now.
        self._known_version = self._writers.version
        self._shared = {
            topic
            for topic, remote in selected.items()
            if self._writers.add((target.cluster_id, remote), (self._flow.name, topic))
            or (self._declared is not None and self._declared.fits(remote))
            or self._both_sides_write(topic, remote)
        }
        alone = {
            TopicPartition(topic, number): record
            for topic in self._shared
            for number, record in records.get(topic, {}).items()
            if not record.shared
        }
        turned: dict[TopicPartition, PartitionRecord] = {}
        for partition, record in alone.items():
            pair = self._state.latest_pair(partition)
            if pair is not None and self._flow.is_unassigned(partition):
                turned[partition] = discovery_rules.shared_record(record.at(pair))
        await self._state.rewrite(turned)
        self._alone = alone.keys() - turned.keys()
        left = {partition.topic for partition in self._alone}
        waiting = False
        for topic, remote in selected.items():
            ours = (target.cluster_id, remote), (self._flow.name, topic)
            self._writers.set_ready(*ours, ready=topic in self._shared and topic not in left)
            waiting |= topic in self._shared and not self._writers.others_ready(*ours)
        return waiting

    def _nobody_has(self, topic: str, records: Mapping[str, Mapping[int, PartitionRecord]]) -> bool:
        return all(self._flow.is_unassigned(TopicPartition(topic, number)) for number in records.get(topic, {}))

    async def begin(self, remotes: Mapping[str, str], source: ClusterTopics, target: ClusterTopics) -> dict[str, str]:
        """Give the partitions of ``remotes`` (by source topic) that have no record their first one.

        Returns:
            Why a topic is refused: its remote topic is neither ours nor declared to be shared, or it can't begin where
            it should.
        """
        fresh = await self._ask_new(remotes, source, target)
        refused: dict[str, str] = {}
        found: dict[TopicPartition, PartitionRecord] = {}
        for topic, partitions in fresh.items():
            known = {
                number: (new.start, new.bounds)
                for number, new in partitions.items()
                if new.bounds is not None and new.start is not None
            }
            waits, reason = await self._waits(topic, remotes[topic], partitions, known)
            if reason is not None:
                refused[topic] = reason
                self._missing.pop(topic, None)
            elif not waits:
                found |= await self._first_records(source.topics[topic], target.topics[remotes[topic]], known)
        await self._state.begin_partitions(found)
        return refused

    async def _waits(
        self,
        topic: str,
        remote: str,
        partitions: Mapping[int, _NewPartition],
        known: Mapping[int, tuple[int, TargetLogBounds]],
    ) -> tuple[bool, str | None]:
        """Whether a topic can't begin yet, and why it can't at all."""
        shared, preserve = topic in self._shared, self._rules.preserves_offsets(topic)
        if preserve and shared:
            return True, (
                f"remote topic {remote} is written by others, too, so that its offsets can't be the source's: leave "
                f"{topic} out of offsets.topics"
            )
        if topic in self._misplaced:
            return True, self._misplaced[topic]
        if preserve and len(known) == len(partitions):
            outcome = await self._prefixes.prepare(topic, remote, known)
            return outcome.waits, outcome.refused
        seen = {number: new.bounds for number, new in partitions.items() if new.bounds is not None}
        reason = None if shared or preserve else discovery_rules.occupied_refusal(remote, seen)
        return len(known) < len(partitions), reason

    async def _first_records(
        self, source: TopicSide, remote: TopicSide, known: Mapping[int, tuple[int, TargetLogBounds]]
    ) -> dict[TopicPartition, PartitionRecord]:
        topic, shared = source.topic, source.topic in self._shared
        producers = await self._producers(len(known)) if shared else []
        found: dict[TopicPartition, PartitionRecord] = {}
        for number, (start, bounds) in known.items():
            # What others have written, and is not committed, may yet be lost.
            pair = OffsetPair(start, bounds.committed, 0 if shared else None)
            record = discovery_rules.first_record(source, remote, pair, producers.pop() if producers else None)
            record = discovery_rules.shared_record(record) if shared else record
            if self._ends is not None:
                end = self._ends.get(TopicPartition(topic, number), record.source_offset)
                record = replace(record, end_offset=end)
            record = replace(record, preserve_offsets=self._rules.preserves_offsets(topic))
            found[TopicPartition(topic, number)] = self._transforms.complete_record(topic, record)
        return found

    async def _ask_new(
        self, remotes: Mapping[str, str], source: ClusterTopics, target: ClusterTopics
    ) -> dict[str, dict[int, _NewPartition]]:
        """Log bounds of new partitions; topics that still have to wait are left out.

        Where thousands of partitions were just created, their leaders come one after the other: a few are asked first.
        """
        records = self._state.by_topic()
        numbers: dict[str, list[int]] = {}
        for topic, name in remotes.items():
            remote = target.topics.get(name)
            ours = (target.cluster_id, name), (self._flow.name, topic)
            waits = topic in self._shared and not self._writers.others_ready(*ours)
            if remote is not None and not waits:
                open_ones = discovery_rules.unaccounted(source.topics[topic], remote, records.get(topic, {}))
                if open_ones:
                    numbers[topic] = open_ones
        doubtful = {topic: self._missing[topic][:_SAMPLE] for topic in numbers if topic in self._missing}
        waiting = _unanswered(await self._ask(doubtful, remotes))
        seen = await self._ask({topic: chosen for topic, chosen in numbers.items() if topic not in waiting}, remotes)
        self._missing = {topic: self._missing[topic] for topic in waiting} | _unanswered(seen)
        return seen

    async def _ask(
        self, numbers: Mapping[str, Sequence[int]], remotes: Mapping[str, str]
    ) -> dict[str, dict[int, _NewPartition]]:
        if not numbers:
            return {}
        there = [TopicPartition(remotes[topic], number) for topic, chosen in numbers.items() for number in chosen]
        bounds, (starts, misplaced) = await asyncio.gather(self._flow.port.target_bounds(there), self._starts(numbers))
        known = {topic: reason for topic, reason in self._misplaced.items() if topic not in numbers}
        self._misplaced = known | misplaced
        return {
            topic: {
                number: _NewPartition(
                    bounds.get(TopicPartition(remotes[topic], number)), starts.get(TopicPartition(topic, number))
                )
                for number in chosen
            }
            for topic, chosen in numbers.items()
        }

    async def _starts(
        self, numbers: Mapping[str, Sequence[int]]
    ) -> tuple[Mapping[TopicPartition, int], dict[str, str]]:
        if self._flow.live_state is not None:
            return self._transforms.route_starts(numbers), {}
        return await find_starts(self._flow.port, self._state.records.starts, numbers)

    async def _producers(self, count: int) -> list[tuple[int, int]]:
        """A producer for each partition; none where the flow copies at least once."""
        if self._state.records.flow is None or self._state.records.flow.producer_id < 0:
            return []
        return list(await asyncio.gather(*(self._flow.port.new_producer() for _ in range(count))))


def _unanswered(seen: Mapping[str, Mapping[int, _NewPartition]]) -> dict[str, list[int]]:
    """By topic, the partitions that could not be asked on one side or the other."""
    found = {
        topic: [number for number, new in partitions.items() if new.bounds is None or new.start is None]
        for topic, partitions in seen.items()
    }
    return {topic: numbers for topic, numbers in found.items() if numbers}
