"""The source side of a flow's data path: one loop for each source broker, one fetch session, one connection.

The next request goes out before the last answer is processed, so that the broker reads while batches are rewritten. On
a long link more of them are under way, where it can be guessed what comes next (``fetch_ahead``): the broker takes them
up one after another, in the same session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Answer, Connection
from mirror_ray.kafka.errors import FETCH_SESSION_ERRORS, error_info
from mirror_ray.replication.backoff import Backoff
from mirror_ray.replication.fetch_ahead import FetchAhead
from mirror_ray.replication.fetch_answers import FetchAnswers, FetchedBatches
from mirror_ray.replication.fetch_interest import FetchInterest
from mirror_ray.replication.fetch_size import FetchSize
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_events import PartitionEvents
from mirror_ray.replication.pipeline import BufferBudget
from mirror_ray.replication.supervision import supervise
from mirror_ray.replication.throttle import FetchThrottle

#: How long a request waits while a partition is left out for lack of memory: it should come back soon.
_WITHOUT_MEMORY_WAIT_MS = 5
#: Requests under way at most. They fill 100 ms of 250 MB/s, if there is memory for so much.
MOST_UNDER_WAY = 8
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.05, 2.0
#: Failed attempts after which the status of a broker's partitions shows why.
_ATTEMPTS_UNNOTICED = 4


@dataclass(frozen=True, slots=True)
class FetchUnderWay:
    """A request that was sent, and its answer to come."""

    answer: Answer
    limits: fetch.FetchParameters
    asked_s: float
    #: Of the budget, until the answer is there.
    reserved_bytes: int
    #: Partitions that were asked for from a guessed offset, and that offset.
    guesses: Mapping[fetch.PartitionKey, int]


@dataclass(slots=True)
class FetchLink:
    """A connection, how much is asked for on it, and what is under way, oldest first."""

    connection: Connection
    version: int
    size: FetchSize
    ahead: FetchAhead
    under_way: deque[FetchUnderWay] = field(default_factory=deque)
    #: Room that a request ahead waits for; 0: none does.
    wanted_bytes: int = 0
    #: Answers since a request was sent ahead.
    answers_alone: int = 0


class Fetcher:
    """Fetches partitions that were ``add``-ed from one broker, until ``close``.

    No request goes out while ``budget`` is exhausted: it is exceeded by what two answers bring at most. For comparison
    alone, ``most_under_way``: how many requests at a time.
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
        throttle: FetchThrottle,
        events: PartitionEvents,
        most_under_way: int = MOST_UNDER_WAY,
    ) -> None:
        self.broker_id = broker_id
        self._cluster = cluster
        self._parameters = parameters
        self._budget = budget
        self._purpose = purpose
        self._receive_buffer_bytes = receive_buffer_bytes
        self._throttle = throttle
        self._events = events
        self._interest = FetchInterest(throttle)
        self._answers = FetchAnswers(self._interest, throttle, events)
        self._backoff = Backoff(_FIRST_BACKOFF_S, _LAST_BACKOFF_S)
        self._link: FetchLink | None = None
        self._most_under_way = most_under_way
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
        key = self._interest.remove(copy)
        if key is not None:
            self._answers.ahead.forget(key)

    def touch(self, copy: PartitionReplication) -> None:
        """Look again whether and from where the partition is to be fetched."""
        if self._interest.touch(copy):
            self._wake.set()

    def room_made(self) -> None:
        """Acknowledgements freed memory: look again at what was left out."""
        if self._interest.memory_freed() or not self._budget.exhausted:
            self._wake.set()
        link = self._link
        if link is not None and 0 < link.wanted_bytes <= self._budget.free_bytes:
            self._ask_ahead(link)

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
        size = FetchSize(self._parameters.max_bytes, self._parameters.max_partition_bytes, connection.round_trip_s)
        ahead = self._answers.ahead = FetchAhead(connection.round_trip_s if self._most_under_way > 1 else 0.0)
        self._link = link = FetchLink(connection, version, size, ahead)
        try:
            await self._keep_asking(link)
        finally:
            self._link = None
            for request in link.under_way:
                self._budget.reserved_bytes -= request.reserved_bytes

    async def _keep_asking(self, link: FetchLink) -> None:
        loop = asyncio.get_running_loop()
        interest, session, answers = self._interest, self._interest.session, self._answers
        arrived: list[FetchedBatches] = []
        while True:
            if not link.under_way:
                interest.update_session(loop.time())
                limit_s = self._throttle.wait_s(loop.time()) if self._throttle.on else 0.0
                if len(session) == 0 or self._budget.exhausted or limit_s > 0:
                    if not arrived:
                        await self._rest(limit_s)
                    await answers.process(arrived)
                    arrived = []
                    continue
                link.ahead.begin_anew()
                extra_bytes = link.size.extra_bytes(self._budget.free_bytes)
                self._ask(link, self._limits(link.size, extra_bytes), extra_bytes)
            self._ask_ahead(link)
            await answers.process(arrived)
            arrived = []
            answer = await link.under_way[0].answer
            request = link.under_way.popleft()
            self._budget.reserved_bytes -= request.reserved_bytes
            response = fetch.decode_fetch(link.version, answer)
            if response.error_code in FETCH_SESSION_ERRORS:
                await self._lose_session(link)
                continue
            if response.error_code:
                raise OSError(f"Fetch answered {error_info(response.error_code).name}")
            session.answered(response.session_id)
            arrived = answers.receive(response.partitions, len(answer), request.limits, request.guesses)
            link.answers_alone += 1
            full = _is_full(response, len(answer), request.limits)
            # Larger answers are for where nothing is asked ahead: and the first one is what that needs to begin.
            if link.answers_alone > 1 or not full:
                link.size.answered(loop.time() - request.asked_s, full=full)
            self._backoff.succeeded()
            if response.throttle_ms:
                # Before anything else can happen to the partitions: what arrived belongs to where they are now.
                await answers.process(arrived)
                arrived = []
                self._throttle.throttled_by_source(response.throttle_ms / 1000, loop.time())
                await asyncio.sleep(response.throttle_ms / 1000)

    def _ask(
        self,
        link: FetchLink,
        limits: fetch.FetchParameters,
        reserved_bytes: int,
        guesses: Mapping[fetch.PartitionKey, int] = MappingProxyType({}),
    ) -> None:
        """Send the session's next request."""
        epoch, wanted, forgotten = self._interest.session.next_request()
        by_partition = self._interest.partition_limits(wanted)
        body = fetch.encode_fetch(link.version, limits, epoch, wanted, forgotten, limits=by_partition)
        flexible = link.version >= fetch.FIRST_FLEXIBLE_VERSION
        answer = link.connection.send(fetch.API_KEY, link.version, flexible, [body])
        for key, position in wanted.items():
            link.ahead.asked(key, position.offset, limits.max_partition_bytes)
        self._budget.reserved_bytes += reserved_bytes
        now_s = asyncio.get_running_loop().time()
        link.under_way.append(FetchUnderWay(answer, limits, now_s, reserved_bytes, guesses))

    def _ask_ahead(self, link: FetchLink) -> None:
        """Send requests for what comes behind those under way, as long as it can be guessed and there is memory."""
        interest, link.wanted_bytes = self._interest, 0
        while link.ahead.ready and link.under_way and interest.session.established and not self._throttle.on:
            if len(link.under_way) >= self._most_under_way or not all(copy.may_fetch for copy in interest.behind):
                return
            limits = self._limits(link.size, 0)
            limit_bytes = limits.max_partition_bytes
            needed_bytes = interest.partitions_behind * limit_bytes
            if not 0 < needed_bytes <= limits.max_bytes:
                return
            if needed_bytes > self._budget.free_bytes:
                link.wanted_bytes = needed_bytes
                return
            # What has no room for itself keeps its place in the session: what is under way for it has its memory.
            interest.update_beside(interest.behind, asyncio.get_running_loop().time())
            guesses = link.ahead.guesses({interest.key(copy): copy.known_end for copy in interest.behind}, limit_bytes)
            if not guesses:
                return
            for key, offset in guesses.items():
                interest.ask_ahead(key, offset)
            self._ask(link, limits, needed_bytes, guesses)
            link.answers_alone = 0

    async def _lose_session(self, link: FetchLink) -> None:
        """The broker has no such session: the answers to requests behind are errors, too; begin anew."""
        if link.under_way:
            # It may be a broker that does not handle one connection's requests in order.
            link.ahead.give_up()
        while link.under_way:
            await link.under_way[0].answer
            self._budget.reserved_bytes -= link.under_way.popleft().reserved_bytes
        self._interest.session.restart()

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


def _is_full(response: fetch.FetchResponse, answer_bytes: int, limits: fetch.FetchParameters) -> bool:
    """Whether a limit ended the answer, not the logs."""
    largest = max((len(fetched.records) for fetched in response.partitions), default=0)
    return answer_bytes >= limits.max_bytes or largest >= limits.max_partition_bytes
