"""A flow's state in memory and on the target: anchors, epochs, pauses. What is granted was persisted before."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace

from mirror_ray.coordinator.ports import Codec, FlowClusters, TargetLimits
from mirror_ray.model.acls import Acl
from mirror_ray.model.assignment import NO_END, Assignment
from mirror_ray.model.backfill import BackfillRecord
from mirror_ray.model.errors import MirrorError, StateFencedError
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.start import StartPosition
from mirror_ray.state import schema
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import (
    Document,
    FaultResolution,
    FlowRecord,
    FlowStateRecords,
    GrantRecord,
    Pause,
    SkippedRange,
)
from mirror_ray.topics.discovery_rules import flow_refusal


class FlowState:
    """Keeps a flow's records and writes every change through its port, one transaction at a time.

    Guarantees: what ``assign`` returns has been persisted with its epoch; ``flush`` loses no pair when it fails; a
    partition counts as held, also by a later coordinator, from its assignment until ``given_back``.
    """

    def __init__(self, port: FlowClusters, lease_ms: int) -> None:
        """``lease_ms``: of the assignments to come."""
        #: Another coordinator has taken the flow over: nothing can be written any more.
        self.fenced = False
        self._port = port
        self._lease_ms = lease_ms
        #: In whose name epochs are raised, since the state was read last.
        self._owner = ""
        self._memory = FlowStateRecords()
        self._moved: dict[TopicPartition, OffsetPair] = {}
        #: Partitions behind whose newest pair nothing of ours lies, by what was reported last of them.
        self._at_rest: set[TopicPartition] = set()
        self._given_back: set[TopicPartition] = set()
        self._write_lock = asyncio.Lock()

    async def open(self) -> None:
        """Read the flow's state, fencing an older coordinator.

        Raises:
            MirrorError: A cluster can't be reached, or refuses.
        """
        self._memory = schema.decode(await self._port.open())
        self._owner = uuid.uuid4().hex

    @property
    def flow(self) -> FlowRecord | None:
        """The flow's own record; None before its first start."""
        return self._memory.flow

    def refusal(self, flow: FlowName, source_id: str, target_id: str) -> str | None:
        """Why the flow must not run between clusters of these ids; None where it may."""
        return flow_refusal(flow, self._memory, source_id, target_id)

    @property
    def starts(self) -> Mapping[str, StartPosition]:
        """Topics without an anchor that begin elsewhere than at their earliest record."""
        return self._memory.starts

    @property
    def paused(self) -> bool:
        """Whether the whole flow is paused."""
        return Pause() in self._memory.paused

    @property
    def pauses(self) -> Collection[Pause]:
        """Operators' pauses."""
        return self._memory.paused

    def holds_back(self, partition: TopicPartition) -> bool:
        """Whether an operator's pause holds the partition."""
        return any(pause.covers(partition) for pause in self._memory.paused)

    def record(self, partition: TopicPartition) -> PartitionRecord | None:
        """The partition's anchor, as far as it is persisted."""
        return self._memory.partitions.get(partition)

    def finished(self, partition: TopicPartition) -> bool:
        """Whether a backfill's partition has been copied to its end."""
        record, anchor = self.record(partition), self.latest_anchor(partition)
        if record is None or anchor is None or record.end_offset is None:
            return False
        return anchor.source_offset >= record.end_offset

    def is_aligned(self, partition: TopicPartition) -> bool:
        """Whether nobody has gone on since the partition was ended together with its routes."""
        record = self.record(partition)
        return record is not None and record.aligned_at is not None

    def ended(self) -> list[TopicPartition]:
        """Partitions whose copies have an end."""
        return [each for each, record in self._memory.partitions.items() if record.end_offset is not None]

    @property
    def backfills(self) -> Mapping[str, BackfillRecord]:
        """Backfills beside the flow, by id; over or not."""
        return self._memory.backfills

    async def keep_backfill(self, identity: str, record: BackfillRecord) -> None:
        """Persist a backfill, or what has become of it."""
        await self._write({schema.backfill_key(identity): record.document()})
        self._memory.backfills[identity] = record

    def latest_anchor(self, partition: TopicPartition) -> OffsetPair | None:
        """The newest pair that was reported, persisted or not."""
        record = self._memory.partitions.get(partition)
        return None if record is None else self._moved.get(partition, record.anchor)

    @property
    def repairs(self) -> Mapping[TopicPartition, FaultResolution]:
        """Decisions that have to be carried out before their partitions are copied again."""
        return self._memory.repairs

    @property
    def gaps(self) -> Mapping[tuple[TopicPartition, int], SkippedRange]:
        """What partitions went on without, by partition and time."""
        return self._memory.gaps

    def epoch(self, partition: TopicPartition) -> int:
        """The partition's last epoch; 0 before its first assignment."""
        return self._memory.grants.get(partition, GrantRecord()).epoch

    def leased(self) -> list[TopicPartition]:
        """Every partition that somebody may hold."""
        return [partition for partition, grant in self._memory.grants.items() if grant.lease_ms]

    def lease_ms(self, partition: TopicPartition) -> int:
        """The lease of whoever may hold the partition; 0 when nobody can."""
        return self._memory.grants.get(partition, GrantRecord()).lease_ms

    def by_topic(self) -> dict[str, dict[int, PartitionRecord]]:
        """Every record, by source topic and partition number."""
        by_topic: dict[str, dict[int, PartitionRecord]] = {}
        for partition, record in self._memory.partitions.items():
            by_topic.setdefault(partition.topic, {})[partition.partition] = record
        return by_topic

    async def begin(self, record: FlowRecord, starts: Mapping[str, StartPosition]) -> None:
        """Persist the flow's record, new or with another selection, and where topics without an anchor begin."""
        over = self._memory.starts.keys() - starts.keys()
        documents: dict[str, Document | None] = {key: None for topic in over for key in schema.start_keys(topic)}
        for topic, start in starts.items():
            documents |= dict.fromkeys(schema.start_keys(topic)) | dict([schema.start_mark(topic, start)])
        documents[schema.FLOW_KEY] = schema.encode(record)
        await self._write(documents)
        self._memory.flow = record
        self._memory.starts = dict(starts)

    async def remember(self, found: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Persist the first anchors of partitions."""
        if not found:
            return
        settled = self._memory.starts.keys() & {partition.topic for partition in found}
        documents: dict[str, Document | None] = {key: None for topic in settled for key in schema.start_keys(topic)}
        documents |= {schema.partition_key(partition): schema.encode(record) for partition, record in found.items()}
        await self._write(documents)
        self._memory.partitions |= found
        for topic in settled:
            self._memory.starts.pop(topic, None)

    async def decide(
        self, repairs: Mapping[TopicPartition, FaultResolution], anchors: Mapping[TopicPartition, OffsetPair]
    ) -> None:
        """Persist decisions, each with the pair that its partition had reached."""
        known = self._memory.partitions
        records = {each: known[each].at(known[each].up_to_end(anchor)) for each, anchor in anchors.items()}
        documents: dict[str, Document | None] = {
            schema.partition_key(each): schema.encode(record) for each, record in records.items()
        }
        documents |= {schema.repair_key(each): schema.encode(repair) for each, repair in repairs.items()}
        await self._write(documents)
        self._memory.partitions |= records
        self._memory.repairs |= repairs

    async def repaired(self, partition: TopicPartition, record: PartitionRecord, gap: SkippedRange) -> None:
        """Persist, in one transaction, that a decision has been carried out. Nobody copies the partition."""
        self._moved.pop(partition, None)
        await self._write(
            {
                schema.partition_key(partition): schema.encode(record),
                schema.gap_key(partition, gap): schema.encode(gap),
                schema.repair_key(partition): None,
            }
        )
        self._memory.partitions[partition] = record
        self._memory.gaps[partition, gap.time_ms] = gap
        self._memory.repairs.pop(partition, None)

    async def drop_repairs(self, partitions: Collection[TopicPartition]) -> None:
        """Persist that decisions are void: things are not as they were any more."""
        await self._write({schema.repair_key(each): None for each in partitions})
        for each in partitions:
            self._memory.repairs.pop(each, None)

    async def end_at(self, ends: Mapping[TopicPartition, int]) -> None:
        """Persist where the copies of partitions end that nobody has; those of others go on without an end."""
        records = {
            each: replace(self._settled(each, record), end_offset=ends.get(each))
            for each, record in self._memory.partitions.items()
            if each in ends or record.end_offset is not None
        }
        await self.rewrite(records)

    async def align(self, reached: Mapping[TopicPartition, int]) -> None:
        """Persist that partitions which nobody has stand at these source offsets, as all do that belong together."""
        records = {
            each: replace(self._settled(each, record), end_offset=None, aligned_at=reached[each])
            for each, record in self._memory.partitions.items()
            if each in reached
        }
        await self.rewrite(records)

    def _settled(self, partition: TopicPartition, record: PartitionRecord) -> PartitionRecord:
        moved = record.at(self._moved.get(partition, record.anchor))
        return replace(moved, settled=moved.settled or partition in self._at_rest)

    async def rewrite(self, records: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Persist other records of partitions that nobody copies."""
        for partition in records:
            self._moved.pop(partition, None)
        if records:
            await self._write({schema.partition_key(each): schema.encode(record) for each, record in records.items()})
            self._memory.partitions |= records

    async def assign(self, limits: Mapping[FlowPartition, TargetLimits], codec: Codec | None) -> list[Assignment]:
        """Raise the epochs, persist them, and return the assignments to hand out.

        ``codec``: what the flow's config asks for; where it is silent the target topic's own decides.

        Raises:
            MirrorError: The state could not be written; nothing may be handed out.
        """
        flow = self._memory.flow
        granted: dict[FlowPartition, PartitionRecord] = {}
        at_rest: set[FlowPartition] = set()
        for partition in limits:
            record = self._memory.partitions.get(partition.source)
            if record is not None:
                moved = self._settled(partition.source, record)
                self._moved.pop(partition.source, None)
                self._at_rest.discard(partition.source)
                at_rest |= {partition} if moved.settled else set()
                granted[partition] = replace(moved, aligned_at=None, settled=False)
        if flow is None or not granted:
            return []
        records = {partition.source: record for partition, record in granted.items()}
        self._memory.partitions |= records
        documents = {schema.partition_key(each): schema.encode(record) for each, record in records.items()}
        epochs = {each: self.epoch(each.source) + 1 for each in granted}
        offset = await self._raise_epochs(dict.fromkeys(records, self._lease_ms), documents)
        return [
            Assignment(
                partition=partition,
                source_topic_id=record.source_topic_id,
                target=TopicPartition(record.target_topic, partition.partition),
                target_topic_id=record.target_topic_id,
                producer_id=own[0],
                producer_epoch=own[1],
                anchor=record.anchor,
                settled=partition in at_rest,
                epoch=epochs[partition],
                owner=self._owner,
                state_offset=offset,
                max_message_bytes=limits[partition].max_message_bytes,
                compress_with=codec or limits[partition].compress_with,
                shared=record.shared,
                foreign_to=record.foreign_to,
                skip=record.skip if record.end_offset is None else (*record.skip, (record.end_offset, NO_END)),
                transforms=record.transforms,
                transforms_since=record.transforms_source_offset or 0,
                end_offset=NO_END if record.end_offset is None else record.end_offset,
            )
            for partition, record in granted.items()
            for own in [_producer(flow, record)]
        ]

    async def fence(self, partitions: Collection[TopicPartition]) -> int:
        """Persist a higher epoch for each partition, for whoever holds it to see; returns the longest of their leases.

        Raises:
            MirrorError: The state could not be written; the leases have not begun to run out.
        """
        leases_ms = {each: self._memory.grants[each].lease_ms for each in partitions}
        await self._raise_epochs(leases_ms, {})
        return max(leases_ms.values())

    async def _raise_epochs(
        self, leases_ms: Mapping[TopicPartition, int], documents: Mapping[str, Document | None]
    ) -> int:
        before = {each: self.lease_ms(each) for each in leases_ms}
        grants = {
            each: GrantRecord(epoch=self.epoch(each) + 1, lease_ms=lease_ms, owner=self._owner)
            for each, lease_ms in leases_ms.items()
        }
        self._memory.grants |= grants
        self._given_back -= grants.keys()
        try:
            return await self._write(
                {**documents, **{schema.grant_key(each): schema.encode(grant) for each, grant in grants.items()}}
            )
        except MirrorError:
            for partition, lease_ms in before.items():
                if not lease_ms:
                    self.given_back(partition)
            raise

    def given_back(self, partition: TopicPartition) -> None:
        """Note that nobody holds the partition any more, for sure; ``flush`` persists it."""
        grant = self._memory.grants.get(partition)
        if grant is not None and grant.lease_ms:
            self._memory.grants[partition] = replace(grant, lease_ms=0)
            self._given_back.add(partition)

    def moved(self, partition: TopicPartition, anchor: OffsetPair, *, settled: bool = False) -> None:
        """Note an acknowledged pair; ``flush`` persists it. ``settled``: nothing of ours lies behind it."""
        record = self._memory.partitions.get(partition)
        if record is None:
            return
        (self._at_rest.add if settled else self._at_rest.discard)(partition)
        within = record.up_to_end(anchor)
        if within != record.anchor or settled != record.settled:
            self._moved[partition] = within

    async def flush(self) -> None:
        """Persist the anchors that moved, and what was given back since the last flush, in one transaction.

        Raises:
            MirrorError: They could not be written; they are kept for the next flush, as when this one is cancelled.
        """
        moved, self._moved = self._moved, {}
        given_back, self._given_back = self._given_back, set()
        if not moved and not given_back:
            return
        known = self._memory.partitions
        records = {
            each: replace(known[each].at(anchor), settled=each in self._at_rest) for each, anchor in moved.items()
        }
        self._memory.partitions |= records
        documents = {schema.partition_key(each): schema.encode(record) for each, record in records.items()}
        documents |= {schema.grant_key(each): schema.encode(self._memory.grants[each]) for each in given_back}
        try:
            await self._write(documents)
        except (MirrorError, asyncio.CancelledError):
            self._moved = moved | self._moved
            self._given_back |= {each for each in given_back if not self.lease_ms(each)}
            raise

    @property
    def given_acls(self) -> frozenset[Acl]:
        """ACLs on the target that the flow gave, or was about to."""
        return frozenset(self._memory.acls)

    async def note_acls(self, given: Collection[Acl], taken: Collection[Acl]) -> None:
        """Persist that the flow is about to give ACLs, and that it has taken others back."""
        documents: dict[str, Document | None] = {schema.acl_key(each): schema.encode(each) for each in given}
        documents |= {schema.acl_key(each): None for each in taken}
        if documents:
            await self._write(documents)
            self._memory.acls = (self._memory.acls | set(given)) - set(taken)

    async def set_pause(self, pause: Pause, *, on: bool) -> None:
        """Persist and apply a pause, or lift it."""
        await self._write({schema.pause_key(pause): {} if on else None})
        (self._memory.paused.add if on else self._memory.paused.discard)(pause)

    async def _write(self, documents: Mapping[str, Document | None]) -> int:
        async with self._write_lock:
            try:
                return await self._port.write_state(documents)
            except StateFencedError:
                self.fenced = True
                raise

    async def close(self) -> None:
        """Persist what is left and close the connections."""
        try:
            await self.flush()
        finally:
            await self._port.close()


def _producer(flow: FlowRecord, record: PartitionRecord) -> tuple[int, int]:
    """Id and epoch to write by; a flow that copies at least once has none."""
    if flow.producer_id < 0 or record.producer_id is None:
        return flow.producer_id, flow.producer_epoch
    return record.producer_id, record.producer_epoch
