"""One partition and the brokers that lead it, in this process: what Kafka 4.3 answers to Fetch and ListOffsets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.leader_requests import EARLIEST, OffsetAnswer
from mirror_ray.kafka.metadata import EMPTY_METADATA, PartitionMetadata, TopicMetadata
from mirror_ray.model.names import TopicId, TopicPartition
from tests.unit.kafka.group_brokers import NO_TIME, module, read, written
from tests.unit.records.strategies import Plain, batch_bytes

_FETCH, _LIST_OFFSETS = 12, 7
_EPOCH_AT = 12
_OUT_OF_RANGE, _FENCED, _UNKNOWN_EPOCH, _NOT_AVAILABLE = 1, 74, 75, 78

#: Key and value; None: a tombstone.
Pairs = list[tuple[bytes, bytes | None]]


class LogBroker:
    """The partition's log as its leader has it. Every change of the leader is told by metadata at once."""

    settings = ClusterSettings(alias="B", bootstrap_servers=("localhost:9092",))

    def __init__(self, topic: str) -> None:
        self.partition = TopicPartition(topic, 0)
        self.topic_id = TopicId("AAAAAAAAAAAAAAAAAAAAAQ")
        self.leader = self.epoch = 1
        #: Leader epoch and bytes of each batch of one record.
        self.log: list[tuple[int, bytes]] = []
        #: Offset at which the leader's epoch began.
        self.begin = 0
        self.high_watermark = 0
        #: Where an open transaction begins; None: there is none.
        self.last_stable_offset: int | None = None
        #: Producer id and first offset of aborted transactions.
        self.aborted: list[tuple[int, int]] = []
        #: The error that so many Fetches are answered with.
        self.refusal, self.refusals = 0, 1 << 20
        self.exists = True
        self.cluster_id = ""
        self.metadata = EMPTY_METADATA
        self.refreshed = 0
        #: Where each Fetch wanted to read.
        self.asked: list[int] = []
        #: How many batches an answer holds.
        self.most = 1 << 20
        #: Done once, while a Fetch is under way.
        self.meanwhile: Callable[[], object] | None = None

    # ---- what is done to it

    def append(self, pairs: Pairs, *, committed: bool = True) -> int:
        """Write a batch of each; returns the first one's offset."""
        first = len(self.log)
        for key, value in pairs:
            offset = len(self.log)
            plain = [Plain(offset=offset, timestamp=0, key=key, value=value)]
            data = batch_bytes(plain, base_offset=offset)
            struct.pack_into(">i", data, _EPOCH_AT, self.epoch)
            self.log.append((self.epoch, bytes(data)))
        if committed:
            self.high_watermark = len(self.log)
        return first

    def append_batch(self, data: bytes | bytearray) -> None:
        """Write a batch of one record as it is."""
        self.log.append((self.epoch, bytes(data)))
        self.high_watermark = len(self.log)

    def elect(self, *, end: int | None = None, high_watermark: int | None = None) -> None:
        """Another broker leads, whose log ends there and who knows of that high watermark."""
        self.log = self.log[:end]
        self.leader, self.epoch = 3 - self.leader, self.epoch + 1
        self.begin = len(self.log)
        self.high_watermark = len(self.log) if high_watermark is None else high_watermark

    def create_anew(self, epoch: int = 0) -> None:
        """Deleted, and created again."""
        self.topic_id, self.log, self.high_watermark = TopicId("AAAAAAAAAAAAAAAAAAAAAg"), [], 0
        self.epoch, self.begin = epoch, 0

    # ---- as a cluster

    def as_cluster(self) -> ClusterConnections:
        """For the code under test."""
        return cast("ClusterConnections", self)

    async def refresh(self, topics: Collection[str]) -> Any:
        self.refreshed += 1
        partition = PartitionMetadata(
            partition=0, leader=self.leader, leader_epoch=self.epoch, replicas=(1, 2), isr=(1, 2), error_code=0
        )
        topic = TopicMetadata(
            name=self.partition.topic,
            topic_id=self.topic_id,
            is_internal=False,
            error_code=0 if self.exists else 3,
            partitions={0: partition} if self.exists else {},
        )
        self.metadata = replace(EMPTY_METADATA, cluster_id=self.cluster_id, topics={self.partition.topic: topic})
        return self.metadata

    async def close(self) -> None:
        """See ``ClusterConnections``."""

    async def connect(self, broker: int, purpose: str) -> _Connection:
        return _Connection(self, broker)

    async def list_offsets(self, wanted: Mapping[TopicPartition, int], _: str) -> dict[TopicPartition, OffsetAnswer]:
        assert set(wanted.values()) == {EARLIEST}
        return {partition: OffsetAnswer(0, 0) for partition in wanted}


class _Connection:
    """To one broker. A new one each time, as if every one had been lost meanwhile, unless it is kept."""

    def __init__(self, log: LogBroker, broker: int) -> None:
        self.log, self.broker = log, broker

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Connection) and other.broker == self.broker

    def __hash__(self) -> int:
        return self.broker

    def best_version(self, api_key: int, lowest: int, highest: int) -> int:
        return _FETCH if api_key == fetch.API_KEY else _LIST_OFFSETS

    def abort(self, reason: str) -> None:
        """See ``Connection``."""

    def _refusal(self, leader_epoch: int) -> int:
        if self.broker != self.log.leader or -1 < leader_epoch < self.log.epoch:
            return _FENCED
        return _UNKNOWN_EPOCH if leader_epoch > self.log.epoch else 0

    async def request(self, entity: Any) -> Any:
        """ListOffsets, of the end."""
        ((asked,),) = (topic.partitions for topic in entity.topics)
        log = self.log
        error = self._refusal(asked.current_leader_epoch)
        if not error and log.high_watermark < log.begin:
            error = _NOT_AVAILABLE
        m = module("list_offsets", _LIST_OFFSETS, EntityType.response)
        partition = m.ListOffsetsPartitionResponse(
            partition_index=0, error_code=ErrorCode(error), timestamp=None, offset=log.high_watermark, leader_epoch=-1
        )
        topic = m.ListOffsetsTopicResponse(name=log.partition.topic, partitions=(partition,))
        return m.ListOffsetsResponse(throttle_time=NO_TIME, topics=(topic,))

    async def send(self, api_key: int, version: int, flexible: bool, parts: Sequence[bytes]) -> memoryview:
        """Fetch."""
        request = read(module("fetch", _FETCH, EntityType.request).FetchRequest, b"".join(parts))
        ((asked,),) = (topic.partitions for topic in request.topics)
        self.log.asked.append(asked.fetch_offset)
        # What a broker waits for something to come.
        await asyncio.sleep(0.001)
        answer = self._fetched(asked)
        happens, self.log.meanwhile = self.log.meanwhile, None
        if happens is not None:
            happens()
        return memoryview(bytearray(answer))

    def _fetched(self, asked: Any) -> bytes:
        log, offset, error = self.log, asked.fetch_offset, self._refusal(asked.current_leader_epoch)
        m = module("fetch", _FETCH, EntityType.response)
        diverging, records = m.EpochEndOffset(), b""
        epochs = [epoch for epoch, _ in log.log if epoch <= asked.last_fetched_epoch]
        if log.refusal and log.refusals:
            log.refusals, error = log.refusals - 1, log.refusal
        stable = log.high_watermark if log.last_stable_offset is None else log.last_stable_offset
        if error:
            pass
        elif asked.last_fetched_epoch >= 0 and not epochs:
            error = _OUT_OF_RANGE
        elif asked.last_fetched_epoch >= 0 and (epochs[-1] < asked.last_fetched_epoch or len(epochs) < offset):
            diverging = m.EpochEndOffset(epoch=epochs[-1], end_offset=len(epochs))
        elif offset > len(log.log):
            error = _OUT_OF_RANGE
        else:
            records = b"".join(data for _, data in log.log[offset:stable][: log.most])
        partition = m.PartitionData(
            partition_index=0,
            error_code=ErrorCode(error),
            high_watermark=-1 if error else log.high_watermark,
            last_stable_offset=-1 if error else stable,
            log_start_offset=0,
            diverging_epoch=diverging,
            aborted_transactions=tuple(m.AbortedTransaction(producer_id=p, first_offset=o) for p, o in log.aborted),
            records=records,
        )
        topic = m.FetchableTopicResponse(topic=log.partition.topic, partitions=(partition,))
        return written(m.FetchResponse(throttle_time=NO_TIME, error_code=ErrorCode(0), responses=(topic,)))
