"""Who writes a flow's remote partitions, and what of them the flow's map accounts for."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.state_topic import read_state
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.map_store import OffsetMapStore, PartitionOffsetMap
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import FlowStateRecords, decode, state_topic
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.uncompared import ProducerOwners, Span, mapped, writers_of

_STATE, _INTERNAL = "mm2-ray-state.", ".internal"


class PartitionWriters:
    """Of one flow; ``read`` comes first. ``book`` is its map."""

    def __init__(self, flow: FlowSettings, target: ClusterConnections, book: OffsetMapStore) -> None:
        self._flow, self._target, self._book = flow, target, book
        self._rules = replication_rules(flow)
        self._memory = FlowStateRecords()
        self._others: list[FlowStateRecords] = []
        self._unread: list[str] = []

    async def read(self, memory: FlowStateRecords) -> None:
        """Take the flow's state; where it shares remote topics, those of all flows to the cluster are read.

        One of another flow that can't be read, or that has no leader, is noted, and its producers are not known.

        Raises:
            ClusterUnreachableError: No broker of the cluster answers.
        """
        self._memory, self._others, self._unread = memory, [], []
        if not any(record.shared for record in memory.partitions.values()):
            return
        own = state_topic(self._flow.name.source, route=self._flow.name.route)
        names = (await self._target.refresh(None)).topics
        others = [name for name in names if name.startswith(_STATE) and name.endswith(_INTERNAL) and name != own]
        for name, found in zip(others, await asyncio.gather(*map(self._state, others)), strict=True):
            if isinstance(found, FlowStateRecords):
                self._others.append(found)
            else:
                self._unread.append(f"the state of another flow, {name}, can't be read, so who writes for it: {found}")

    async def _state(self, topic: str) -> FlowStateRecords | MirrorError:
        try:
            return decode(await asyncio.to_thread(read_state, self._target.settings, topic))
        except MirrorError as error:
            return error

    def notes(self, record: PartitionRecord | None) -> tuple[str, ...]:
        """What is to be known of how the records of others were told apart in the record's remote partition."""
        return tuple(self._unread) if record is not None and record.shared else ()

    def writers(self, job: CompareJob, record: PartitionRecord | None) -> ProducerOwners:
        """Who may write the job's remote partition.

        Several topics that a map puts together are the flow's alone; under one name, where it is declared, or where
        another flow copies into it, too, others' records are as good.
        """
        shared = record is not None and record.shared
        # MirrorMaker 2 goes on in the same topic.
        alone = self._memory.handed_back_ms is None and (not shared or self._is_alone(job))
        found = writers_of(self._memory, record, self._others, alone=alone)
        return replace(found, unsure=shared and bool(self._unread))

    def _is_alone(self, job: CompareJob) -> bool:
        meant = self._rules.named_by(job.source.topic) != "policy"
        # What other flows' former producers have written there no state of theirs tells.
        others = any(
            record.target_topic == job.target.topic for state in self._others for record in state.partitions.values()
        )
        return meant and not others and not self._rules.is_declared_shared(job.target.topic)

    def mapped(self, job: CompareJob, page: PartitionOffsetMap | None, *, shared: bool) -> list[Span]:
        """Target offsets that the map accounts for: of the partition, or where it is shared of all copied there."""
        if not shared:
            return mapped(page.places) if page is not None else []
        found: list[Span] = []
        for source in self._beside()[job.target]:
            beside = self._book.find(source)
            if beside is not None and beside.target_topic_id == job.target_topic_id:
                found += mapped(beside.places)
        return found

    def _beside(self) -> dict[TopicPartition, list[TopicPartition]]:
        found: dict[TopicPartition, list[TopicPartition]] = defaultdict(list)
        for source, record in self._memory.partitions.items():
            found[TopicPartition(record.target_topic, source.partition)].append(source)
        return found
