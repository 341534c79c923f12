"""Reads parts of partitions, through changes of leaders: what consumers see, or every batch, committed or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import OFFSET_OUT_OF_RANGE, error_info, protocol_error
from mirror_ray.kafka.fetch import FetchedPartition, FetchParameters
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, IsolationLevel
from mirror_ray.kafka.partition_reader import batches_before, fetch_at, read_between
from mirror_ray.model.errors import ClusterUnreachableError, KafkaProtocolError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.records.batch import RecordBatch, iter_batches, verify
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.records.read_committed import CommittedOnly
from mirror_ray.verification.ranges import Span

_FETCH_BYTES = 4 << 20
#: A partition whose leader can't be reached for so long fails the whole command.
_TIMEOUT_S = 30.0
_RETRY_INTERVAL_S = 0.2
#: After so many answers without records the log's end is asked for: a new leader may not return all records at once.
_EMPTY_ANSWERS = 25
#: After so many, reading fails: the leader does not return what it has.
_MAX_EMPTY_ANSWERS = 1500
_EMPTY_S = 0.02


class RemovedError(Exception):
    """The log now begins behind the offset that was to be read: at ``start``."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """A partition, and how it is read."""

    cluster: ClusterConnections
    partition: TopicPartition
    topic_id: TopicId
    read_committed: bool = True
    #: Readers with different purposes have connections of their own.
    purpose: str = "verify"
    #: Makes of the source's records what is copied; None: they are copied as they are.
    transform: Callable[[Sequence[DecodedRecord]], Sequence[DecodedRecord]] | None = None
    #: Gets all batches that consumers see.
    take: Callable[[Sequence[RecordBatch]], None] = lambda _: None

    async def start(self) -> int:
        """Ask for the log start offset. Raises ClusterUnreachableError if the leader does not answer."""
        return await self._offset(EARLIEST)

    async def end(self) -> int:
        """Ask for the end of what readers see. Raises as ``start`` does."""
        return await self._offset(LATEST)

    async def _offset(self, which: int) -> int:
        isolation: IsolationLevel = "read_committed" if self.read_committed else "read_uncommitted"
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                while True:
                    answer = (await self.cluster.list_offsets({self.partition: which}, isolation))[self.partition]
                    if not answer.error_code:
                        return answer.offset
                    await asyncio.sleep(_RETRY_INTERVAL_S)
        except TimeoutError:
            raise self.unreachable(f"the leader of {self.partition} does not answer") from None

    def unreachable(self, why: str) -> ClusterUnreachableError:
        """The error that the cluster does not answer."""
        return ClusterUnreachableError(f"cluster {self.cluster.settings.alias}: {why}")

    async def records(self, start: int, end: int) -> AsyncIterator[list[DecodedRecord]]:
        """Yield the records from ``start`` up to ``end`` that consumers see, in order. Raises as ``batches`` does."""
        offset = start
        async for batches in self.batches(start, end):
            for batch in batches:
                found = records_of(batch)
                if batch.base_offset < offset or batch.next_offset > end or batch.magic != 2:
                    found = [record for record in found if offset <= record.offset < end]
                offset = max(offset, batch.next_offset)
                yield self.transformed(found)

    def transformed(self, records: list[DecodedRecord]) -> list[DecodedRecord]:
        """The records that are copied, as they are copied."""
        return records if self.transform is None else list(self.transform(records))

    async def batches(self, start: int, end: int) -> AsyncIterator[list[RecordBatch]]:
        """Yield, for each answer, the batches with records that consumers see, in order; their checksums fit.

        The very first and last batch may reach beyond ``start`` and ``end``.

        Raises:
            RemovedError: ``start``, or the offset that reading has come to, was removed.
            ClusterUnreachableError: The leader does not answer, or does not return what its log holds.
            CorruptBatchError: A batch does not fit its checksum, or does not parse.
        """
        offset, empty = start, 0
        while offset < end:
            fetched = await self._fetch(offset)
            if not len(fetched.records):
                empty += 1
                if empty % _EMPTY_ANSWERS == 0 and await self._holds_no_more(fetched, end, empty):
                    return
                await asyncio.sleep(_EMPTY_S)
                continue
            empty = 0
            select = CommittedOnly(fetched.aborted if self.read_committed else ())
            batches = batches_before(end, iter_batches(fetched.records))
            for batch in batches:
                verify(batch)
            offset = max(offset, batches[-1].next_offset) if batches else end
            seen = [batch for batch in batches if select.copies(batch)]
            self.take(seen)
            yield seen

    async def _holds_no_more(self, fetched: FetchedPartition, end: int, empty: int) -> bool:
        """Whether nothing is left up to ``end``; otherwise the leader does not return yet what it holds.

        The log cleaner may have left nothing. A new leader never reports an end that lags (KIP-207).
        """
        shown = fetched.last_stable_offset if self.read_committed else fetched.high_watermark
        if shown >= end or (ends := await self.end()) <= shown:
            return True
        if empty >= _MAX_EMPTY_ANSWERS:
            raise self.unreachable(
                f"{self.partition} shows its records up to {shown} and ends at {ends}: run this again when its replicas"
                " are in sync"
            )
        return False

    async def _fetch(self, offset: int) -> FetchedPartition:
        until_s = asyncio.get_running_loop().time() + _TIMEOUT_S
        while True:
            try:
                return await self._fetch_once(offset)
            except (OSError, KafkaProtocolError) as error:
                if isinstance(error, KafkaProtocolError) and not error_info(error.code).retriable:
                    raise
                if asyncio.get_running_loop().time() > until_s:
                    raise self.unreachable(f"{self.partition} can't be read: {error}") from error
            await asyncio.sleep(_RETRY_INTERVAL_S)
            await self.cluster.refresh([self.partition.topic])

    async def _fetch_once(self, offset: int) -> FetchedPartition:
        connection = await self.cluster.connect(self.cluster.metadata.leader(self.partition), self.purpose)
        parameters = FetchParameters(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_FETCH_BYTES,
            max_partition_bytes=_FETCH_BYTES,
            read_committed=self.read_committed,
            rack="",
        )
        ((_, fetched),) = await fetch_at(
            connection, {self.partition: self.topic_id}, {self.partition: offset}, parameters
        )
        if fetched.error_code == OFFSET_OUT_OF_RANGE:
            start = await self.start()
            if start > offset:
                raise RemovedError(start)
        if fetched.error_code:
            raise protocol_error(fetched.error_code, f"read {self.partition} from {offset}")
        return fetched


async def read_batches(log: PartitionLog, spans: Iterable[Span]) -> AsyncIterator[RecordBatch]:
    """Yield every batch with records at offsets in ``spans``, committed or not, in order; what is removed is skipped.

    Raises:
        ClusterUnreachableError: The leader does not answer, or does not show what its log holds.
        CorruptBatchError: A batch does not fit its checksum.
    """
    clock = asyncio.get_running_loop().time
    for first, end in spans:
        at, answered_s = first, clock()
        while at < end:
            try:
                async for batches in _read(log, at, end):
                    answered_s = clock()
                    for batch in batches:
                        at = max(at, batch.next_offset)
                        if batch.count and not batch.is_control and batch.next_offset > first:
                            yield batch
                at = end
            except (OSError, KafkaProtocolError) as error:
                if clock() - answered_s > _TIMEOUT_S:
                    raise log.unreachable(f"{log.partition} can't be read: {error}") from error
                await asyncio.sleep(_RETRY_INTERVAL_S)
                await log.cluster.refresh([log.partition.topic])
                at = max(at, await log.start())


async def _read(log: PartitionLog, first: int, end: int) -> AsyncIterator[list[RecordBatch]]:
    reading = aiter(read_between(log.cluster, log.partition, log.topic_id, first, end, purpose=log.purpose))
    while True:
        try:
            batches, _ = await asyncio.wait_for(anext(reading), _TIMEOUT_S)
        except StopAsyncIteration:
            return
        yield batches
