"""Follows a topic that mirror-ray, or MM2, keeps for itself: one partition, compacted, read from its start.

On an event loop, over connections that are there anyhow; blocking code has ``internal_topics``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.leader_requests import LATEST
from mirror_ray.kafka.log_follower import LogFollower
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, records_of


class TopicChunk(NamedTuple):
    """What was read at once."""

    #: The topic is another one, or lost its end: all that was read before is void.
    anew: bool
    records: list[DecodedRecord]
    #: Whether this is all that there was at the time.
    complete: bool


class InternalTopicReader:
    """Reads on with each call. Control batches are passed over; transactions are not looked at."""

    def __init__(self, cluster: ClusterConnections, topic: str, *, from_ms: int | None = None) -> None:
        """``from_ms``: records written before that are passed over."""
        self._from_ms = from_ms
        self._log = LogFollower(cluster, TopicPartition(topic, 0), f"read {topic}", self._start, _records)

    @property
    def topic(self) -> str:
        """Its topic."""
        return self._log.partition.topic

    async def read(self, max_wait_ms: int = 0) -> TopicChunk:
        """Read on, waiting up to ``max_wait_ms`` for something to come. A topic that is missing is an empty one.

        Raises:
            OSError, MirrorError: It can't be read now; call again.
        """
        piece = await self._log.look(max_wait_ms)
        if piece.missing:
            await asyncio.sleep(max_wait_ms / 1000)
        return TopicChunk(piece.anew, piece.found, piece.complete)

    async def _start(self) -> int | None:
        if self._from_ms is None:
            return None
        offset = await self._log.offset_at(self._from_ms)
        return offset if offset >= 0 else await self._log.offset_at(LATEST)


def _records(batch: RecordBatch, first_offset: int) -> Iterable[DecodedRecord]:
    return [] if batch.is_control else [record for record in records_of(batch) if record.offset >= first_offset]
