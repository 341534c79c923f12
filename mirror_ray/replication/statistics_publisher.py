"""Publishes once per interval what a flow's partitions have done, in its statistics topic."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from mirror_ray.kafka.internal_topic_writer import IdempotentTopicWriter, KeyedRecord
from mirror_ray.model.errors import KafkaProtocolError
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.statistics import boundaries_ms, statistics_of
from mirror_ray.replication.supervision import BackgroundWriter, log_failure

#: After an interval's end, so that a clock that is read a moment early still finds it over.
_LATE_S = 0.005
#: The wall clock may be set while we sleep.
_LONGEST_SLEEP_S = 60.0
#: Partitions that are collected from without a turn for other tasks.
_AT_A_TIME = 100
#: Records of one batch: about 400 KB before compression.
_BATCH_RECORDS = 500
#: Records that wait for a topic that can't be written, about 0.8 KB each. Beyond, the oldest are given up: a reader
#: sees that they are missing.
_WAITING_RECORDS = 32768
_CLOSE_S = 0.5
#: Errors after which nothing of the batch is in the topic, nor will ever be.
_TOO_LARGE = frozenset({"MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})


def now_ms() -> int:
    """Return the wall clock's time."""
    return time.time_ns() // 1_000_000


class StatisticsPublisher:
    """Runs until ``close``; ``copies()`` are the partitions, ``on_event(level, text)`` is for the event log."""

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
        self._topic = writer
        self._copies = copies
        self._interval_ms = interval_ms
        self._on_event = on_event
        self._waiting: deque[KeyedRecord] = deque(maxlen=_WAITING_RECORDS)
        #: The first is being appended: whether the topic holds its records may not be known.
        self._batches: deque[list[KeyedRecord]] = deque()
        self._batch_records = _BATCH_RECORDS
        self._incomplete = False
        self._collected = asyncio.Event()
        self._writer = BackgroundWriter(flow, "statistics", wait=self._wait, publish=self._publish, on_event=on_event)
        self._task = asyncio.create_task(self._collect(), name=f"flow {flow}: collecting statistics")

    def leave(self, copy: PartitionReplication) -> None:
        """Collect what a partition has done that is not replicated here any more."""
        self._put(copy, ended=True)
        self._collected.set()

    async def flush(self, copies: Iterable[PartitionReplication]) -> None:
        """Publish at once what these have done, which will do nothing any more, if the topic can be written."""
        for copy in copies:
            self._put(copy, ended=True)
        await self._writer.flush()

    async def close(self) -> None:
        """Stop; what waits is published if that can be done soon. The rest is missing from the topic."""
        self._task.cancel()
        await asyncio.gather(self._task, self._writer.close(), return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.flush()

    async def _wait(self) -> None:
        await self._collected.wait()
        self._collected.clear()

    async def _collect(self) -> None:
        while True:
            now = now_ms()
            left_s = (boundaries_ms(now, self._interval_ms)[1] - now) / 1000
            await asyncio.sleep(min(left_s + _LATE_S, _LONGEST_SLEEP_S))
            for number, copy in enumerate(list(self._copies()), start=1):
                self._put(copy)
                if number % _AT_A_TIME == 0:
                    await asyncio.sleep(0)
            self._collected.set()

    def _put(self, copy: PartitionReplication, *, ended: bool = False) -> None:
        """Take a partition's intervals. Never raises: replication must not suffer from statistics."""
        if copy.tally is None:
            return
        try:
            for interval in copy.tally.take(ended=ended):
                statistics = statistics_of(copy.assignment, self._replicator, interval)
                self._waiting.append(KeyedRecord(*statistics.encode()))
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are published
            self._give_up(f"an interval of {copy.assignment.partition}", error)

    async def _publish(self) -> bool:
        while self._batches or self._waiting:
            if not self._batches:
                count = min(self._batch_records, len(self._waiting))
                self._batches.append([self._waiting.popleft() for _ in range(count)])
            try:
                if not await self._writer.write(self._topic.topic, self._append_first):
                    return False
            except Exception as error:  # noqa: BLE001 - whatever it is, it would be so the next time
                self._give_up(f"{len(self._batches.popleft())} records", error)
        return True

    async def _append_first(self) -> None:
        try:
            await self._topic.append_once(self._batches[0])
        except KafkaProtocolError as error:
            if error.name not in _TOO_LARGE:
                raise
            self._split(error)
        else:
            self._batches.popleft()

    def _split(self, error: KafkaProtocolError) -> None:
        """Replace the first batch, which is too large, by its halves; a record by itself is given up."""
        batch = self._batches.popleft()
        half = self._batch_records = len(batch) // 2 or 1
        if len(batch) == 1:
            self._give_up("a record that max.message.bytes of the topic has no room for", error)
        else:
            self._batches.extendleft((batch[half:], batch[:half]))

    def _give_up(self, what: str, error: Exception) -> None:
        """Go on without something. An event says so once, for it may be so of each partition and each time."""
        log_failure(f"flow {self._flow}: statistics lack {what}", error, logging.WARNING)
        if not self._incomplete:
            self._on_event("warning", f"flow {self._flow}: statistics are incomplete, they lack {what}: {error!r}")
        self._incomplete = True
