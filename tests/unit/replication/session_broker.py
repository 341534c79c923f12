"""A source broker in this process: one log, one fetch session, one connection's requests answered in order."""

from __future__ import annotations

import asyncio
import datetime as dt
import struct
from collections.abc import Sequence
from typing import cast

from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.records.batch import RecordBatch, iter_batches
from tests.support.batches import batch
from tests.unit.kafka.fetch_leader import ORDERS
from tests.unit.kafka.group_brokers import module, read, written

_VERSION, _SESSION = 12, 7
_OUT_OF_RANGE, _INVALID_SESSION_EPOCH = 1, 71


def log_of(sizes: Sequence[tuple[int, int, int]], *, first: int = 0, epoch: int = 0, fill: bytes = b"x") -> list[bytes]:
    """Batches one behind the other; each is (records, bytes of the first record, offsets that are missing before)."""
    batches, offset = [], first
    for records, size, gap in sizes:
        offset += gap
        made = batch(offset, [(0, fill * size), *((number, b"") for number in range(1, records))])
        batches.append(made[:12] + struct.pack(">i", epoch) + made[16:])
        offset += records
    return batches


def parsed(log: Sequence[bytes]) -> list[RecordBatch]:
    """Read a log's batches."""
    return iter_batches(memoryview(bytearray(b"".join(log))))


class SessionBroker:
    """Its cluster and its connection, too. ``changes``: the log from a request's number on."""

    name = "broker 1"

    def __init__(self, log: Sequence[bytes], *, changes: dict[int, list[bytes]] | None = None) -> None:
        self.log = list(log)
        self.changes = changes or {}
        self.round_trip_s = 0.1
        #: Offsets asked for, how many requests waited at most, and whether those that wait are handled in order.
        self.asked: list[int] = []
        self.most_waiting = 0
        self.in_order = True
        #: As asked for last.
        self.limit_bytes = 0
        self._position = (-1, -1)
        self._next_epoch = 0
        self._requests = 0
        self._waiting: list[tuple[bytes, asyncio.Future[memoryview]]] = []
        self._serving: asyncio.Task[None] | None = None

    def as_cluster(self) -> ClusterConnections:
        return cast("ClusterConnections", self)

    async def connect(self, broker: int, purpose: str, **_: int) -> SessionBroker:
        self._next_epoch = 0
        return self

    def best_version(self, api_key: int, lowest: int, highest: int) -> int:
        return _VERSION

    def send(self, api_key: int, version: int, flexible: bool, parts: Sequence[bytes]) -> asyncio.Future[memoryview]:
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append((b"".join(parts), answer))
        self.most_waiting = max(self.most_waiting, len(self._waiting))
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return answer

    async def _serve(self) -> None:
        while self._waiting:
            # What is sent meanwhile waits.
            for _ in range(3):
                await asyncio.sleep(0)
            body, answer = self._waiting.pop(0)
            records = self._answer(body)
            if records is not None and not answer.done():
                answer.set_result(memoryview(bytearray(records)))

    def _answer(self, body: bytes) -> bytes | None:
        request = read(module("fetch", _VERSION, EntityType.request).FetchRequest, body)
        self.log = self.changes.get(self._requests, self.log)
        self._requests += 1
        if request.session_epoch == 0:
            self._next_epoch, self._position = 0, (-1, -1)
        if request.session_epoch != self._next_epoch or (not self.in_order and self._waiting):
            return _encoded(_INVALID_SESSION_EPOCH)
        self._next_epoch += 1
        if request.forgotten_topics_data:
            self._position = (-1, -1)
        for topic in request.topics:
            (partition,) = topic.partitions
            self._position = (partition.fetch_offset, partition.last_fetched_epoch)
            self.limit_bytes = partition.partition_max_bytes
            self.asked.append(partition.fetch_offset)
        return self._records()

    def _records(self) -> bytes | None:
        offset, epoch = self._position
        log = parsed(self.log)
        end = log[-1].next_offset
        if offset > end:
            return _encoded(0, error=_OUT_OF_RANGE, end=end)
        ends = [entry.next_offset for entry in log if entry.partition_leader_epoch <= epoch]
        if epoch >= 0 and (not ends or ends[-1] < offset):
            return _encoded(0, end=end, diverging=(0, ends[-1] if ends else 0))
        following = [bytes(entry.view) for entry in log if entry.next_offset > offset]
        if not following:
            return None
        return _encoded(0, b"".join(following)[: max(self.limit_bytes, len(following[0]))], end=end)


def _encoded(
    session_error: int, records: bytes = b"", *, error: int = 0, end: int = 0, diverging: tuple[int, int] | None = None
) -> bytes:
    m = module("fetch", _VERSION, EntityType.response)
    told = (
        {} if diverging is None else {"diverging_epoch": m.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])}
    )
    partition = m.PartitionData(
        partition_index=ORDERS.partition,
        error_code=ErrorCode(error),
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        aborted_transactions=(),
        records=records,
        **told,
    )
    topic = m.FetchableTopicResponse(topic=ORDERS.topic, partitions=(partition,))
    return written(
        m.FetchResponse(
            throttle_time=i32Timedelta.parse(dt.timedelta(0)),
            error_code=ErrorCode(session_error),
            session_id=0 if session_error else _SESSION,
            responses=() if session_error else (topic,),
        )
    )
