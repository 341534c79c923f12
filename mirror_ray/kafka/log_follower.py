"""Reads one partition's log on and on, and notices when it is not the log any more that was read so far."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

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

_MAX_BYTES = 8 << 20
_PARAMETERS = fetch.FetchParameters(
    max_wait_ms=0, min_bytes=1, max_bytes=_MAX_BYTES, max_partition_bytes=_MAX_BYTES, read_committed=False, rack=""
)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogPiece(Generic[T]):
    """What one look has found."""

    #: The log is another one, or was cut: all that was found before is void, and ``start`` says where it is read from.
    anew: bool
    found: list[T]
    #: Whether all has been read that was committed when the look began.
    complete: bool
    #: There is no such topic.
    missing: bool = False


class LogFollower(Generic[T]):
    """One Fetch with each ``look``, outside any fetch session. One call at a time.

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
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            cluster: Where it is.
            partition: What to read.
            purpose: Of a connection of its own: others' answers must not wait behind one that waits for records.
            start: Says from which offset to read, whenever that is to be found; None: from the log's start.
            decode: Says what a batch holds from an offset on; where it raises, the batch is read again.
        """
        self.partition = partition
        self._cluster, self._purpose, self._start, self._decode = cluster, purpose, start, decode
        #: None: to be looked up.
        self._topic_id: TopicId | None = None
        self._last_id: TopicId | None = None
        #: With the leader epoch of the last batch that was read; None: to be found.
        self._position: fetch.FetchPosition | None = None
        #: The connection to the leader that knows what is committed, and its leader epoch.
        self._trusted: tuple[Connection, int] | None = None

    def seek(self) -> None:
        """Read from where ``start`` says."""
        self._position = None

    async def look(self, max_wait_ms: int = 0, patience_s: float | None = None) -> LogPiece[T]:
        """Read on, waiting up to ``max_wait_ms`` for something to come.

        Args:
            max_wait_ms: How long the broker waits where there is nothing new.
            patience_s: After how long without an answer the connection is given up.

        Raises:
            OSError, MirrorError: It can't be read now; call again.
        """
        try:
            return await self._look(max_wait_ms, patience_s)
        except Exception:
            # Whatever it is: the leader may be another one by now.
            self._topic_id = None
            raise

    async def offset_at(self, time_ms: int) -> int:
        """Offset of the first record since then, or at EARLIEST or LATEST; -1: no record is that late."""
        answer = (await self._cluster.list_offsets({self.partition: time_ms}, "read_uncommitted"))[self.partition]
        if answer.error_code:
            raise protocol_error(answer.error_code, f"find an offset of {self.partition}")
        return answer.offset

    async def _look(self, max_wait_ms: int, patience_s: float | None) -> LogPiece[T]:
        anew = await self._find()
        if anew or self._topic_id is None:
            missing = self._topic_id is None
            return LogPiece(anew, [], complete=missing, missing=missing)
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
                wanted, parameters = {self.partition: position}, replace(_PARAMETERS, max_wait_ms=max_wait_ms)
                ((_, fetched),) = await fetch_at(connection, {self.partition: self._topic_id}, wanted, parameters)
        except TimeoutError:
            connection.abort(f"no answer within {patience_s:g} s")
            raise
        return self._take(fetched, position)

    async def _find(self) -> bool:
        """Look the topic up where it is not known; whether it is another one than before."""
        name = self.partition.topic
        known = self._cluster.metadata.topics.get(name)
        is_it = known is not None and known.topic_id == self._topic_id
        if is_it and self._cluster.metadata.leader(self.partition) >= 0:
            return False
        found = (await self._cluster.refresh([name])).topics[name]
        if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            gone, self._topic_id, self._position = self._position is not None, None, None
            return gone
        if found.error_code:
            raise protocol_error(found.error_code, f"find topic {name}")
        anew = self._last_id not in (None, found.topic_id)
        self._topic_id = self._last_id = found.topic_id
        if anew:
            self._position = None
        return anew

    async def _trust(self, connection: Connection, led: PartitionMetadata) -> None:
        """A new leader may not know yet what its predecessors have committed: it says so here, and not to a Fetch."""
        if self._trusted == (connection, led.leader_epoch):
            return
        answers = await list_offsets(connection, {self.partition: led}, {self.partition: LATEST}, "read_uncommitted")
        if code := answers[self.partition].error_code:
            raise protocol_error(code, f"find the end of {self.partition}")
        self._trusted = connection, led.leader_epoch

    def _take(self, fetched: fetch.FetchedPartition, position: fetch.FetchPosition) -> LogPiece[T]:
        if fetched.error_code == OFFSET_OUT_OF_RANGE or fetched.diverging_from >= 0:
            self._position = None
            return LogPiece(True, [], complete=False)
        if fetched.error_code:
            raise protocol_error(fetched.error_code, f"read {self.partition} from {position.offset}")
        if fetched.high_watermark < position.offset:
            what = f"{self.partition} was read to {position.offset}, and is committed to {fetched.high_watermark} only"
            raise MirrorError(f"{what}: did its cluster lose records?")
        found: list[T] = []
        for batch in iter_batches(fetched.records) if len(fetched.records) else ():
            verify(batch)
            found += self._decode(batch, position.offset)
            # A run of old messages has no epoch.
            epoch = batch.partition_leader_epoch if batch.magic == 2 else -1
            position = fetch.FetchPosition(max(position.offset, batch.next_offset), epoch)
        self._position = position
        return LogPiece(False, found, complete=position.offset >= fetched.high_watermark)
