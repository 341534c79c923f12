"""The target side of a flow's data path: a loop with a connection to one target broker.

A request holds one batch of each partition that has one ready; requests follow each other without waiting for answers.
The broker answers a connection's requests in order. ``commit_groups`` decides which of them wait for all in-sync
replicas.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from mirror_ray.kafka import produce
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import PASSING, error_info
from mirror_ray.kafka.fetch import PartitionKey
from mirror_ray.kafka.leader_hints import follows
from mirror_ray.kafka.metadata import BrokerAddress, topic_id_bytes
from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.model.names import TopicPartition
from mirror_ray.replication.backoff import Backoff
from mirror_ray.replication.commit_groups import GROUP_BYTES, CommitGroups
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_events import PartitionEvents
from mirror_ray.replication.supervision import supervise

_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.05, 2.0
#: The connection to a broker that neither answers nor reads for so long, with requests in flight, is reset, so that
#: what waits in its socket is not handled when it goes on: it may have lost and regained its leaderships by then, and
#: forgotten our producer, and would append batches behind one that failed. Below broker.session.timeout.ms (9 s).
_STALL_S = 1.5

#: Errors after which the same batch may well succeed once the target's log end was read again.
TRANSIENT = PASSING | {"OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"}
#: Errors caused by one record of the batch, which is found by sending each record alone.
RECORD_ERRORS = frozenset({"INVALID_RECORD", "INVALID_TIMESTAMP", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
#: Small requests are written together, up to so much.
_WRITE_BYTES = 64 << 10


class Lease(Protocol):
    """What may be sent at this moment."""

    def holds(self, partition: TopicPartition) -> bool:
        """Whether records of this source partition may be sent."""

    def lasts(self) -> bool:
        """Whether anything may be sent."""


class _Request(NamedTuple):
    """A Produce request that is about to be sent."""

    body: list[bytes | memoryview]
    #: The partitions whose batches it holds; each answer removes its own.
    sent: dict[PartitionKey, PartitionReplication]
    size_bytes: int
    #: Whether its answer comes from all in-sync replicas.
    committing: bool


class Sender:
    """Sends what ``schedule``-d partitions have ready to one broker, until ``close``.

    For comparison alone, ``group_bytes`` (0: each batch with ``acks=all``) and ``most_requests`` in flight.
    """

    def __init__(
        self,
        cluster: ClusterConnections,
        broker_id: int,
        *,
        purpose: str,
        max_request_bytes: int,
        timeout_ms: int,
        send_buffer_bytes: int,
        lease: Lease,
        group_bytes: int = GROUP_BYTES,
        most_requests: int = sys.maxsize,
        events: PartitionEvents,
    ) -> None:
        self.broker_id = broker_id
        self._cluster = cluster
        self._purpose = purpose
        self._max_request_bytes = max_request_bytes
        self._timeout_ms = timeout_ms
        self._send_buffer_bytes = send_buffer_bytes
        self._lease = lease
        self._groups = CommitGroups(group_bytes)
        self._most_requests, self._requests = most_requests, 0
        #: How many requests may be in flight now. Behind a broker that throttles it is one: what waits in the kernel
        #: while it reads nothing is given up before the lease ends.
        self._allowed_requests = most_requests
        self._events = events
        self._backoff = Backoff(_FIRST_BACKOFF_S, _LAST_BACKOFF_S)
        self._queue: deque[PartitionReplication] = deque()
        self._queued: set[PartitionReplication] = set()
        self._keys: dict[PartitionReplication, PartitionKey] = {}
        self._resume_at = 0.0
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"{purpose} to broker {broker_id}")

    def schedule(self, copy: PartitionReplication) -> None:
        """Send what the partition has ready, if it may."""
        if copy not in self._queued and copy.sendable:
            self._queued.add(copy)
            self._queue.append(copy)
            self._wake.set()

    def wake(self) -> None:
        """Send what waited for a lease: it holds again."""
        self._wake.set()

    def remove(self, copy: PartitionReplication) -> None:
        """Send nothing more of the partition."""
        self._keys.pop(copy, None)
        self._groups.forget(copy)
        if copy in self._queued:
            self._queued.discard(copy)
            self._queue.remove(copy)

    async def close(self) -> None:
        """End the loop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        what = f"{self._purpose} to broker {self.broker_id}"
        await supervise(self._connect_and_send, what, self._backoff, self._unreachable)

    async def _connect_and_send(self) -> None:
        while not self._queue:
            self._wake.clear()
            await self._wake.wait()
        connection = await self._cluster.connect(
            self.broker_id, self._purpose, send_buffer_bytes=self._send_buffer_bytes
        )
        version = connection.best_version(produce.API_KEY, produce.LOWEST_VERSION, produce.HIGHEST_VERSION)
        self._backoff.succeeded()
        connection.stall_timeout_s = _STALL_S
        self._begin_with_single_batches()
        await self._send_all(connection, version)

    def _unreachable(self, _: Exception) -> None:
        """Have the leaders looked up of what waited for the broker."""
        while self._queue:
            copy = self._queue.popleft()
            self._queued.discard(copy)
            self._events.lost(copy)

    async def _send_all(self, connection: Connection, version: int) -> None:
        flexible = version >= produce.FIRST_FLEXIBLE_VERSION
        loop = asyncio.get_running_loop()
        while not connection.closed:
            if self._resume_at > loop.time():
                await asyncio.sleep(self._resume_at - loop.time())
            # From here to ``send`` nothing is awaited, and nothing that was sent before waits in this process.
            await connection.drain()
            requests = self._compose_some(version)
            if not requests:
                self._wake.clear()
                await self._wake.wait()
                continue
            if not self._lease.lasts():
                # This process was suspended meanwhile: as if the requests had been sent, and their answers lost.
                connection.abort("the lease ran out before a request was sent")
                for request in requests:
                    self._lost(request.sent.values())
                return
            self._requests += len(requests)
            answers = connection.send_together(
                produce.API_KEY, version, flexible, [request.body for request in requests]
            )
            for request, answer in zip(requests, answers, strict=True):
                answer.add_done_callback(partial(self._answered, connection, version, request.sent, request.committing))

    def _begin_with_single_batches(self) -> None:
        """On a new connection nothing was acknowledged yet."""
        for copy in self._keys:
            copy.pipeline.deep = False
        self._keys.clear()

    def _compose_some(self, version: int) -> list[_Request]:
        """Make the requests that may go out now, up to what is written together."""
        requests: list[_Request] = []
        room, size = self._allowed_requests - self._requests, 0
        while len(requests) < room and size < _WRITE_BYTES:
            request = self._compose(version)
            if request is None:
                break
            requests.append(request)
            size += request.size_bytes
        return requests

    def _compose(self, version: int) -> _Request | None:
        """Make a request of one batch of each partition that waits, up to the largest request; None if none waits."""
        by_id = version >= produce.FIRST_TOPIC_ID_VERSION
        sent: dict[PartitionKey, PartitionReplication] = {}
        batches: list[tuple[PartitionKey, memoryview]] = []
        size = 0
        acks, now_s = produce.LEADER_ALONE, asyncio.get_running_loop().time()
        for _ in range(len(self._queue)):
            copy = self._queue[0]
            key = self._key(copy, by_id)
            more = copy.sendable
            # Two source partitions may share a remote partition, of which a request holds one batch.
            if more and key not in sent and self._lease.holds(copy.source):
                if batches and size + copy.pipeline.ready[0].size_bytes > self._max_request_bytes:
                    break
                outgoing = copy.take()
                size += outgoing.size_bytes
                sent[key] = copy
                batches.append((key, outgoing.batch.view))
                more = copy.sendable
                if self._groups.ends(copy, outgoing.size_bytes, now_s, more=more):
                    acks = produce.ALL_REPLICAS
            self._queue.popleft()
            if more:
                self._queue.append(copy)
            else:
                self._queued.discard(copy)
        if not batches:
            return None
        committing = acks == produce.ALL_REPLICAS
        if committing:
            self._groups.committing(sent.values())
        body = produce.encode_produce(version, acks, self._timeout_ms, batches)
        return _Request(body, sent, size, committing)

    def _key(self, copy: PartitionReplication, by_id: bool) -> PartitionKey:
        key = self._keys.get(copy)
        if key is None:
            target = copy.assignment.target
            topic = topic_id_bytes(copy.assignment.target_topic_id) if by_id else target.topic.encode()
            key = self._keys[copy] = PartitionKey(topic, target.partition)
        return key

    def _answered(
        self,
        connection: Connection,
        version: int,
        sent: dict[PartitionKey, PartitionReplication],
        committing: bool,
        future: asyncio.Future[memoryview],
    ) -> None:
        self._requests -= 1
        self._wake.set()
        if future.cancelled() or future.exception() is not None:
            self._lost(sent.values())
            return
        try:
            answers, throttle_ms, nodes = produce.decode_produce(version, future.result())
        except CorruptBatchError as error:
            connection.abort(str(error))
            self._lost(sent.values())
            return
        self._allowed_requests = 1 if throttle_ms else min(self._allowed_requests + 1, self._most_requests)
        if throttle_ms:
            self._resume_at = max(self._resume_at, asyncio.get_running_loop().time() + throttle_ms / 1000)
            connection.expect_silence(throttle_ms / 1000)
            self._events.target_throttled(throttle_ms / 1000)
        self._take_leaders(sent, answers, nodes)
        for answer in answers:
            copy = sent.pop(answer.key, None)
            if copy is not None and copy.pipeline.in_flight:
                self._take_answer(copy, answer, committing)
                if answer.error_code and copy.pipeline.in_flight:
                    # The next batch could succeed where this one failed for a moment, if the producer is forgotten.
                    connection.abort(f"{copy.assignment.target} was refused with more behind it")
        if sent:
            # Later answers would be taken for answers to what is sent again.
            connection.abort("an answer lacks a batch of its request")
            self._lost(sent.values())
        self._events.buffer_freed()

    def _take_leaders(
        self,
        sent: Mapping[PartitionKey, PartitionReplication],
        answers: Iterable[produce.ProducedPartition],
        nodes: list[BrokerAddress],
    ) -> None:
        """Note the new leaders that the broker names where it is the leader no more."""
        hints = {
            sent[answer.key].assignment.target: answer.leader
            for answer in answers
            if answer.leader is not None and answer.key in sent
        }
        if hints:
            self._cluster.take_leaders(hints, nodes)

    def _take_answer(self, copy: PartitionReplication, answer: produce.ProducedPartition, committed: bool) -> None:
        if answer.error_code:
            self._take_refusal(copy, answer)
            return
        try:
            copy.answered(answer.base_offset, committed=committed)
        except ReplicationFault as fault:
            self._events.failed(copy, fault)
            return
        if committed or not copy.state.sends:
            self._events.acknowledged(copy)
        self.schedule(copy)

    def _take_refusal(self, copy: PartitionReplication, answer: produce.ProducedPartition) -> None:
        error, message, leader = error_info(answer.error_code).name, answer.error_message, answer.leader
        try:
            copy.failed(f"{error} ({message})" if error in RECORD_ERRORS else None)
        except ReplicationFault as fault:
            self._events.failed(copy, fault)
        else:
            known = leader is not None and follows(self._cluster.metadata, copy.assignment.target, leader)
            self._events.refused(copy, error, message, leader_known=known)

    def _lost(self, copies: Iterable[PartitionReplication]) -> None:
        for copy in copies:
            self._events.lost(copy)
        self._wake.set()
