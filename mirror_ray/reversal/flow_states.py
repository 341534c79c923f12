"""The states of a flow and of the flow back, while neither copies: each on its own target."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Self

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.state_topic import StateStore, read_state, transactional_id
from mirror_ray.kafka.transactions import TransactionalProducer
from mirror_ray.model.errors import ConfigError, NotReadyError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.state import schema
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FlowRecord, GrantRecord, Pause, ReversalRecord
from mirror_ray.state.schema import Document, FlowStateRecords, decode, state_topic
from mirror_ray.topics.discovery_rules import cluster_refusal, selection_of


class FlowStateTopic:
    """One flow's. Nothing is written before ``claim``, which fences a coordinator that still has it."""

    def __init__(self, flow: FlowSettings, target: ClusterConnections, audit_log: AuditLog) -> None:
        name = flow.name
        self.flow = flow
        self.records = FlowStateRecords()
        self._target = target
        self._store = StateStore(target.settings, state_topic(name.source), transactional_id(name), audit_log)

    async def read(self) -> None:
        """Read it; where there is no state yet it is empty."""
        self.records = await read_records(self._target, self.flow.name)

    async def claim(self) -> None:
        """Open it for writing.

        Raises:
            NotReadyError: It has changed since it was read.
        """
        before = self.records
        self.records = decode(await asyncio.to_thread(self._store.open))
        if self.records != before:
            raise NotReadyError(f"{self.flow.name}: its state has changed meanwhile: run this again")

    async def write(self, documents: Mapping[str, Document | None]) -> None:
        """Write documents in one transaction."""
        await asyncio.to_thread(self._store.write, documents)

    async def take_back(self) -> None:
        """Make sure that no replicator holds a partition, nor a transaction over one. It is claimed.

        A holder that nobody knows of sees a higher epoch, or its lease has run out when this returns.
        """
        held = {partition: grant for partition, grant in self.records.grants.items() if grant.lease_ms}
        await self._end_transactions()
        if not held:
            return
        raised = {partition: replace(grant, epoch=grant.epoch + 1, owner="") for partition, grant in held.items()}
        await self.write(_grants(raised))
        await asyncio.sleep(max(grant.lease_ms for grant in held.values()) / 1000)
        await self.write(_grants({partition: replace(grant, lease_ms=0) for partition, grant in raised.items()}))
        await self._end_transactions()
        self.records = await read_records(self._target, self.flow.name)

    async def _end_transactions(self) -> None:
        ids = {grant.transactional_id for grant in self.records.grants.values() if grant.transactional_id}
        timeout_ms = self._target.settings.request_timeout_ms
        producers = (TransactionalProducer(self._target, name, transaction_timeout_ms=timeout_ms) for name in ids)
        await asyncio.gather(*(producer.begin_session() for producer in producers))

    async def close(self) -> None:
        """Close the store."""
        await asyncio.to_thread(self._store.close)

    def producer_id(self, record: PartitionRecord) -> int:
        """Of the producer that copies a partition."""
        if record.producer_id is not None:
            return record.producer_id
        return self.records.flow.producer_id if self.records.flow is not None else -1

    def with_own_producer(self, record: PartitionRecord) -> PartitionRecord:
        """The record, such that its partition keeps its producer when the flow gets another one."""
        flow = self.records.flow
        if flow is None or flow.producer_id < 0 or record.producer_id is not None:
            return record
        return replace(record, producer_id=flow.producer_id, producer_epoch=flow.producer_epoch)

    def epoch(self, partition: TopicPartition) -> int:
        """Of a partition's last assignment."""
        return self.records.grants.get(partition, GrantRecord()).epoch


class BothStates:
    """An async context manager: both clusters, and the states of a flow and of the flow back."""

    def __init__(self, settings: MirrorSettings, flow: FlowSettings, back: FlowSettings, audit_log: AuditLog) -> None:
        client_id = f"{flow.name}|mirror-ray|reversal"
        self.source, self.target = (
            ClusterConnections(settings.clusters[alias], client_id) for alias in (flow.name.source, flow.name.target)
        )
        self.audit_log = audit_log
        self.flow = FlowStateTopic(flow, self.target, audit_log)
        self.back = FlowStateTopic(back, self.source, audit_log)

    async def __aenter__(self) -> Self:
        try:
            await asyncio.gather(self.source.refresh(None), self.target.refresh(None))
            await asyncio.gather(self.flow.read(), self.back.read())
            self._check()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check(self) -> None:
        ids = self.source.metadata.cluster_id, self.target.metadata.cluster_id
        refusals = (
            cluster_refusal(self.flow.flow.name, self.flow.records.flow, *ids),
            cluster_refusal(self.back.flow.name, self.back.records.flow, *reversed(ids)),
        )
        if problems := [refusal for refusal in refusals if refusal is not None]:
            raise ConfigError(*problems)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(self.source.close(), self.target.close(), self.flow.close(), self.back.close())

    @property
    def turn(self) -> int:
        """Of the last reversal; 0: there was none."""
        found = (state.records.reversal for state in (self.flow, self.back))
        return max((record.turn for record in found if record is not None), default=0)

    @property
    def is_left(self) -> bool:
        """Whether the flow has been left for the flow back."""
        record = self.flow.records.reversal
        return record is not None and record.away

    @property
    def is_done(self) -> bool:
        """Whether the flow back may run, and go on where the flow was left."""
        record = self.back.records.reversal
        return self.is_left and record is not None and not record.away and record.turn == self.turn

    def stays(self, time_ms: int) -> dict[str, Document | None]:
        """The documents by which the flow goes on that has been left, as the turn before it had it."""
        record = ReversalRecord(turn=self.turn - 1, away=False, time_ms=time_ms)
        return schema.REVERSAL.documents("", record)

    def left(
        self, records: Mapping[TopicPartition, PartitionRecord], turn: int, time_ms: int
    ) -> dict[str, Document | None]:
        """The documents by which the flow is left at the cuts in ``records``."""
        documents = schema.REVERSAL.documents("", ReversalRecord(turn=turn, away=True, time_ms=time_ms))
        for partition, record in records.items():
            documents |= schema.PARTITION.documents(partition, record)
        return documents

    def taken_up(
        self, records: Mapping[TopicPartition, PartitionRecord], anew: set[str], turn: int, time_ms: int
    ) -> dict[str, Document | None]:
        """The documents by which the flow back goes on: by ``records``, and with topics that are copied ``anew``.

        It gets another producer, so that each partition's sequences may go on wherever they have to. Partitions that
        are not reversed, as those of heartbeats, keep theirs: it tells what it has written behind an unsettled pair.
        """
        state = self.back.records
        known = state.flow or FlowRecord(
            producer_id=-1,
            producer_epoch=-1,
            source_cluster_id=self.target.metadata.cluster_id,
            target_cluster_id=self.source.metadata.cluster_id,
            selection=selection_of(self.back.flow),
        )
        documents = schema.FLOW.documents("", replace(known, producer_id=-1, producer_epoch=-1))
        documents |= schema.REVERSAL.documents("", ReversalRecord(turn=turn, away=False, time_ms=time_ms))
        documents |= schema.PAUSE.documents(Pause(), None)
        for topic in state.starts:
            documents |= schema.START.documents(topic, None)
        for partition in state.resolutions:
            documents |= schema.RESOLUTION.documents(partition, None)
        for partition, record in state.partitions.items():
            if partition not in records:
                kept = None if partition.topic in anew else self.back.with_own_producer(record)
                documents |= schema.PARTITION.documents(partition, kept)
        for partition, record in records.items():
            documents |= schema.PARTITION.documents(partition, record)
        return documents


async def read_records(target: ClusterConnections, flow: FlowName) -> FlowStateRecords:
    """Read a flow's state; where there is none yet it is empty.

    Raises:
        MirrorError: It can't be read.
    """
    topic = state_topic(flow.source)
    if topic not in (await target.refresh(None)).topics:
        return FlowStateRecords()
    return decode(await asyncio.to_thread(read_state, target.settings, topic))


def _grants(grants: Mapping[TopicPartition, GrantRecord]) -> dict[str, Document | None]:
    documents: dict[str, Document | None] = {}
    for partition, grant in grants.items():
        documents |= schema.GRANT.documents(partition, grant)
    return documents
