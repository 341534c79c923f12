"""Reads one partition's log as it grows, and notices when it is another log than the one that was read so far."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, protocol_error
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, list_offsets
from mirror_ray.kafka.metadata import PartitionMetadata
from mirror_ray.kafka.partition_reader import fetch_at
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.records.batch import RecordBatch, iter_batches, verify
from mirror_ray.records.read_committed import CommittedOnly

_MAX_BYTES = 8 << 20
_PARAMETERS = fetch.FetchParameters(
    max_wait_ms=0, min_bytes=1, max_bytes=_MAX_BYTES, max_partition_bytes=_MAX_BYTES, read_committed=False, rack=""
)


T = TypeVar("T")


class LogChunk(NamedTuple, Generic[T]):
    """What one poll has read."""

    #: The topic is another one, or its log was cut: all that was read before is void, and is read again from the start.
    restarted: bool
    records: list[T]
    #: Whether all has been read that was committed when the poll began.
    complete: bool


class LogFollower(Generic[T]):
    """One Fetch with each ``poll``, outside any fetch session. One call at a time.

    Guarantees: a leader is believed only once it knows all that its predecessors have committed (KIP-207). A topic that
    was created anew, and a log that was cut and filled again, are noticed (KIP-595, from Kafka 2.7 on; before that only
    a log that ends before what was read).
    """

    def __init__(
        self,
        cluster: ClusterConnections,
        partition: TopicPartition,
        purpose: str,
        start: Callable[[], Awaitable[int | None]],
        decode: Callable[[RecordBatch, int], Iterable[T]],
        *,
        read_committed: bool = False,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            cluster: The partition's.
            partition: To read.
            purpose: Of the connection: other answers must not wait behind one that waits for records.
            start: The offset to read from; called at the beginning and after a restart. None: the log's start.
            decode: The records of a batch from an offset on; where it raises, the batch is read again.
            read_committed: Read up to the last stable offset, without aborted transactions; else up to the high
                watermark. Control batches are left out either way.
        """
        self.partition = partition
        self._cluster, self._purpose, self._start, self._decode = cluster, purpose, start, decode
        self._parameters = replace(_PARAMETERS, read_committed=read_committed)
        #: None: to be asked for.
        self._topic_id: TopicId | None = None
        self._last_id: TopicId | None = None
        #: With the leader epoch of the last batch that was read; None: to be found.
        self._position: fetch.FetchPosition | None = None
        #: The connection to a leader that was checked, and its leader epoch.
        self._trusted: tuple[Connection, int] | None = None

    @property
    def missing(self) -> bool:
        """Whether the last poll found that there is no such topic."""
        return self._topic_id is None

    def seek(self) -> None:
        """Read on from where ``start`` says now."""
        self._position = None

    async def poll(self, max_wait_ms: int = 0, patience_s: float | None = None) -> LogChunk[T]:
        """Read on; where there is nothing new the broker waits up to ``max_wait_ms`` for something to come.

        After ``patience_s`` without an answer the connection is given up.

        Raises:
            OSError, MirrorError: It can't be read now; call again.
        """
        try:
            return await self._poll(max_wait_ms, patience_s)
        except Exception:
            # The leader may be another one by now.
            self._topic_id = None
            raise

    async def offset_at(self, time_ms: int) -> int:
        """Offset of the first record since then, or at EARLIEST or LATEST; -1: no record is that late."""
        answer = (await self._cluster.list_offsets({self.partition: time_ms}, "read_uncommitted"))[self.partition]
        if answer.error_code:
            raise protocol_error(answer.error_code, f"find an offset of {self.partition}")
        return answer.offset

    async def _poll(self, max_wait_ms: int, patience_s: float | None) -> LogChunk[T]:
        restarted = await self._find()
        if restarted or self._topic_id is None:
            return LogChunk(restarted, [], complete=self.missing)
        if self._position is None:
            start = await self._start()
            self._position = fetch.FetchPosition(await self.offset_at(EARLIEST) if start is None else start)
        led = self._cluster.metadata.partition(self.partition)
        if led is None or led.leader < 0:
            raise ConnectionError(f"no leader is known for {self.partition}")
        connection = await self._cluster.connect(led.leader, self._purpose)
        position = self._position._replace(leader_epoch=led.leader_epoch)
        try:
            async with asyncio.timeout(patience_s):
                await self._trust(connection, led)
                wanted, parameters = {self.partition: position}, replace(self._parameters, max_wait_ms=max_wait_ms)
                ((_, fetched),) = await fetch_at(connection, {self.partition: self._topic_id}, wanted, parameters)
        except TimeoutError:
            connection.abort(f"no answer within {patience_s:g} s")
            raise
        return self._take(fetched, position)

    async def _find(self) -> bool:
        """Ask for the topic's metadata where it is not known; returns whether it is another topic than before."""
        name = self.partition.topic
        known = self._cluster.metadata.topics.get(name)
        is_same = known is not None and known.topic_id == self._topic_id
        if is_same and self._cluster.metadata.leader(self.partition) >= 0:
            return False
        found = (await self._cluster.refresh([name])).topics[name]
        if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            was_read, self._topic_id, self._position = self._position is not None, None, None
            return was_read
        if found.error_code:
            raise protocol_error(found.error_code, f"find topic {name}")
        recreated = self._last_id not in (None, found.topic_id)
        self._topic_id = self._last_id = found.topic_id
        if recreated:
            self._position = None
        return recreated

    async def _trust(self, connection: Connection, led: PartitionMetadata) -> None:
        """Check that a new leader knows what its predecessors have committed; a Fetch would not fail otherwise."""
        if self._trusted == (connection, led.leader_epoch):
            return
        answers = await list_offsets(connection, {self.partition: led}, {self.partition: LATEST}, "read_uncommitted")
        if code := answers[self.partition].error_code:
            raise protocol_error(code, f"find the end of {self.partition}")
        self._trusted = connection, led.leader_epoch

    def _take(self, fetched: fetch.FetchedPartition, position: fetch.FetchPosition) -> LogChunk[T]:
        if fetched.error_code == OFFSET_OUT_OF_RANGE or fetched.diverging_from >= 0:
            self._position = None
            return LogChunk(True, [], complete=False)
        if fetched.error_code:
            raise protocol_error(fetched.error_code, f"read {self.partition} from {position.offset}")
        if fetched.high_watermark < position.offset:
            what = f"{self.partition} was read to {position.offset}, and is committed to {fetched.high_watermark} only"
            raise MirrorError(f"{what}: did its cluster lose records?")
        records: list[T] = []
        selection = CommittedOnly(fetched.aborted)
        for batch in iter_batches(fetched.records) if len(fetched.records) else ():
            verify(batch)
            if selection.copies(batch):
                records += self._decode(batch, position.offset)
            # A run of old messages has no epoch.
            epoch = batch.partition_leader_epoch if batch.magic == 2 else -1
            position = fetch.FetchPosition(max(position.offset, batch.next_offset), epoch)
        self._position = position
        end = fetched.last_stable_offset if self._parameters.read_committed else fetched.high_watermark
        return LogChunk(False, records, complete=position.offset >= end)
