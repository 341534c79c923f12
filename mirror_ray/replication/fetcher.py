"""The source side of a flow's data path: one loop for each source broker, one fetch session, one connection.

The next request goes out before the last answer is processed, so that the broker reads while we rewrite.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import FETCH_SESSION_ERRORS, OFFSET_OUT_OF_RANGE, PASSING, error_info
from mirror_ray.kafka.metadata import topic_id_bytes
from mirror_ray.model.errors import CorruptBatchError, MirrorError
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.read_committed import CommittedOnly
from mirror_ray.replication.backoff import backoff_s
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.fetch_session import FetchSession
from mirror_ray.replication.fetch_size import FetchSize
from mirror_ray.replication.outgoing_batch import BufferBudget
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.throttle import FetchThrottle

log = logging.getLogger(__name__)

#: Errors that say: not here, or not now.
_MOVED = PASSING | {"UNKNOWN_SERVER_ERROR"}
#: Wait of a request while a partition is left out for lack of room: it should come back soon.
_HELD_BACK_WAIT_MS = 5
#: An answer may stay in memory for the sake of this part of it.
_SMALL_PART = 8
#: So much is sent through transforms at a time: some ten milliseconds for what mirror-ray brings along.
_PIECE_BYTES = 64 << 10
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.05, 2.0
#: Failed attempts after which the partitions of a broker say so in their status.
_ATTEMPTS_UNNOTICED = 4


def detached(records: memoryview, answer_bytes: int) -> memoryview:
    """The records, copied where they are a small part of the answer: one that waits long must not keep all of it."""
    return memoryview(bytearray(records)) if len(records) < answer_bytes // _SMALL_PART else records


def pieces(batches: Sequence[RecordBatch], size_bytes: int) -> Iterator[Sequence[RecordBatch]]:
    """The batches in order, each time so many that they are together that large; none: one piece without any."""
    first = size = 0
    for number, batch in enumerate(batches, start=1):
        size += batch.size_bytes
        if size >= size_bytes:
            yield batches[first:number]
            first, size = number, 0
    if first < len(batches) or not batches:
        yield batches[first:]


@dataclass(slots=True)
class FetchedBatches:
    """Batches of one partition, fetched and not processed yet."""

    copy: PartitionReplication
    batches: list[RecordBatch]
    aborted: list[tuple[int, int]]
    #: Fetch and process offset of the copy since: with others it has been elsewhere, and these are not for it any more.
    at: tuple[int, int]


class Fetcher:
    """Fetches for the partitions that were ``add``-ed, from one broker, until ``close``.

    No request goes out while ``budget`` is exhausted: it is exceeded by what two answers bring at most.
    ``on_ready(copy)`` is called when a partition got something to send or its position moved,
    ``on_stopped(copy, error)`` when it must not go on, ``on_again(copy, reason)`` when the target's end must be read
    anew, ``on_moved(copy, broker_id)`` when it is to be read elsewhere (-1: ask for its leader).
    """

    def __init__(
        self,
        cluster: ClusterConnections,
        broker_id: int,
        parameters: fetch.FetchParameters,
        budget: BufferBudget,
        *,
        purpose: str,
        receive_buffer_bytes: int,
        pacer: FetchThrottle,
        on_ready: Callable[[PartitionReplication], None],
        on_stopped: Callable[[PartitionReplication, Exception], None],
        on_again: Callable[[PartitionReplication, str], None],
        on_moved: Callable[[PartitionReplication, int], None],
    ) -> None:
        self.broker_id = broker_id
        self._cluster = cluster
        self._parameters = parameters
        self._budget = budget
        self._purpose = purpose
        self._receive_buffer_bytes = receive_buffer_bytes
        self._pacer = pacer
        self._on_ready, self._on_stopped = on_ready, on_stopped
        self._on_again, self._on_moved = on_again, on_moved
        self._by_id = True
        self._attempts = 0
        self._copies: dict[fetch.PartitionKey, PartitionReplication] = {}
        self._keys: dict[PartitionReplication, fetch.PartitionKey] = {}
        self._touched: set[PartitionReplication] = set()
        self._held: set[PartitionReplication] = set()
        #: Those whose topic's limit is used up, and when the first of them may go on.
        self._paced: set[PartitionReplication] = set()
        self._paced_until_s = 0.0
        #: Of those in the session, the ones that have more to bring, as far as is known.
        self._behind: set[PartitionReplication] = set()
        self._session: FetchSession[fetch.PartitionKey, fetch.FetchPosition] = FetchSession()
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"fetch {purpose} from broker {broker_id}")

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, copy: PartitionReplication) -> None:
        """Take part in fetching, from the copy's fetch offset on."""
        self._adopt(copy)
        self.touch(copy)

    def remove(self, copy: PartitionReplication) -> None:
        """Leave the copy out. What is under way for it is ignored."""
        key = self._keys.pop(copy, None)
        if key is not None:
            self._copies.pop(key, None)
            self._session.forget(key)
        for among in (self._touched, self._held, self._paced, self._behind):
            among.discard(copy)

    def touch(self, copy: PartitionReplication) -> None:
        """The copy's wish to be fetched may have changed."""
        if copy in self._keys:
            self._touched.add(copy)
            self._wake.set()

    def room_made(self) -> None:
        """Acknowledgements freed memory: look again at what was held back."""
        for copy in [copy for copy in self._held if copy.wants_fetch]:
            self.touch(copy)
        if not self._budget.exhausted:
            self._wake.set()

    def limits_changed(self) -> None:
        """Whoever waits for a limit may not have to any more."""
        self._paced_until_s = 0.0
        self._wake.set()

    async def close(self) -> None:
        """End the loop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _adopt(self, copy: PartitionReplication) -> None:
        partition = copy.assignment.partition
        topic = topic_id_bytes(copy.assignment.source_topic_id) if self._by_id else partition.topic.encode()
        key = fetch.PartitionKey(topic, partition.partition)
        self._keys[copy] = key
        self._copies[key] = copy

    async def _run(self) -> None:
        while True:
            try:
                while not self._keys:
                    self._wake.clear()
                    await self._wake.wait()
                connection = await self._cluster.connect(
                    self.broker_id, self._purpose, receive_buffer_bytes=self._receive_buffer_bytes
                )
                version = connection.best_version(fetch.API_KEY, fetch.LOWEST_VERSION, fetch.HIGHEST_VERSION)
                self._begin(version)
                await self._exchange(connection, version)
            except Exception as error:
                self._attempts += 1
                unforeseen = not isinstance(error, OSError | MirrorError)
                log.info("fetch %s from broker %d: %s", self._purpose, self.broker_id, error, exc_info=unforeseen)
                self._trouble(str(error))
                await asyncio.sleep(backoff_s(self._attempts, _FIRST_BACKOFF_S, _LAST_BACKOFF_S))

    def _begin(self, version: int) -> None:
        by_id = version >= fetch.FIRST_TOPIC_ID_VERSION
        if by_id != self._by_id:
            self._by_id = by_id
            copies, self._copies, self._keys = list(self._keys), {}, {}
            self._session = FetchSession()
            for copy in copies:
                self._adopt(copy)
        self._session.restart()
        self._touched.update(self._keys)

    def _trouble(self, text: str) -> None:
        """A broker that does not answer may have lost its partitions to another one: have their leaders looked up."""
        if self._attempts >= _ATTEMPTS_UNNOTICED:
            for copy in self._keys:
                copy.reason = f"source broker {self.broker_id}: {text}"
                self._on_ready(copy)
        for copy in list(self._keys):
            self._on_moved(copy, -1)

    async def _exchange(self, connection: Connection, version: int) -> None:
        """Request and process until the connection fails."""
        loop = asyncio.get_running_loop()
        size = FetchSize(self._parameters.max_bytes, self._parameters.max_partition_bytes, connection.round_trip_s)
        arrived: list[FetchedBatches] = []
        while True:
            self._apply_touched(loop.time())
            limit_s = self._pacer.wait_s(loop.time()) if self._pacer.on else 0.0
            if len(self._session) == 0 or self._budget.exhausted or limit_s > 0:
                if not arrived:
                    await self._rest(limit_s)
                await self._process(arrived)
                arrived = []
                continue
            session, wanted, forgotten = self._session.next_request()
            extra_bytes = size.extra_bytes(self._budget.free_bytes)
            limits = self._limits(size, extra_bytes)
            paced = self._partition_limits(wanted)
            body = fetch.encode_fetch(version, limits, session, wanted, forgotten, limits=paced)
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
                self._session.restart()
                arrived = []
                continue
            if response.error_code:
                raise OSError(f"Fetch answered {error_info(response.error_code).name}")
            self._session.answered(response.session_id)
            arrived = self._receive(response.partitions, len(answer))
            self._attempts = 0
            if response.throttle_ms:
                # Before anything else can happen to the partitions: what arrived belongs to where they are now.
                await self._process(arrived)
                arrived = []
                self._pacer.throttled_by_source(response.throttle_ms / 1000, loop.time())
                await asyncio.sleep(response.throttle_ms / 1000)

    async def _rest(self, limit_s: float) -> None:
        """Until something wakes us, or a limit lets somebody go on; ``limit_s``: nobody may before."""
        self._wake.clear()
        now_s = asyncio.get_running_loop().time()
        if self._paced:
            limit_s = max(limit_s, self._paced_until_s - now_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s if limit_s > 0 else None):
                await self._wake.wait()

    def _partition_limits(self, wanted: Iterable[fetch.PartitionKey]) -> dict[fetch.PartitionKey, int]:
        if not self._pacer.by_topic:
            return {}
        found = ((key, self._pacer.partition_bytes(self._copies[key].source.topic)) for key in wanted)
        return {key: size for key, size in found if size is not None}

    def _limits(self, size: FetchSize, extra_bytes: int) -> fetch.FetchParameters:
        usual = self._parameters
        hurried = self._held or self._session.unfinished
        wait_ms = min(_HELD_BACK_WAIT_MS, usual.max_wait_ms) if hurried else usual.max_wait_ms
        if self._paced:
            wait_ms = min(wait_ms, self._paced_ms())
        max_bytes = usual.max_bytes + extra_bytes
        allowed = self._pacer.answer_bytes()
        if allowed is not None:
            max_bytes = min(max_bytes, allowed)
        return replace(
            usual,
            max_wait_ms=wait_ms,
            max_bytes=max_bytes,
            max_partition_bytes=size.partition_bytes(max_bytes, len(self._behind)),
        )

    def _paced_ms(self) -> int:
        """For how long those whose limit is used up have to wait yet."""
        return max(1, round((self._paced_until_s - asyncio.get_running_loop().time()) * 1000))

    def _apply_touched(self, now_s: float) -> None:
        if self._paced and now_s >= self._paced_until_s:
            self._touched |= self._paced
            self._paced.clear()
        for copy in self._touched:
            key = self._keys[copy]
            if copy.wants_fetch and self._has_to_wait(copy, now_s):
                self._held.discard(copy)
                self._session.forget(key)
                continue
            if copy.wants_fetch:
                self._held.discard(copy)
                self._session.want(key, _position(copy))
                if copy.behind:
                    self._behind.add(copy)
                else:
                    self._behind.discard(copy)
                continue
            self._session.forget(key)
            self._behind.discard(copy)
            if copy.fetchable and not copy.fetched_all:
                self._held.add(copy)
            else:
                self._held.discard(copy)
        self._touched.clear()

    def _has_to_wait(self, copy: PartitionReplication, now_s: float) -> bool:
        """Whether its topic's limit is used up."""
        wait_s = self._pacer.topic_wait_s(copy.source.topic, now_s) if self._pacer.by_topic else 0.0
        if wait_s > 0:
            until_s = now_s + wait_s
            self._paced_until_s = min(self._paced_until_s, until_s) if self._paced else until_s
            self._paced.add(copy)
        return wait_s > 0

    def _receive(self, partitions: list[fetch.FetchedPartition], answer_bytes: int) -> list[FetchedBatches]:
        arrived: list[FetchedBatches] = []
        for fetched in partitions:
            copy = self._copies.get(fetched.key)
            if copy is None or not copy.fetchable or self._session.position(fetched.key) != _position(copy):
                continue
            if fetched.error_code:
                self._refused(copy, fetched)
                continue
            if fetched.diverging_from >= 0:
                self._diverged(copy, fetched.diverging_from)
                continue
            if fetched.preferred_read_replica >= 0:
                self._on_moved(copy, fetched.preferred_read_replica)
                continue
            self._touched.add(copy)
            stable = fetched.last_stable_offset if copy.read_committed else -1
            copy.saw(stable if stable >= 0 else fetched.high_watermark, fetched.high_watermark)
            try:
                records = detached(fetched.records, answer_bytes)
                batches = copy.received(records)
                if self._pacer.on:
                    self._take(copy, batches)
                arrived.append(FetchedBatches(copy, batches, fetched.aborted, (copy.fetch_offset, copy.process_offset)))
            except CorruptBatchError as error:
                self._obstructed(copy, error)
        return arrived

    def _take(self, copy: PartitionReplication, batches: Sequence[RecordBatch]) -> None:
        """Only whole batches count: the part of one that ends an answer is read again with the next."""
        size_bytes = sum(batch.size_bytes for batch in batches)
        self._pacer.took(copy.source.topic, size_bytes, asyncio.get_running_loop().time())

    async def _process(self, arrived: list[FetchedBatches]) -> None:
        """At once what is passed on; only then what goes through transforms, for that is waited for now and then."""
        for item in arrived:
            if item.copy.transforms is None and item.copy.fetchable:
                self._process_some(item.copy, item.batches, item.aborted)
        for item in arrived:
            if item.copy.transforms is not None:
                await self._process_slowly(item)

    async def _process_slowly(self, item: FetchedBatches) -> None:
        """Piece by piece, with a turn for everybody else in between."""
        copy = item.copy
        select = CommittedOnly(item.aborted if copy.read_committed else ())
        for batches in pieces(item.batches, _PIECE_BYTES):
            if not copy.fetchable or (copy.fetch_offset, copy.process_offset) != item.at:
                return
            self._process_some(copy, batches, select)
            item.at = copy.fetch_offset, copy.process_offset
            await asyncio.sleep(0)

    def _process_some(
        self,
        copy: PartitionReplication,
        batches: Sequence[RecordBatch],
        aborted: Sequence[tuple[int, int]] | CommittedOnly,
    ) -> None:
        try:
            copy.process(batches, aborted)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other partitions go on
            self._obstructed(copy, error)
        if copy.state == "establishing":
            self._on_again(copy, f"source partition {copy.assignment.partition.source} was cleaned meanwhile")
        elif not copy.fetchable:
            self.touch(copy)
        self._on_ready(copy)

    def _obstructed(self, copy: PartitionReplication, error: Exception) -> None:
        """The copy can go on to this point and no further."""
        if not isinstance(error, MirrorError):
            log.error("%s", copy.assignment.partition, exc_info=error)
        copy.obstacle = error
        self.touch(copy)
        if copy.drained:
            self._on_stopped(copy, error)

    def _diverged(self, copy: PartitionReplication, end: int) -> None:
        try:
            copy.diverged(end)
        except ReplicationFault as error:
            self._on_stopped(copy, error)
            return
        self._on_again(copy, f"source partition {copy.assignment.partition.source} is another log from {end} on")

    def _refused(self, copy: PartitionReplication, fetched: fetch.FetchedPartition) -> None:
        name = error_info(fetched.error_code).name
        source = f"source partition {copy.assignment.partition.source}"
        if fetched.error_code == OFFSET_OUT_OF_RANGE:
            copy.question = "out_of_range"
            self.touch(copy)
            self._on_ready(copy)
        elif name in _MOVED:
            copy.reason = f"{source}: {name}"
            self._on_moved(copy, -1)
        else:
            self._on_stopped(copy, MirrorError(f"{source} can't be read: {name}"))


def _position(copy: PartitionReplication) -> fetch.FetchPosition:
    return fetch.FetchPosition(copy.fetch_offset, copy.fetch_epoch)


def _is_full(response: fetch.FetchResponse, answer_bytes: int, limits: fetch.FetchParameters) -> bool:
    """Whether a limit ended the answer, not the logs."""
    largest = max((len(fetched.records) for fetched in response.partitions), default=0)
    return answer_bytes >= limits.max_bytes or largest >= limits.max_partition_bytes
