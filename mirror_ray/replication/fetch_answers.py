"""What a source broker's answers bring: taken where they belong, errors of partitions acted on, batches processed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from mirror_ray.kafka import fetch
from mirror_ray.kafka.errors import OFFSET_OUT_OF_RANGE, PASSING, error_info
from mirror_ray.model.errors import CorruptBatchError, MirrorError
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.read_committed import CommittedOnly
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.fetch_ahead import FetchAhead
from mirror_ray.replication.fetch_interest import FetchInterest
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_events import PartitionEvents
from mirror_ray.replication.throttle import FetchThrottle

log = logging.getLogger(__name__)

#: Errors that mean: not here, or not now.
_MOVED = PASSING | {"UNKNOWN_SERVER_ERROR"}
#: An answer may stay in memory because of a part of it that is not smaller than this fraction.
_SMALL_PART = 8
#: So much is sent through transforms at a time: some ten milliseconds for the transforms that mirror-ray provides.
_TRANSFORMED_CHUNK_BYTES = 64 << 10
#: So many batches of one answer are small ones: a chunk of them becomes about one batch where they are merged.
_SMALL_BATCHES = 32
_SMALL_BATCHES_CHUNK_BYTES = 512 << 10


def detached(records: memoryview, answer_bytes: int) -> memoryview:
    """Copy records that are a small part of their answer: if they wait for long they must not keep all of it."""
    return memoryview(bytearray(records)) if len(records) < answer_bytes // _SMALL_PART else records


def chunks(batches: Sequence[RecordBatch], size_bytes: int) -> Iterator[Sequence[RecordBatch]]:
    """Yield the batches in order, as many at a time as reach that size; without batches one empty chunk."""
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
    #: The partition's fetch and process offset since: with others it went back, and these batches are to be dropped.
    offsets: tuple[int, int]

    @property
    def chunk_bytes(self) -> int:
        """How much to process at a time; 0: all of it, for that is quick."""
        if self.copy.transforms is not None:
            return _TRANSFORMED_CHUNK_BYTES
        return _SMALL_BATCHES_CHUNK_BYTES if len(self.batches) > _SMALL_BATCHES else 0


class FetchAnswers:
    """Takes the answers of one fetcher, in the order of its requests."""

    def __init__(self, interest: FetchInterest, throttle: FetchThrottle, events: PartitionEvents) -> None:
        self._interest, self._throttle, self._events = interest, throttle, events
        #: Of the connection that there is now.
        self.ahead = FetchAhead(0.0)

    def receive(
        self,
        partitions: Sequence[fetch.FetchedPartition],
        answer_bytes: int,
        limits: fetch.FetchParameters,
        guesses: Collection[fetch.PartitionKey] = (),
    ) -> list[FetchedBatches]:
        """Take an answer to a request within ``limits``; of ``guesses`` only what goes on from where they are."""
        arrived: list[FetchedBatches] = []
        for fetched in partitions:
            copy = self._interest.copy(fetched.key)
            if copy is None or not copy.state.fetches:
                continue
            ahead = fetched.key in guesses
            if not ahead and not self._interest.is_asked_for(copy, fetched.key):
                continue
            if fetched.error_code:
                if ahead and fetched.error_code == OFFSET_OUT_OF_RANGE:
                    self.ahead.missed(fetched.key)
                else:
                    self._refused(copy, fetched)
                continue
            if fetched.diverging_from >= 0:
                self._diverged(copy, fetched.diverging_from)
                continue
            if fetched.preferred_read_replica >= 0:
                self._events.leader_moved(copy, fetched.preferred_read_replica)
                continue
            if ahead and not self.ahead.continues(fetched.key, copy.fetch_offset, fetched.records):
                continue
            self._interest.touch(copy)
            item = self._taken(copy, fetched, answer_bytes)
            if item is not None:
                full = len(fetched.records) >= limits.max_partition_bytes
                self.ahead.received(fetched.key, item.batches, full=full)
                arrived.append(item)
        return arrived

    def _taken(
        self, copy: PartitionReplication, fetched: fetch.FetchedPartition, answer_bytes: int
    ) -> FetchedBatches | None:
        stable = fetched.last_stable_offset if copy.read_committed else -1
        copy.source_answered(stable if stable >= 0 else fetched.high_watermark, fetched.high_watermark)
        try:
            batches = copy.received(detached(fetched.records, answer_bytes))
            if self._throttle.on:
                self._count(copy, batches)
            return FetchedBatches(copy, batches, fetched.aborted, (copy.fetch_offset, copy.process_offset))
        except CorruptBatchError as error:
            self._block(copy, error)
            self._events.fetched(copy)
            return None

    def _count(self, copy: PartitionReplication, batches: Sequence[RecordBatch]) -> None:
        """Count whole batches towards the limits: the part of one at an answer's end is read again with the next."""
        size_bytes = sum(batch.size_bytes for batch in batches)
        self._throttle.took(copy.source.topic, size_bytes, asyncio.get_running_loop().time())

    async def process(self, arrived: list[FetchedBatches]) -> None:
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
        batches: Sequence[RecordBatch],
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
            self._events.leader_moved(copy, -1)
        else:
            self._events.failed(copy, MirrorError(f"source partition {copy.source} can't be read: {name}"))
