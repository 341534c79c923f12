"""A flow's state in memory and on the target: offset pairs, epochs, pauses. What is granted was persisted before."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from mirror_ray.coordinator.ports import Codec, FlowClusters, TargetLimits
from mirror_ray.coordinator.state_cache import Change, StateCache, additions, removals
from mirror_ray.model.acls import Acl
from mirror_ray.model.assignment import NO_END, Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.start import StartPosition
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FaultResolution, FlowRecord, GrantRecord, Pause, SkippedRange
from mirror_ray.state.schema import ACL, FLOW, GRANT, PARTITION, RESOLUTION, SKIPPED, START, acl_id
from mirror_ray.topics.discovery_rules import flow_refusal

_NO_GRANT = GrantRecord()
_NO_IDS: Mapping[FlowPartition, str] = {}


class FlowState(StateCache):
    """A flow's records, and what replicators have reported since they were written last.

    Guarantees: what ``assign`` returns has been persisted with its epoch; ``flush`` loses no pair when it fails; a
    partition counts as held, also by a later coordinator, from its assignment until ``release``. Every method that
    writes raises a MirrorError where the state could not be written.
    """

    def __init__(self, port: FlowClusters, lease_ms: int) -> None:
        """``lease_ms``: of the assignments to come."""
        super().__init__(port)
        self._lease_ms = lease_ms
        #: In whose name epochs are raised, since the state was read last.
        self._owner = ""
        #: Newest acknowledged pairs that are not persisted yet.
        self._pairs: dict[TopicPartition, OffsetPair] = {}
        #: Partitions of which nothing lies behind the newest pair, by the last report.
        self._at_rest: set[TopicPartition] = set()
        self._released: set[TopicPartition] = set()

    async def open(self) -> None:
        """Read the flow's state, fencing an older coordinator."""
        await super().open()
        self._owner = uuid.uuid4().hex

    async def close(self) -> None:
        """Persist what is left and close the connections."""
        try:
            await self.flush()
        finally:
            await self._port.close()

    @property
    def paused(self) -> bool:
        """Whether the whole flow is paused."""
        return Pause() in self.records.paused

    def refusal(self, flow: FlowName, source_id: str, target_id: str) -> str | None:
        """Why the flow must not run between clusters of these ids; None where it may."""
        return flow_refusal(flow, self.records, source_id, target_id)

    def is_paused(self, partition: TopicPartition) -> bool:
        """Whether an operator's pause stops the partition."""
        return any(pause.covers(partition) for pause in self.records.paused)

    def record(self, partition: TopicPartition) -> PartitionRecord | None:
        """The partition's record, as far as it is persisted."""
        return self.records.partitions.get(partition)

    def by_topic(self) -> dict[str, dict[int, PartitionRecord]]:
        """Every record, by source topic and partition number."""
        by_topic: dict[str, dict[int, PartitionRecord]] = {}
        for partition, record in self.records.partitions.items():
            by_topic.setdefault(partition.topic, {})[partition.partition] = record
        return by_topic

    def latest_pair(self, partition: TopicPartition) -> OffsetPair | None:
        """The newest pair that was reported, persisted or not."""
        record = self.record(partition)
        return None if record is None else self._pairs.get(partition, record.pair)

    def finished(self, partition: TopicPartition) -> bool:
        """Whether the partition has been copied to the end that was set for it."""
        record, pair = self.record(partition), self.latest_pair(partition)
        if record is None or pair is None or record.end_offset is None:
            return False
        return pair.source_offset >= record.end_offset

    def epoch(self, partition: TopicPartition) -> int:
        """The partition's last epoch; 0 before its first assignment."""
        return self.records.grants.get(partition, _NO_GRANT).epoch

    def lease_ms(self, partition: TopicPartition) -> int:
        """The lease of whoever may hold the partition; 0 when nobody can."""
        return self.records.grants.get(partition, _NO_GRANT).lease_ms

    def leased(self) -> list[TopicPartition]:
        """Every partition that somebody may hold."""
        return [partition for partition, grant in self.records.grants.items() if grant.lease_ms]

    async def begin_flow(self, record: FlowRecord, starts: Mapping[str, StartPosition]) -> None:
        """Persist the flow's record, new or with another selection, and where topics without a record begin."""
        over = self.records.starts.keys() - starts.keys()
        await self.write([*removals(START, over), *additions(START, starts), (FLOW, "", record)])

    async def begin_partitions(self, found: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Persist the first records of partitions."""
        if found:
            settled = self.records.starts.keys() & {partition.topic for partition in found}
            await self.write([*removals(START, settled), *additions(PARTITION, found)])

    async def note_acls(self, given: Collection[Acl], taken: Collection[Acl]) -> None:
        """Persist that the flow is about to give ACLs, and that it has taken others back."""
        changes = [*additions(ACL, {acl_id(acl): acl for acl in given}), *removals(ACL, map(acl_id, taken))]
        if changes:
            await self.write(changes)

    async def put_resolutions(
        self, resolutions: Mapping[TopicPartition, FaultResolution], pairs: Mapping[TopicPartition, OffsetPair]
    ) -> None:
        """Persist decisions, each with the pair that its partition had reached."""
        known = self.records.partitions
        records = {
            partition: known[partition].at(known[partition].up_to_end(pair)) for partition, pair in pairs.items()
        }
        await self.write([*additions(PARTITION, records), *additions(RESOLUTION, resolutions)])

    async def finish_resolution(
        self, partition: TopicPartition, record: PartitionRecord | None, skipped: SkippedRange
    ) -> None:
        """Persist, in one transaction, that a decision has been carried out. Nobody copies the partition.

        A partition without a ``record`` begins anew.
        """
        self._pairs.pop(partition, None)
        await self.write(
            [
                (PARTITION, partition, record),
                (SKIPPED, (partition, skipped.time_ms), skipped),
                (RESOLUTION, partition, None),
            ]
        )

    async def set_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Persist where the copies of partitions end that nobody has; those of others go on without an end."""
        await self.rewrite(
            {
                partition: replace(self._latest(partition, record), end_offset=ends.get(partition))
                for partition, record in self.records.partitions.items()
                if partition in ends or record.end_offset is not None
            }
        )

    async def set_aligned(self, reached: Mapping[TopicPartition, int]) -> None:
        """Persist the source offsets that partitions and all their routes have reached. Nobody has them."""
        await self.rewrite(
            {
                partition: replace(self._latest(partition, record), end_offset=None, aligned_at=reached[partition])
                for partition, record in self.records.partitions.items()
                if partition in reached
            }
        )

    async def rewrite(self, records: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Persist other records of partitions that nobody copies."""
        for partition in records:
            self._pairs.pop(partition, None)
        if records:
            await self.write(additions(PARTITION, records))

    def _latest(self, partition: TopicPartition, record: PartitionRecord) -> PartitionRecord:
        moved = record.at(self._pairs.get(partition, record.pair))
        return replace(moved, settled=moved.settled or partition in self._at_rest)

    async def assign(
        self,
        limits: Mapping[FlowPartition, TargetLimits],
        codec: Codec | None,
        transactional_ids: Mapping[FlowPartition, str] = _NO_IDS,
    ) -> list[Assignment]:
        """Raise the epochs, persist them, and return the assignments to hand out; none where that failed.

        Args:
            limits: Of the partitions' remote topics.
            codec: What the flow's config asks for; where it is silent the target topic's own decides.
            transactional_ids: Of the replicators that get partitions whose offsets are preserved; others go on without.
        """
        if left_open := self._open_transactions(partition.source for partition in limits):
            await self._port.end_transactions(left_open)
        flow = self.records.flow
        granted: dict[FlowPartition, PartitionRecord] = {}
        at_rest: set[FlowPartition] = set()
        for partition in limits:
            record = self.record(partition.source)
            if record is not None:
                latest = self._latest(partition.source, record)
                self._pairs.pop(partition.source, None)
                self._at_rest.discard(partition.source)
                at_rest |= {partition} if latest.settled else set()
                preserve = latest.preserve_offsets and partition in transactional_ids
                granted[partition] = replace(latest, aligned_at=None, settled=False, preserve_offsets=preserve)
        if flow is None or not granted:
            return []
        ids = {
            partition.source: transactional_ids[partition]
            for partition, record in granted.items()
            if record.preserve_offsets
        }
        changes = additions(PARTITION, {partition.source: record for partition, record in granted.items()})
        self.apply(changes)
        epochs = {partition: self.epoch(partition.source) + 1 for partition in granted}
        leases_ms = {partition.source: self._lease_ms for partition in granted}
        offset = await self._raise_epochs(leases_ms, changes, ids)
        return [
            Assignment(
                partition=partition,
                source_topic_id=record.source_topic_id,
                target=TopicPartition(record.target_topic, partition.partition),
                target_topic_id=record.target_topic_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                anchor=record.pair,
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
                preserve_offsets=record.preserve_offsets,
                transactional_id=ids.get(partition.source, ""),
            )
            for partition, record in granted.items()
            for producer_id, producer_epoch in [_producer(flow, record)]
        ]

    def _open_transactions(self, partitions: Iterable[TopicPartition]) -> set[str]:
        """Transactional ids by which former holders may still write to the remote partitions."""
        grants = (self.records.grants.get(partition, _NO_GRANT) for partition in partitions)
        return {grant.transactional_id for grant in grants if grant.transactional_id}

    async def fence(self, partitions: Collection[TopicPartition]) -> int:
        """Persist a higher epoch for each partition, for whoever holds it to see; returns the longest of their leases.

        Where that fails the leases have not begun to run out.
        """
        leases_ms = {partition: self.records.grants[partition].lease_ms for partition in partitions}
        ids = {partition: self.records.grants[partition].transactional_id for partition in partitions}
        await self._raise_epochs(leases_ms, (), ids)
        return max(leases_ms.values())

    async def _raise_epochs(
        self, leases_ms: Mapping[TopicPartition, int], changes: Collection[Change], ids: Mapping[TopicPartition, str]
    ) -> int:
        # In memory first: it must not be granted again while this is written, whatever comes of it.
        before = {partition: self.lease_ms(partition) for partition in leases_ms}
        grants = additions(
            GRANT,
            {
                partition: GrantRecord(
                    epoch=self.epoch(partition) + 1,
                    lease_ms=lease_ms,
                    owner=self._owner,
                    transactional_id=ids.get(partition, ""),
                )
                for partition, lease_ms in leases_ms.items()
            },
        )
        self.apply(grants)
        self._released -= leases_ms.keys()
        try:
            return await self.publish([*changes, *grants])
        except MirrorError:
            for partition, lease_ms in before.items():
                if not lease_ms:
                    self.release(partition)
            raise

    def release(self, partition: TopicPartition) -> None:
        """Note that nobody holds the partition any more, for sure; ``flush`` persists it."""
        grant = self.records.grants.get(partition)
        if grant is not None and grant.lease_ms:
            self.records.grants[partition] = replace(grant, lease_ms=0)
            self._released.add(partition)

    def note_pair(self, partition: TopicPartition, pair: OffsetPair, *, settled: bool = False) -> None:
        """Note an acknowledged pair; ``flush`` persists it. ``settled``: nothing of ours lies behind it."""
        record = self.record(partition)
        if record is None:
            return
        (self._at_rest.add if settled else self._at_rest.discard)(partition)
        within = record.up_to_end(pair)
        if within != record.pair or settled != record.settled:
            self._pairs[partition] = within

    async def flush(self) -> None:
        """Persist the pairs that moved, and what was released since the last flush, in one transaction.

        Where that fails, or is cancelled, they are kept for the next flush.
        """
        pairs, self._pairs = self._pairs, {}
        released, self._released = self._released, set()
        if not pairs and not released:
            return
        known = self.records.partitions
        records = {
            partition: replace(known[partition].at(pair), settled=partition in self._at_rest)
            for partition, pair in pairs.items()
        }
        changes = additions(PARTITION, records)
        self.apply(changes)
        changes += additions(GRANT, {partition: self.records.grants[partition] for partition in released})
        try:
            await self.publish(changes)
        except (MirrorError, asyncio.CancelledError):
            self._pairs = pairs | self._pairs
            self._released |= {partition for partition in released if not self.lease_ms(partition)}
            raise


def _producer(flow: FlowRecord, record: PartitionRecord) -> tuple[int, int]:
    """Id and epoch to write by; a flow that copies at least once has none."""
    if flow.producer_id < 0 or record.producer_id is None:
        return flow.producer_id, flow.producer_epoch
    return record.producer_id, record.producer_epoch
