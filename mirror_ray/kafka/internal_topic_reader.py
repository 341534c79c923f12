"""Reads topics that mirror-ray, or MM2, keeps for itself: heartbeats, checkpoints, offset syncs, segments, state.

All of them have their records in partition 0, whatever their number of partitions, as MM2 reads and writes them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from typing import Final

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.blocking import run_blocking
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.leader_requests import LATEST
from mirror_ray.kafka.log_follower import LogChunk, LogFollower
from mirror_ray.kafka.retries import retry
from mirror_ray.model.errors import NoAnswerError, TopicMissingError
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, records_of

_RETRY_S: Final = 0.1
#: A topic that was created a moment ago may be unknown to the broker that we ask.
_PROPAGATION_S: Final = 10.0


class InternalTopicReader:
    """Reads partition 0 from its start, on with each call. One call at a time."""

    def __init__(
        self, cluster: ClusterConnections, topic: str, *, from_ms: int | None = None, read_committed: bool = False
    ) -> None:
        """Prepare; nothing is asked yet. Records that were written before ``from_ms`` are passed over.

        ``read_committed``: leave out records of open and aborted transactions.
        """
        self._cluster, self._from_ms = cluster, from_ms
        partition = TopicPartition(topic, 0)
        purpose = f"read {topic}"
        self._log = LogFollower(cluster, partition, purpose, self._start, _records, read_committed=read_committed)

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._log.partition.topic

    async def read(self, max_wait_ms: int = 0) -> LogChunk[DecodedRecord]:
        """Read on, waiting up to ``max_wait_ms`` for records to come. A topic that is missing is an empty one.

        Raises:
            OSError, MirrorError: It can't be read now; call again.
        """
        chunk = await self._log.poll(max_wait_ms)
        if self._log.missing:
            await asyncio.sleep(max_wait_ms / 1000)
        return chunk

    async def to_end(self, patience_s: float) -> AsyncIterator[LogChunk[DecodedRecord]]:
        """Yield what was not read yet, up to the end that the log has at this call or behind it.

        A cluster that does not answer is asked again for ``patience_s``, which begins anew with each answer.

        Raises:
            TopicMissingError: There is no such topic.
            ClusterUnreachableError: No answer for as long as patience lasts; what came before is good.
            KafkaProtocolError: READ is not granted, or the cluster can't serve the topic.
        """
        loop = asyncio.get_running_loop()
        missing_until_s = loop.time() + min(patience_s, _PROPAGATION_S)
        while True:
            chunk = await retry(self._cluster, f"read topic {self.topic}", self.read, patience_s)
            if chunk.restarted or not self._log.missing:
                yield chunk
            if self._log.missing:
                if loop.time() > missing_until_s:
                    raise TopicMissingError(
                        f"cluster {self._cluster.settings.alias} has no topic {self.topic}: check its name, and that "
                        f"our principal may DESCRIBE it"
                    )
                await asyncio.sleep(_RETRY_S)
            elif chunk.complete:
                return

    async def _start(self) -> int | None:
        if self._from_ms is None:
            return None
        offset = await self._log.offset_at(self._from_ms)
        return offset if offset >= 0 else await self._log.offset_at(LATEST)


def latest_records(
    settings: ClusterSettings, topic: str, *, patience_s: float, time_limit_s: float = math.inf
) -> dict[bytes, DecodedRecord]:
    """The last committed record of every key, as compaction would leave them: no tombstones, none without a key.

    Blocking, over connections of its own; for code without an event loop. The topic is read from its start to the end
    that it has now, within ``time_limit_s``; the cluster may leave a request without an answer for ``patience_s``.

    Raises:
        TopicMissingError: There is no such topic.
        ClusterUnreachableError: The cluster did not answer in time.
        NoAnswerError: The time limit was over before the end.
        KafkaProtocolError: READ is not granted, or the cluster can't serve the topic.
    """
    return run_blocking(_latest_records(settings, topic, patience_s, time_limit_s))


async def _latest_records(
    settings: ClusterSettings, topic: str, patience_s: float, time_limit_s: float
) -> dict[bytes, DecodedRecord]:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + time_limit_s
    cluster = ClusterConnections(settings, f"mirror-ray-read-{topic}")
    latest: dict[bytes, DecodedRecord] = {}
    try:
        async for chunk in InternalTopicReader(cluster, topic, read_committed=True).to_end(patience_s):
            if chunk.records and loop.time() > deadline_s:
                raise NoAnswerError(
                    f"cluster {settings.alias}: the time was over when topic {topic} was read up to offset "
                    f"{chunk.records[0].offset}: allow a longer timeout"
                )
            if chunk.restarted:
                latest.clear()
            keep_latest(latest, chunk.records)
        return latest
    finally:
        await cluster.close()


def keep_latest(latest: dict[bytes, DecodedRecord], records: Iterable[DecodedRecord]) -> None:
    """Bring ``latest``, the last record of every key, up to date with records that follow."""
    for record in records:
        key, value, _ = record.fields()
        if key is None:
            continue
        if value is None:
            latest.pop(key, None)
        else:
            latest[key] = record


def _records(batch: RecordBatch, first_offset: int) -> Iterable[DecodedRecord]:
    return [record for record in records_of(batch) if record.offset >= first_offset]
