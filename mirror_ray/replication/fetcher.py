"""The source side of a flow's data path: one loop for each source broker, one fetch session, one connection.

The next request goes out before the last answer is processed, so that the broker reads while batches are rewritten.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace

from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import FETCH_SESSION_ERRORS, OFFSET_OUT_OF_RANGE, PASSING, error_info
from mirror_ray.kafka.leader_hints import follows
from mirror_ray.model.errors import CorruptBatchError, MirrorError
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.batch_run import BatchRun
from mirror_ray.records.read_committed import CommittedOnly
from mirror_ray.replication.backoff import Backoff
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.fetch_interest import FetchInterest
from mirror_ray.replication.fetch_size import FetchSize
from mirror_ray.replication.fetched_batches import FetchedBatches, chunks, detached
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_events import PartitionEvents
from mirror_ray.replication.pipeline import BufferBudget
from mirror_ray.replication.supervision import supervise
from mirror_ray.replication.throttle import FetchThrottle

log = logging.getLogger(__name__)

#: Errors that mean: not here, or not now.
_MOVED = PASSING | {"UNKNOWN_SERVER_ERROR"}
#: How long a request waits while a partition is left out for lack of memory: it should come back soon.
_WITHOUT_MEMORY_WAIT_MS = 5
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.05, 2.0
#: Failed attempts after which the status of a broker's partitions shows why.
_ATTEMPTS_UNNOTICED = 4


class Fetcher:
    """Fetches partitions that were ``add``-ed from one broker, until ``close``.

    No request goes out while ``budget`` is exhausted: it is exceeded by what two answers bring at most. At first an
    answer may be ``first_scale`` times as large as the parameters say, as far as the budget has room.
    """

    def __init__(
        self,
        cluster: ClusterConnections,
        broker_id: int,
        parameters: fetch.FetchParameters,
        budget: BufferBudget,
        *,
        purpose: str,
        first_scale: int = 1,
        receive_buffer_bytes: int,
        throttle: FetchThrottle,
        events: PartitionEvents,
    ) -> None:
        self.broker_id = broker_id
        self._cluster = cluster
        self._parameters = parameters
        self._budget = budget
        self._purpose = purpose
        self._first_scale = first_scale
        self._receive_buffer_bytes = receive_buffer_bytes
        self._throttle = throttle
        self._events = events
        self._interest = FetchInterest(throttle)
        self._backoff = Backoff(_FIRST_BACKOFF_S, _LAST_BACKOFF_S)
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"fetch {purpose} from broker {broker_id}")

    def __len__(self) -> int:
        return len(self._interest)

    def add(self, copy: PartitionReplication) -> None:
        """Take part in fetching, from the partition's fetch offset on."""
        self._interest.add(copy)
        self._wake.set()

    def remove(self, copy: PartitionReplication) -> None:
        """Leave the partition out, and drop what is under way for it."""
        self._interest.remove(copy)

    def touch(self, copy: PartitionReplication) -> None:
        """Look again whether and from where the partition is to be fetched."""
        if self._interest.touch(copy):
            self._wake.set()

    def room_made(self) -> None:
        """Acknowledgements freed memory: look again at what was left out."""
        if self._interest.memory_freed() or not self._budget.exhausted:
            self._wake.set()

    def limits_changed(self) -> None:
        """Look again at what waits for a limit."""
        self._interest.limits_changed()
        self._wake.set()

    async def close(self) -> None:
        """End the loop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        what = f"fetch {self._purpose} from broker {self.broker_id}"
        await supervise(self._connect_and_fetch, what, self._backoff, self._failed)

    async def _connect_and_fetch(self) -> None:
        while not self._interest:
            self._wake.clear()
            await self._wake.wait()
        connection = await self._cluster.connect(
            self.broker_id, self._purpose, receive_buffer_bytes=self._receive_buffer_bytes
        )
        version = connection.best_version(fetch.API_KEY, fetch.LOWEST_VERSION, fetch.HIGHEST_VERSION)
        self._interest.restart(by_id=version >= fetch.FIRST_TOPIC_ID_VERSION)
        await self._exchange(connection, version)

    def _failed(self, error: Exception) -> None:
        """Have the leaders looked up: a broker that does not answer may have lost its partitions to another one."""
        if self._backoff.failures >= _ATTEMPTS_UNNOTICED:
            for copy in self._interest.copies:
                self._events.waiting(copy, f"source broker {self.broker_id}: {error}")
        for copy in list(self._interest.copies):
            self._events.leader_moved(copy, -1)

    async def _exchange(self, connection: Connection, version: int) -> None:
        """Request and process until the connection fails."""
        loop = asyncio.get_running_loop()
        parameters = self._parameters
        size = FetchSize(
            parameters.max_bytes, parameters.max_partition_bytes, connection.round_trip_s, self._first_scale
        )
        interest, session = self._interest, self._interest.session
        arrived: list[FetchedBatches] = []
        while True:
            interest.update_session(loop.time())
            limit_s = self._throttle.wait_s(loop.time()) if self._throttle.on else 0.0
            if len(session) == 0 or self._budget.exhausted or limit_s > 0:
                if not arrived:
                    await self._rest(limit_s)
                await self._process(arrived)
                arrived = []
                continue
            epoch, wanted, forgotten = session.next_request()
            extra_bytes = size.extra_bytes(self._budget.free_bytes)
            limits = self._limits(size, extra_bytes)
            by_partition = interest.partition_limits(wanted)
            body = fetch.encode_fetch(version, limits, epoch, wanted, forgotten, limits=by_partition)
            asked_s = loop.time()
            self._budget.reserved_bytes += extra_bytes
            try:
                future = connection.send(fetch.API_KEY, version, version >= fetch.FIRST_FLEXIBLE_VERSION, [body])
                await self._process(arrived)
                answer = await future
            finally:
                self._budget.reserved_bytes -= extra_bytes
            response = fetch.decode_fetch(version, answer)
            size.answered(loop.time() - asked_s, full=_is_full(response, len(answer), limits))
            if response.error_code in FETCH_SESSION_ERRORS:
                session.restart()
                arrived = []
                continue
            if response.error_code:
                raise OSError(f"Fetch answered {error_info(response.error_code).name}")
            session.answered(response.session_id)
            self._take_leaders(response)
            arrived = self._receive(response.partitions, len(answer))
            self._backoff.succeeded()
            if response.throttle_ms:
                # Before anything else can happen to the partitions: what arrived belongs to where they are now.
                await self._process(arrived)
                arrived = []
                self._throttle.throttled_by_source(response.throttle_ms / 1000, loop.time())
                await asyncio.sleep(response.throttle_ms / 1000)

    async def _rest(self, limit_s: float) -> None:
        """Wait to be woken, or until a limit lets a partition go on; ``limit_s``: no partition may before."""
        self._wake.clear()
        throttled_s = self._interest.throttled_s(asyncio.get_running_loop().time())
        if throttled_s is not None:
            limit_s = max(limit_s, throttled_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s if limit_s > 0 else None):
                await self._wake.wait()

    def _limits(self, size: FetchSize, extra_bytes: int) -> fetch.FetchParameters:
        usual, interest = self._parameters, self._interest
        wait_ms = usual.max_wait_ms
        if interest.waits_for_memory or interest.session.unfinished:
            wait_ms = min(_WITHOUT_MEMORY_WAIT_MS, wait_ms)
        throttled_s = interest.throttled_s(asyncio.get_running_loop().time())
        if throttled_s is not None:
            wait_ms = min(wait_ms, max(1, round(throttled_s * 1000)))
        max_bytes = usual.max_bytes + extra_bytes
        allowed_bytes = self._throttle.answer_bytes()
        if allowed_bytes is not None:
            max_bytes = min(max_bytes, allowed_bytes)
        return replace(
            usual,
            max_wait_ms=wait_ms,
            max_bytes=max_bytes,
            max_partition_bytes=size.partition_bytes(max_bytes, interest.partitions_behind),
        )

    def _take_leaders(self, response: fetch.FetchResponse) -> None:
        """Note the new leaders that the broker names where it is the leader no more."""
        named = ((self._interest.copy(fetched.key), fetched.leader) for fetched in response.partitions)
        hints = {copy.source: hint for copy, hint in named if copy is not None and hint is not None}
        if hints:
            self._cluster.take_leaders(hints, response.nodes)

    def _receive(self, partitions: list[fetch.FetchedPartition], answer_bytes: int) -> list[FetchedBatches]:
        arrived: list[FetchedBatches] = []
        for fetched in partitions:
            copy = self._interest.copy(fetched.key)
            if copy is None or not copy.state.fetches or not self._interest.is_asked_for(copy, fetched.key):
                continue
            if fetched.error_code:
                self._refused(copy, fetched)
                continue
            if fetched.diverging_from >= 0:
                self._diverged(copy, fetched.diverging_from)
                continue
            if fetched.preferred_read_replica >= 0:
                self._events.leader_moved(copy, fetched.preferred_read_replica)
                continue
            self._interest.touch(copy)
            stable = fetched.last_stable_offset if copy.read_committed else -1
            copy.source_answered(stable if stable >= 0 else fetched.high_watermark, fetched.high_watermark)
            try:
                records = detached(fetched.records, answer_bytes)
                batches = copy.received(records)
                if self._throttle.on:
                    self._count(copy, batches)
                offsets = (copy.fetch_offset, copy.process_offset)
                arrived.append(FetchedBatches(copy, batches, fetched.aborted, offsets))
            except CorruptBatchError as error:
                self._block(copy, error)
                self._events.fetched(copy)
        return arrived

    def _count(self, copy: PartitionReplication, batches: Sequence[RecordBatch | BatchRun]) -> None:
        """Count whole batches towards the limits: the part of one at an answer's end is read again with the next."""
        size_bytes = sum(batch.size_bytes for batch in batches)
        self._throttle.took(copy.source.topic, size_bytes, asyncio.get_running_loop().time())

    async def _process(self, arrived: list[FetchedBatches]) -> None:
        """Process first what is passed on; what is merged or goes through transforms takes longer."""
        for item in arrived:
            if not item.chunk_bytes and item.copy.state.fetches:
                self._process_some(item.copy, item.batches, item.aborted)
        for item in arrived:
            if item.chunk_bytes:
                await self._process_in_chunks(item)

    async def _process_in_chunks(self, item: FetchedBatches) -> None:
        """Process with a turn for the other tasks after each chunk."""
        copy = item.copy
        select = CommittedOnly(item.aborted if copy.read_committed else ())
        for batches in chunks(item.batches, item.chunk_bytes):
            if not copy.state.fetches or (copy.fetch_offset, copy.process_offset) != item.offsets:
                return
            self._process_some(copy, batches, select)
            item.offsets = copy.fetch_offset, copy.process_offset
            await asyncio.sleep(0)

    def _process_some(
        self,
        copy: PartitionReplication,
        batches: Sequence[RecordBatch | BatchRun],
        aborted: Sequence[tuple[int, int]] | CommittedOnly,
    ) -> None:
        try:
            copy.process(batches, aborted)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other partitions go on
            self._block(copy, error)
        if copy.state.reads_target and not copy.state.stopped:
            self._events.interrupted(copy, f"source partition {copy.source} was cleaned meanwhile")
        self._events.fetched(copy)

    def _block(self, copy: PartitionReplication, error: Exception) -> None:
        """Let the partition go on to this point and no further."""
        if not isinstance(error, MirrorError):
            log.error("%s", copy.assignment.partition, exc_info=error)
        copy.block(error)
        if copy.drained:
            self._events.failed(copy, error)

    def _diverged(self, copy: PartitionReplication, end: int) -> None:
        try:
            copy.diverged(end)
        except ReplicationFault as error:
            self._events.failed(copy, error)
        else:
            self._events.interrupted(copy, f"source partition {copy.source} is another log from {end} on")

    def _refused(self, copy: PartitionReplication, fetched: fetch.FetchedPartition) -> None:
        name = error_info(fetched.error_code).name
        if fetched.error_code == OFFSET_OUT_OF_RANGE:
            copy.out_of_range()
            self._events.fetched(copy)
        elif name in _MOVED:
            copy.reason = f"source partition {copy.source}: {name}"
            hint = fetched.leader
            known = hint is not None and follows(self._cluster.metadata, copy.source, hint)
            self._events.leader_moved(copy, hint.leader if hint is not None and known else -1)
        else:
            self._events.failed(copy, MirrorError(f"source partition {copy.source} can't be read: {name}"))


def _is_full(response: fetch.FetchResponse, answer_bytes: int, limits: fetch.FetchParameters) -> bool:
    """Whether a limit ended the answer, not the logs."""
    largest = max((len(fetched.records) for fetched in response.partitions), default=0)
    return answer_bytes >= limits.max_bytes or largest >= limits.max_partition_bytes
