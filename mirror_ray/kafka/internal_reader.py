"""Follows a topic that mirror-ray, or MM2, keeps for itself: one partition, compacted, read from its start.

On an event loop, over connections that are there anyhow; blocking code has ``internal_topics``.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.errors import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, error_info, protocol_error
from mirror_ray.kafka.offsets import EARLIEST, LATEST
from mirror_ray.kafka.reading import fetch_at
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.records.batch import iter_batches, verify
from mirror_ray.records.decode import Record, records_of

_MAX_BYTES = 8 << 20


class Piece(NamedTuple):
    """What was read at once."""

    #: The topic is another one, or lost its end: all that was read before is void.
    anew: bool
    records: list[Record]
    #: Whether this is all that there was at the time.
    complete: bool


class InternalReader:
    """Reads on with each call. Control batches are passed over; transactions are not looked at."""

    def __init__(self, cluster: Cluster, topic: str, *, from_ms: int | None = None) -> None:
        """``from_ms``: records written before that are passed over."""
        self._cluster = cluster
        self._from_ms = from_ms
        self._partition = TopicPartition(topic, 0)
        # A connection of its own: answers to others must not wait behind one that waits for something to come.
        self._purpose = f"read {topic}"
        #: None: to be looked up.
        self._topic_id: TopicId | None = None
        self._last_id: TopicId | None = None
        self._position: int | None = None

    @property
    def topic(self) -> str:
        """Its topic."""
        return self._partition.topic

    async def read(self, max_wait_ms: int = 0) -> Piece:
        """Read on, waiting up to ``max_wait_ms`` for something to come. A topic that is missing is an empty one.

        Raises:
            OSError, MirrorError: It can't be read now; call again.
        """
        anew = await self._find()
        if self._topic_id is None:
            await asyncio.sleep(max_wait_ms / 1000)
            return Piece(anew, [], complete=True)
        if self._position is None:
            self._position = await self._start()
        connection = await self._cluster.connect(self._cluster.metadata.leader(self._partition), self._purpose)
        parameters = fetch.FetchParameters(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            max_partition_bytes=_MAX_BYTES,
            read_committed=False,
            rack="",
        )
        wanted = {self._partition: self._position}
        ((_, fetched),) = await fetch_at(connection, {self._partition: self._topic_id}, wanted, parameters)
        if fetched.error_code == OFFSET_OUT_OF_RANGE:
            self._position = None
            return Piece(True, [], complete=False)
        if fetched.error_code:
            # The metadata may be old.
            self._topic_id = None if error_info(fetched.error_code).invalid_metadata else self._topic_id
            raise protocol_error(fetched.error_code, f"read {self._partition} from {self._position}")
        records: list[Record] = []
        for batch in iter_batches(fetched.records) if len(fetched.records) else ():
            verify(batch)
            if not batch.is_control:
                records += [record for record in records_of(batch) if record.offset >= self._position]
            self._position = max(self._position, batch.next_offset)
        return Piece(anew, records, complete=self._position >= fetched.high_watermark)

    async def _find(self) -> bool:
        """Look the topic up where it is not known; whether it is another one than before."""
        if self._topic_id is not None and self._cluster.metadata.leader(self._partition) >= 0:
            return False
        found = (await self._cluster.refresh([self._partition.topic])).topics[self._partition.topic]
        if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            gone, self._topic_id, self._position = self._position is not None, None, None
            return gone
        if found.error_code:
            raise protocol_error(found.error_code, f"find topic {self._partition.topic}")
        anew = self._last_id not in (None, found.topic_id)
        self._topic_id = self._last_id = found.topic_id
        if anew:
            self._position = None
        return anew

    async def _start(self) -> int:
        if self._from_ms is not None and (offset := await self._offset_at(self._from_ms)) >= 0:
            return offset
        return await self._offset_at(EARLIEST if self._from_ms is None else LATEST)

    async def _offset_at(self, time_ms: int) -> int:
        answers = await self._cluster.list_offsets({self._partition: time_ms}, "read_uncommitted")
        answer = answers[self._partition]
        if answer.error_code:
            raise protocol_error(answer.error_code, f"find the start of {self._partition}")
        return answer.offset
