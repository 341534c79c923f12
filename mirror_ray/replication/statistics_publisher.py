"""Publishes once per interval what a flow's copies have done, in its statistics topic."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from mirror_ray.kafka.internal_topic_writer import IdempotentTopicWriter, KeyedRecord
from mirror_ray.model.errors import KafkaProtocolError, MirrorError
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.statistics import boundaries_ms, statistics_of

log = logging.getLogger(__name__)

#: After an interval's end, so that a clock that is read a moment early still finds it over.
_LATE_S = 0.005
#: The wall clock may be set while we sleep.
_LONGEST_SLEEP_S = 60.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
#: Copies that are looked at without letting go of the event loop.
_AT_A_TIME = 100
#: Records of one batch: about 400 KB before compression.
_BATCH_RECORDS = 500
#: Records that wait for a topic that can't be written, about 0.8 KB each. Beyond, the oldest are given up: a reader
#: sees that they are missing.
_WAITING_RECORDS = 32768
_CLOSE_S = 0.5
#: Nothing of the batch is in the topic, nor will it ever be.
_TOO_LARGE = frozenset({"MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


class StatisticsPublisher:
    """Runs until ``close``. ``copies()`` are those that count; ``on_event(level, text)`` is for the event log."""

    def __init__(
        self,
        flow: str,
        replicator: str,
        writer: IdempotentTopicWriter,
        copies: Callable[[], Iterable[PartitionReplication]],
        *,
        interval_ms: int,
        on_event: Callable[[str, str], None],
    ) -> None:
        self._flow, self._replicator = flow, replicator
        self._writer = writer
        self._copies = copies
        self._interval_ms = interval_ms
        self._on_event = on_event
        self._waiting: deque[KeyedRecord] = deque(maxlen=_WAITING_RECORDS)
        #: The first is being appended: whether its records are there already may be unknown.
        self._batches: deque[list[KeyedRecord]] = deque()
        self._batch_records = _BATCH_RECORDS
        self._failing = self._losing = False
        self._at_work = asyncio.Lock()
        self._wake = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._collect(), name=f"flow {flow}: collecting statistics"),
            asyncio.create_task(self._publish(), name=f"flow {flow}: publishing statistics"),
        ]

    def leave(self, copy: PartitionReplication) -> None:
        """The copy ends here: what it has done since the last interval is published with what waits."""
        self._put(copy, ended=True)
        self._wake.set()

    async def flush(self, copies: Iterable[PartitionReplication]) -> None:
        """Publish at once what these have done, which will do nothing any more, if the topic can be written."""
        for copy in copies:
            self._put(copy, ended=True)
        await self._append()

    async def close(self) -> None:
        """Stop; what waits is published if that can be done soon. The rest is missing from the topic."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._append()

    async def _collect(self) -> None:
        while True:
            now = now_ms()
            left_s = (boundaries_ms(now, self._interval_ms)[1] - now) / 1000
            await asyncio.sleep(min(left_s + _LATE_S, _LONGEST_SLEEP_S))
            for number, copy in enumerate(list(self._copies()), start=1):
                self._put(copy)
                if number % _AT_A_TIME == 0:
                    await asyncio.sleep(0)
            self._wake.set()

    def _put(self, copy: PartitionReplication, *, ended: bool = False) -> None:
        """Take what the copy's tally has to tell. Never raises: no copy is to suffer from it."""
        if copy.tally is None:
            return
        try:
            for interval in copy.tally.take(ended=ended):
                statistics = statistics_of(copy.assignment, self._replicator, interval)
                self._waiting.append(KeyedRecord(*statistics.encode()))
        except Exception as error:  # noqa: BLE001 - whatever it was, the others are published
            self._loses(f"an interval of {copy.assignment.partition}", error)

    async def _publish(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._wake.wait()
            self._wake.clear()
            while not await self._append():
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            pause_s = _FIRST_PAUSE_S

    async def _append(self) -> bool:
        """Append all that waits; whether that was done."""
        async with self._at_work:
            while self._batches or self._waiting:
                if not self._batches:
                    count = min(self._batch_records, len(self._waiting))
                    self._batches.append([self._waiting.popleft() for _ in range(count)])
                try:
                    await self._writer.append_once(self._batches[0])
                except (OSError, MirrorError) as error:
                    if not isinstance(error, KafkaProtocolError) or error.name not in _TOO_LARGE:
                        self._fails(str(error))
                        return False
                    self._split(error)
                except Exception as error:  # noqa: BLE001 - whatever it was, it would be so the next time
                    self._loses(f"{len(self._batches.popleft())} records", error)
                else:
                    self._batches.popleft()
                    self._works()
        return True

    def _split(self, error: KafkaProtocolError) -> None:
        """The first batch was refused as too large: in its place come its halves; a record by itself is given up."""
        batch = self._batches.popleft()
        half = self._batch_records = len(batch) // 2 or 1
        if len(batch) == 1:
            self._loses("a record that max.message.bytes of the topic has no room for", error)
        else:
            self._batches.extendleft((batch[half:], batch[:half]))

    def _loses(self, what: str, error: Exception) -> None:
        """Go on without it. It is said once, for it may be so of each partition and each time."""
        unforeseen = not isinstance(error, MirrorError)
        log.warning("flow %s: statistics lack %s: %r", self._flow, what, error, exc_info=unforeseen)
        if not self._losing:
            self._on_event("warning", f"flow {self._flow}: statistics are incomplete, they lack {what}: {error!r}")
        self._losing = True

    def _fails(self, text: str) -> None:
        log.info("flow %s: %s", self._flow, text)
        if not self._failing:
            self._on_event("warning", f"flow {self._flow}: statistics are not published: {text}")
        self._failing = True

    def _works(self) -> None:
        if self._failing:
            self._on_event("info", f"flow {self._flow}: topic {self._writer.topic} can be written again")
        self._failing = False
