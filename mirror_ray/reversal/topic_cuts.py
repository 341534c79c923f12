"""Finds the cuts of all topics of a flow, while it does not copy and nobody writes on its source."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import LEADER_NOT_AVAILABLE
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.log_bounds import all_bounds, settled_bounds
from mirror_ray.offsets.translation import ReadableBounds
from mirror_ray.reversal.cut import LogSpan, PartitionCut, TopicCut, side_of
from mirror_ray.reversal.flow_states import BothStates
from mirror_ray.reversal.positions import CutReader
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.topics.discovery_rules import TopicSide
from mirror_ray.verification.partition_log import PartitionLog

#: Partitions that are read at the same time.
_AT_ONCE: Final = 16


class _Sides(NamedTuple):
    """One topic on both clusters."""

    source: TopicSide
    target: TopicSide


class _Logs(NamedTuple):
    """The logs of all topics."""

    source: Mapping[TopicPartition, ReadableBounds]
    target: Mapping[TopicPartition, ReadableBounds]


class TopicCuts:
    """Finds the cut of each topic that both sides write under one name."""

    def __init__(self, states: BothStates, names: Mapping[str, str]) -> None:
        """``names``: the topics on the source, by their names on the target."""
        self._states, self._names = states, names
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def find(self) -> list[TopicCut]:
        """Find the cuts, in the order of the topics' names.

        Raises:
            ClusterUnreachableError: A leader does not answer.
            NotReadyError: A transaction is open on the source, or replicas lag.
            MirrorError: The target does not hold what was copied.
        """
        states = self._states
        sides = {
            topic: _Sides(_side(states.source, topic), _side(states.target, remote))
            for remote, topic in sorted(self._names.items(), key=lambda item: item[1])
        }
        logs = _Logs(
            await settled_bounds(states.source, _partitions([side.source for side in sides.values()])),
            await all_bounds(states.target, _partitions([side.target for side in sides.values()])),
        )
        return list(await asyncio.gather(*(self._find(topic, both, logs) for topic, both in sides.items())))

    async def _find(self, topic: str, sides: _Sides, logs: _Logs) -> TopicCut:
        source, target = sides
        known = self._states.flow.records.partitions
        records = {partition: record for partition, record in known.items() if partition.topic == topic}
        self._check(target, records.values())
        replaced = ""
        if source.partitions and any(record.source_topic_id != source.topic_id for record in records.values()):
            replaced = f"{topic} was created anew on {self._states.source.settings.alias}"
        own = {partition: log for partition, log in logs.source.items() if partition.topic == topic}
        cuts: list[PartitionCut] = []
        if source.partitions and not replaced:
            asked = [self._cut(partition, record, sides, logs) for partition, record in sorted(records.items())]
            cuts = list(await asyncio.gather(*asked))
        spans = [span for cut in cuts if (span := _span(cut, own[cut.source])) is not None]
        if replaced:
            spans = [LogSpan(partition, *log) for partition, log in sorted(own.items())]
        return TopicCut(
            topic=topic,
            remote=target.topic,
            source_side=source,
            remote_side=target,
            partitions=tuple(cuts),
            replaced=replaced,
            empty=all(log.start == log.end for log in own.values()),
            spans=tuple(span for span in spans if span.start < span.end),
            only_on_source=tuple(p for p, log in sorted(own.items()) if p not in records and log.start < log.end),
        )

    def _check(self, target: TopicSide, records: Collection[PartitionRecord]) -> None:
        remote, alias = target.topic, self._states.target.settings.alias
        if any(record.target_topic_id != target.topic_id for record in records):
            raise MirrorError(
                f"topic {remote} on {alias} is not the one that was copied into: it is missing, or was created anew, so"
                " that nothing is known of what it holds. Bring it back, or take it out of the flow's topics"
            )
        if any(record.shared for record in records):
            raise MirrorError(
                f"several topics are copied into {remote}, and their records can't be told apart: take them out"
            )

    async def _cut(
        self, partition: TopicPartition, record: PartitionRecord, sides: _Sides, logs: _Logs
    ) -> PartitionCut:
        states = self._states
        remote = TopicPartition(sides.target.topic, partition.partition)
        reader = CutReader(
            source=PartitionLog(states.source, partition, sides.source.topic_id, purpose="reversal"),
            source_range=logs.source[partition],
            target=states.target,
            remote=remote,
            remote_id=sides.target.topic_id,
            target_range=logs.target[remote],
            record=record,
            producer_id=states.flow.producer_id(record),
        )
        async with self._slots:
            found = await reader.find()
        return PartitionCut(
            source=partition,
            record=record,
            pair=found.pair,
            source_end=logs.source[partition].end,
            diverged=found.diverged,
            why=found.why,
        )


def _span(cut: PartitionCut, log: ReadableBounds) -> LogSpan | None:
    """Where the source has what the target may never have got."""
    if cut.pair is None:
        return LogSpan(cut.source, max(cut.record.source_offset, log.start), log.end)
    return LogSpan(cut.source, cut.pair.source_offset, log.end) if cut.diverged.count else None


def _side(cluster: ClusterConnections, topic: str) -> TopicSide:
    found = cluster.metadata.topics.get(topic)
    if found is None or found.error_code not in (0, LEADER_NOT_AVAILABLE):
        return side_of(topic)
    return side_of(topic, found.topic_id, len(found.partitions))


def _partitions(sides: Collection[TopicSide]) -> list[TopicPartition]:
    return [TopicPartition(side.topic, number) for side in sides for number in range(side.partitions)]
