"""The target side of a flow's data path: a loop with a connection to one target broker.

A request holds one batch of each partition that has one ready; requests follow each other without waiting for answers.
The broker answers a connection's requests in order. Which of them wait for all in-sync replicas, ``groups`` says.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol

from mirror_ray.kafka import produce
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import PASSING, error_info
from mirror_ray.kafka.fetch import PartitionKey
from mirror_ray.kafka.metadata import topic_id_bytes
from mirror_ray.model.errors import CorruptBatchError, MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.replication.backoff import backoff_s
from mirror_ray.replication.commit_groups import GROUP_BYTES, CommitGroups
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.partition import PartitionReplication

log = logging.getLogger(__name__)

_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.05, 2.0
#: A broker that answers nothing and takes nothing for so long, with requests behind each other, is left by a reset, so
#: that what waits in its socket is not carried out when it wakes up: it may have lost and regained its leaderships by
#: then, and forgotten our producer, and would take what is behind a failed head. Below broker.session.timeout.ms (9 s).
_STALL_S = 1.5

#: Errors after which the same batch may well succeed once the target's end was read again.
TRANSIENT = PASSING | {"OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"}
#: Errors that a record in the batch brings about: it is looked for by sending each on its own.
RECORD_ERRORS = frozenset({"INVALID_RECORD", "INVALID_TIMESTAMP", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
#: Small requests are written together, up to so much.
_WRITE_BYTES = 64 << 10


class Lease(Protocol):
    """Says what may be sent at this moment."""

    def holds(self, partition: TopicPartition) -> bool:
        """Whether records of this source partition may be."""
        ...

    def lasts(self) -> bool:
        """Whether anything may be."""
        ...


class _Request(NamedTuple):
    """One that is about to be sent."""

    body: list[bytes | memoryview]
    #: Whose batches it holds, by their remote partition; an answer removes its own.
    sent: dict[PartitionKey, PartitionReplication]
    size_bytes: int
    #: Whether its answer comes from all in-sync replicas.
    committing: bool


class Sender:
    """Sends what ``schedule``-d partitions have ready to one broker, until ``close``.

    ``on_throttled(wait_s)`` is called when the broker asks for silence; ``on_answered()`` after each answer;
    ``on_acknowledged(copy)`` when batches of it were committed, or were taken though it copies no more;
    ``on_refused(copy, error, message)`` for each batch; ``on_stopped(copy, error)`` when a partition must not go on;
    ``on_lost(copy)`` when the connection was lost with a batch of it in flight.

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
        on_throttled: Callable[[float], None],
        on_answered: Callable[[], None],
        on_acknowledged: Callable[[PartitionReplication], None],
        on_refused: Callable[[PartitionReplication, str, str | None], None],
        on_stopped: Callable[[PartitionReplication, Exception], None],
        on_lost: Callable[[PartitionReplication], None],
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
        self._on_throttled = on_throttled
        self._on_answered, self._on_acknowledged, self._on_refused = on_answered, on_acknowledged, on_refused
        self._on_stopped, self._on_lost = on_stopped, on_lost
        self._queue: deque[PartitionReplication] = deque()
        self._queued: set[PartitionReplication] = set()
        self._keys: dict[PartitionReplication, PartitionKey] = {}
        self._resume_at = 0.0
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"{purpose} to broker {broker_id}")

    def schedule(self, copy: PartitionReplication) -> None:
        """The copy may have something to send."""
        if copy not in self._queued and copy.sendable:
            self._queued.add(copy)
            self._queue.append(copy)
            self._wake.set()

    def wake(self) -> None:
        """Leases hold again: what was left waiting for them can be sent."""
        self._wake.set()

    def remove(self, copy: PartitionReplication) -> None:
        """Send nothing more of the copy."""
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
        attempts = 0
        while True:
            try:
                while not self._queue:
                    self._wake.clear()
                    await self._wake.wait()
                connection = await self._cluster.connect(
                    self.broker_id, self._purpose, send_buffer_bytes=self._send_buffer_bytes
                )
                version = connection.best_version(produce.API_KEY, produce.LOWEST_VERSION, produce.HIGHEST_VERSION)
                attempts = 0
                connection.stall_timeout_s = _STALL_S
                self._forget_depth()
                await self._send_all(connection, version)
            except Exception as error:
                attempts += 1
                unforeseen = not isinstance(error, OSError | MirrorError)
                log.info("%s to broker %d: %s", self._purpose, self.broker_id, error, exc_info=unforeseen)
                self._give_back()
                await asyncio.sleep(backoff_s(attempts, _FIRST_BACKOFF_S, _LAST_BACKOFF_S))

    def _give_back(self) -> None:
        """The broker can't be reached: what waited for it must find its leader anew."""
        while self._queue:
            copy = self._queue.popleft()
            self._queued.discard(copy)
            self._on_lost(copy)

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
                # This process stood still since it looked: as if the requests had been sent, and their answers lost.
                connection.abort("the lease ran out before a request was sent")
                for request in requests:
                    self._lost(request.sent.values())
                return
            self._requests += len(requests)
            answers = connection.send_together(produce.API_KEY, version, flexible, [each.body for each in requests])
            for request, answer in zip(requests, answers, strict=True):
                answer.add_done_callback(partial(self._answered, connection, version, request.sent, request.committing))

    def _forget_depth(self) -> None:
        """On a new connection nothing was acknowledged yet: each partition begins with a single batch."""
        for copy in self._keys:
            copy.deep = False
        self._keys.clear()

    def _compose_some(self, version: int) -> list[_Request]:
        """The requests that may go out now, or those of them that are worth a write of their own."""
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
        """One batch of each partition that waits, up to the largest request; None where nothing does."""
        by_id = version >= produce.FIRST_TOPIC_ID_VERSION
        sent: dict[PartitionKey, PartitionReplication] = {}
        batches: list[tuple[PartitionKey, memoryview]] = []
        size = 0
        acks, now_s = produce.LEADER_ALONE, asyncio.get_running_loop().time()
        for _ in range(len(self._queue)):
            copy = self._queue[0]
            key = self._key(copy, by_id)
            more = copy.sendable
            # Two copies may share a remote partition, and a request holds one batch of each.
            if more and key not in sent and self._lease.holds(copy.source):
                if batches and size + copy.pipeline.ready[0].size_bytes > self._max_request_bytes:
                    break
                outgoing = copy.take()
                size += outgoing.size_bytes
                sent[key] = copy
                batches.append((key, outgoing.view))
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
            answers, throttle_ms = produce.decode_produce(version, future.result())
        except CorruptBatchError as error:
            connection.abort(str(error))
            self._lost(sent.values())
            return
        self._allowed_requests = 1 if throttle_ms else min(self._allowed_requests + 1, self._most_requests)
        if throttle_ms:
            self._resume_at = max(self._resume_at, asyncio.get_running_loop().time() + throttle_ms / 1000)
            connection.expect_silence(throttle_ms / 1000)
            self._on_throttled(throttle_ms / 1000)
        for answer in answers:
            copy = sent.pop(answer.key, None)
            if copy is not None and copy.pipeline.in_flight:
                self._take_answer(copy, answer, committing)
                if answer.error_code and copy.pipeline.in_flight:
                    # What failed for a moment may succeed the next, and a producer be forgotten: nothing behind it may.
                    connection.abort(f"{copy.assignment.target} was refused with more behind it")
        if sent:
            # Answers behind this one would be taken for those to what is sent again.
            connection.abort("an answer lacks a batch of its request")
            self._lost(sent.values())
        self._on_answered()

    def _take_answer(self, copy: PartitionReplication, answer: produce.ProducedPartition, committed: bool) -> None:
        if answer.error_code:
            self._take_refusal(copy, error_info(answer.error_code).name, answer.error_message)
            return
        try:
            copy.answered(answer.base_offset, committed=committed)
        except ReplicationFault as troubled:
            self._on_stopped(copy, troubled)
            return
        if committed or copy.state != "copying":
            self._on_acknowledged(copy)
        self.schedule(copy)

    def _take_refusal(self, copy: PartitionReplication, error: str, message: str | None) -> None:
        try:
            copy.failed(f"{error} ({message})" if error in RECORD_ERRORS else None)
        except ReplicationFault as troubled:
            self._on_stopped(copy, troubled)
        else:
            self._on_refused(copy, error, message)

    def _lost(self, copies: Iterable[PartitionReplication]) -> None:
        for copy in copies:
            self._on_lost(copy)
        self._wake.set()
