"""Reads the end of a flow's state topic without ceasing: what a replicator's leases are made of.

This needs no coordinator. Grants are read as soon as they are in the log: one that is never committed makes a holder
give up a partition for nothing, and one that is committed can't be missed because its marker is late.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable

from mirror_ray.coordination.state import GRANT_PREFIX, read_grant
from mirror_ray.copying.backoff import backoff_s
from mirror_ray.copying.lease import LeaseBook
from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import OFFSET_OUT_OF_RANGE, protocol_error
from mirror_ray.kafka.metadata import topic_id_bytes
from mirror_ray.kafka.offsets import EARLIEST
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.lease import LeaseTerms
from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition
from mirror_ray.records.batch import Batch, iter_batches, verify
from mirror_ray.records.decode import records_of

log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LAST_RETRY_S = 0.05, 0.5
#: How long nothing may be sent before the partitions' status tells why.
_UNNOTICED_S = 2.0
#: Session id 0 and epoch -1: a fetch outside any session (KIP-227).
_NO_SESSION = (0, -1)
_MAX_BYTES = 4 << 20
_GRANT_PREFIX = GRANT_PREFIX.encode()
#: A clock that runs while the machine is suspended and the process is stopped; on macOS the monotonic one does.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class StateReader:
    """Keeps the leases of one flow's partitions from the first ``assign`` until ``close``.

    ``on_outdated(partition, epoch)``: somebody else has the partition now; it is dropped already.
    ``on_lease(problem)``: why nothing may be sent, once that lasts; None: what could not be sent can be now.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        terms: LeaseTerms,
        *,
        on_outdated: Callable[[TopicPartition, int], None],
        on_lease: Callable[[str | None], None],
    ) -> None:
        self._cluster = cluster
        self._partition = TopicPartition(topic, 0)
        self._terms = terms
        self._on_outdated, self._on_lease = on_outdated, on_lease
        self._book = LeaseBook(terms)
        #: Where the log is read on, of the topic with this id; None: to be found.
        self._position: int | None = None
        self._topic_id: TopicId | None = None
        #: What the book wanted to be read when ``_position`` was chosen.
        self._read_from: int | None = None
        #: Since when reading has failed with no lease left.
        self._lapsed_s: float | None = None
        self._needed = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"leases by {topic}")

    def assign(self, assignment: Assignment) -> bool:
        """Watch over a partition; False when somebody else has had it since."""
        self._needed.set()
        return self._book.assign(assignment.partition.source, assignment.epoch, assignment.state_offset)

    def drop(self, partition: TopicPartition) -> None:
        """The partition is not copied here any more."""
        self._book.drop(partition)

    def holds(self, partition: TopicPartition) -> bool:
        """Whether records of the partition may be sent at this moment."""
        return self._book.holds(partition, _now_s())

    def lasts(self) -> bool:
        """Whether any may."""
        return self._book.lasts(_now_s())

    async def close(self) -> None:
        """End the reading."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        await self._needed.wait()
        attempts = 0
        while True:
            try:
                connection, version = await self._connect()
                while True:
                    await self._look(connection, version)
                    attempts = 0
            except Exception as error:
                attempts += 1
                unforeseen = not isinstance(error, OSError | MirrorError)
                log.info("%s: %s", self._partition.topic, error, exc_info=unforeseen)
                self._failed(str(error) or type(error).__name__)
                await asyncio.sleep(backoff_s(attempts, _FIRST_RETRY_S, _LAST_RETRY_S))

    async def _connect(self) -> tuple[Connection, int]:
        topic = (await self._cluster.refresh([self._partition.topic])).topics[self._partition.topic]
        if topic.error_code:
            raise protocol_error(topic.error_code, f"find topic {self._partition.topic}")
        if topic.topic_id != self._topic_id:
            self._topic_id, self._read_from = topic.topic_id, None
        leader = self._cluster.metadata.leader(self._partition)
        if leader < 0:
            raise ConnectionError(f"no leader is known for {self._partition}")
        connection = await self._cluster.connect(leader, "lease")
        return connection, connection.best_version(fetch.API_KEY, fetch.LOWEST_VERSION, fetch.HIGHEST_VERSION)

    async def _look(self, connection: Connection, version: int) -> None:
        """One fetch; the book learns what it showed, and when it began if it reached the end."""
        if self._read_from != self._book.read_from:
            self._read_from = self._book.read_from
            self._position = self._read_from if self._read_from != -1 else None
        if self._position is None:
            self._position = await self._log_start()
        began_s, position, read_from = _now_s(), self._position, self._read_from
        try:
            async with asyncio.timeout((self._terms.look_ms + self._terms.lease_ms) / 1000):
                fetched = await self._fetch(connection, version, position)
        except TimeoutError:
            connection.abort("no answer for longer than the lease")
            raise
        if fetched.error_code == OFFSET_OUT_OF_RANGE:
            self._position = None
            return
        if fetched.error_code:
            raise protocol_error(fetched.error_code, f"read {self._partition} from {position}")
        epochs: dict[TopicPartition, int] = {}
        for batch in iter_batches(fetched.records) if len(fetched.records) else ():
            verify(batch)
            epochs |= _epochs(batch)
            position = max(position, batch.next_offset)
        self._position = position
        for partition in self._book.shown(epochs):
            self._on_outdated(partition, epochs[partition])
        complete = position >= fetched.high_watermark and self._book.read_from == read_from
        if complete and self._book.looked(began_s, _now_s()):
            self._lapsed_s = None
            self._on_lease(None)

    async def _log_start(self) -> int:
        answers = await self._cluster.list_offsets({self._partition: EARLIEST}, "read_uncommitted")
        answer = answers[self._partition]
        if answer.error_code:
            raise protocol_error(answer.error_code, f"find the start of {self._partition}")
        return answer.offset

    async def _fetch(self, connection: Connection, version: int, position: int) -> fetch.FetchedPartition:
        by_id = version >= fetch.FIRST_TOPIC_ID_VERSION
        topic = topic_id_bytes(self._topic_id or NO_TOPIC_ID) if by_id else self._partition.topic.encode()
        parameters = fetch.FetchParameters(
            max_wait_ms=self._terms.look_ms,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            max_partition_bytes=_MAX_BYTES,
            read_committed=False,
            rack="",
        )
        wanted = {fetch.PartitionKey(topic, self._partition.partition): fetch.FetchPosition(position)}
        body = fetch.encode_fetch(version, parameters, _NO_SESSION, wanted, [])
        answer = await connection.send(fetch.API_KEY, version, version >= fetch.FIRST_FLEXIBLE_VERSION, [body])
        response = fetch.decode_fetch(version, answer)
        if response.error_code or not response.partitions:
            raise protocol_error(response.error_code, f"read {self._partition} from {position}")
        return response.partitions[0]

    def _failed(self, why: str) -> None:
        now_s = _now_s()
        if self._book.lasts(now_s):
            return
        self._lapsed_s = now_s if self._lapsed_s is None else self._lapsed_s
        if now_s - self._lapsed_s > _UNNOTICED_S:
            alias, topic = self._cluster.settings.alias, self._partition.topic
            self._on_lease(f"no lease, so nothing is sent: state topic {topic} on {alias} can't be read: {why}")


def _epochs(batch: Batch) -> dict[TopicPartition, int]:
    """The grants in a batch. Most batches are positions, by the thousand, and are not decoded at all."""
    if batch.is_control or (batch.codec == "none" and _GRANT_PREFIX not in bytes(batch.view)):
        return {}
    epochs: dict[TopicPartition, int] = {}
    for record in records_of(batch):
        key, value = record.key or b"", record.value
        if key.startswith(_GRANT_PREFIX) and value is not None:
            grant = read_grant(key.decode(), json.loads(value))
            if grant is not None:
                epochs[grant[0]] = max(grant[1].epoch, epochs.get(grant[0], 0))
    return epochs


def _now_s() -> float:
    return time.clock_gettime(_CLOCK)
