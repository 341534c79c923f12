"""What the offset map and the state topics on the target say of a flow's partitions."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION
from mirror_ray.kafka.state_topic import read_state
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.offsets.map import OffsetMapStore, PartitionOffsetMap
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import SkippedRange
from mirror_ray.state.schema import FlowStateRecords, decode, state_topic
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.producers import ProducerOwners, producer_owners
from mirror_ray.verification.range_bounds import LogBounds
from mirror_ray.verification.ranges import PositionPair, Span, mapped_spans
from mirror_ray.verification.report import Halt
from mirror_ray.verification.uncompared import halt_of

_STATE_TOPIC = re.compile(r"mm2-ray-state\.(.*\.)?internal")
#: Faults in which a running system's position is of another topic than the one that is there.
_OTHER_TOPIC = frozenset({"source_recreated", "target_recreated", "target_missing"})


class FlowCopyState:
    """Answers questions about partitions of one flow, once ``read`` was called."""

    def __init__(self, flow: FlowSettings, target: ClusterConnections, offset_maps: OffsetMapStore) -> None:
        self._flow, self._target, self._offset_maps = flow, target, offset_maps
        self._rules = replication_rules(flow)
        self._state = FlowStateRecords()
        self._others: list[FlowStateRecords] = []
        self._unread: list[str] = []

    async def read(self) -> None:
        """Read the flow's state topic; a route is paused with its flow.

        Raises:
            ClusterUnreachableError: No broker of the cluster answers.
            MirrorError: The state topic can't be read.
        """
        route = self._flow.name.route
        self._state = await self._read_own(route)
        if route:
            self._state.paused |= (await self._read_own("")).paused

    async def read_other_flows(self) -> None:
        """Where remote topics are shared, read the state topics of all flows to the cluster.

        A state topic that can't be read, or that has no leader, is noted; its producers are then unknown.

        Raises:
            ClusterUnreachableError: No broker of the cluster answers.
        """
        self._others, self._unread = [], []
        if not self.shared_partitions:
            return
        own = state_topic(self._flow.name.source, route=self._flow.name.route)
        names = (await self._target.refresh(None)).topics
        others = [name for name in names if _STATE_TOPIC.fullmatch(name) and name != own]
        for name, found in zip(others, await asyncio.gather(*map(self._read_other, others)), strict=True):
            if isinstance(found, FlowStateRecords):
                self._others.append(found)
            else:
                self._unread.append(f"the state of another flow, {name}, can't be read, so who writes for it: {found}")

    @property
    def shared_partitions(self) -> set[TopicPartition]:
        """Source partitions whose remote partitions others write, too."""
        return {source for source, record in self._state.partitions.items() if record.shared}

    def halt(self, source: TopicPartition, running: PartitionStatus | None) -> Halt | None:
        """Why a partition is not copied at the moment; None: it is."""
        return halt_of(self._state, source, running)

    def skipped_ranges(self, source: TopicPartition) -> tuple[SkippedRange, ...]:
        """What of a partition was given up by a decision."""
        known = sorted(self._state.skipped_ranges.items())
        return tuple(skipped for (partition, _), skipped in known if partition == source)

    def record(self, job: CompareJob) -> PartitionRecord | None:
        """What the state says of exactly the job's topics."""
        record = self._state.partitions.get(job.source)
        if record is None or record.target_topic != job.target.topic:
            return None
        ids = (record.source_topic_id, record.target_topic_id)
        return record if ids == (job.source_topic_id, job.target_topic_id) else None

    def offset_map(self, job: CompareJob) -> PartitionOffsetMap | None:
        """The offset map of exactly the job's topics."""
        found = self._offset_maps.find(job.source)
        if found is None or not len(found.segments):
            return None
        ids = (found.source_topic_id, found.target_topic_id)
        return found if ids == (job.source_topic_id, job.target_topic_id) else None

    def is_shared(self, job: CompareJob) -> bool:
        """Whether others write the job's remote partition, too."""
        record = self.record(job)
        return record is not None and record.shared

    def position(self, job: CompareJob, running: PartitionStatus | None) -> PositionPair | None:
        """How far the copy has come, by the source that knows it best; None: as far as is known, nothing is copied."""
        offset_map, record = self.offset_map(job), self.record(job)
        head = None if offset_map is None else PositionPair(*offset_map.segments.head[:2])
        if self.is_shared(job):
            # Behind the map's head it is unknown which records of the target are ours.
            return head
        if running is not None and running.position >= 0 and running.trouble not in _OTHER_TOPIC:
            return PositionPair(running.position, running.target_end)
        recorded = None if record is None else PositionPair(record.source_offset, record.target_offset)
        return max((pair for pair in (head, recorded) if pair is not None), default=None)

    def has_nothing_to_compare(self, job: CompareJob, source: LogBounds, target: LogBounds) -> bool:
        """Whether a partition without a known position holds nothing that could be compared."""
        record = self.record(job)
        if source.start < source.stable:
            return False
        if record is not None:
            return record.source_offset <= source.stable
        return not self._is_known(job) and target.start == target.end

    def why_unknown(self, job: CompareJob) -> str:
        """Why a partition has no known position."""
        if self.record(job) is not None:
            return "which offsets belong together is not known: the segments topic on the target has nothing about it"
        if self._is_known(job):
            return "a topic was created anew, and nothing of that was copied yet"
        return "nothing was copied of it yet"

    def owners(self, job: CompareJob) -> ProducerOwners:
        """Which producers may write the job's remote partition.

        A topic into which a map of names puts several topics is the flow's alone. Where topics of one name are copied
        into it, where it is declared shared, or where another flow copies into it, others may write there.
        """
        shared = self.is_shared(job)
        # After a handback MirrorMaker 2 goes on in the same topic.
        alone = self._state.handed_back_ms is None and (not shared or self._is_alone(job))
        found = producer_owners(self._state, self.record(job), self._others, alone=alone)
        return replace(found, unsure=shared and bool(self._unread))

    def mapped_spans(self, job: CompareJob) -> list[Span]:
        """Target offsets that offset maps account for: the partition's, in a shared topic those of all copied there."""
        if not self.is_shared(job):
            offset_map = self.offset_map(job)
            return mapped_spans(offset_map.segments) if offset_map is not None else []
        found: list[Span] = []
        for source, record in self._state.partitions.items():
            if TopicPartition(record.target_topic, source.partition) != job.target:
                continue
            offset_map = self._offset_maps.find(source)
            if offset_map is not None and offset_map.target_topic_id == job.target_topic_id:
                found += mapped_spans(offset_map.segments)
        return found

    def notes(self, job: CompareJob) -> tuple[str, ...]:
        """Which states of other flows that write the job's remote partition could not be read."""
        return tuple(self._unread) if self.is_shared(job) else ()

    def _is_known(self, job: CompareJob) -> bool:
        return job.source in self._state.partitions or self._offset_maps.find(job.source) is not None

    def _is_alone(self, job: CompareJob) -> bool:
        meant = self._rules.named_by(job.source.topic) != "policy"
        # No state names the former producers of other flows that have written there.
        others = any(
            record.target_topic == job.target.topic for state in self._others for record in state.partitions.values()
        )
        return meant and not others and not self._rules.is_declared_shared(job.target.topic)

    async def _read_own(self, route: str) -> FlowStateRecords:
        topic = state_topic(self._flow.name.source, route=route)
        found = (await self._target.refresh([topic])).topics[topic]
        if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return FlowStateRecords()
        return await self._read(topic)

    async def _read_other(self, topic: str) -> FlowStateRecords | MirrorError:
        try:
            return await self._read(topic)
        except MirrorError as error:
            return error

    async def _read(self, topic: str) -> FlowStateRecords:
        return decode(await asyncio.to_thread(read_state, self._target.settings, topic))
