"""Reads the end of a flow's state topic all the time: a replicator's leases depend on it.

No coordinator is needed. Grants are read as soon as they are in the log: one that is never committed makes a holder
give up a partition without need, and one that is committed is not missed because its marker is late.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION, protocol_error
from mirror_ray.kafka.log_follower import LogFollower
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import records_of
from mirror_ray.replication.backoff import Backoff
from mirror_ray.replication.leases import GivenUpLease, LeaseTable, Tenure
from mirror_ray.replication.supervision import supervise
from mirror_ray.state.schema import GRANT_PREFIX, read_grant

log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LAST_RETRY_S = 0.05, 0.5
#: How long nothing may be sent before the partitions' status tells why.
_UNNOTICED_S = 2.0
_GRANT_PREFIX = GRANT_PREFIX.encode()
#: A clock that runs while the machine is suspended and the process is stopped; on macOS the monotonic one does.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class StateReader:
    """Keeps the leases of one flow's partitions from the first ``assign`` until ``close``.

    ``on_outdated(partition, why)``: somebody else has the partition now, or may have; it is dropped already.
    ``on_lease(problem)``: why nothing may be sent, once that lasts; None: what could not be sent can be now.
    """

    def __init__(
        self,
        cluster: ClusterConnections,
        topic: str,
        terms: LeaseTerms,
        *,
        on_outdated: Callable[[TopicPartition, str], None],
        on_lease: Callable[[str | None], None],
    ) -> None:
        self._cluster = cluster
        self._terms = terms
        self._on_outdated, self._on_lease = on_outdated, on_lease
        self._leases = LeaseTable(terms)
        self._backoff = Backoff(_FIRST_RETRY_S, _LAST_RETRY_S)
        self._log = LogFollower(cluster, TopicPartition(topic, 0), "lease", self._start, _grants)
        #: ``LeaseTable.read_from`` when the offset to read at was chosen.
        self._read_from: int | None = None
        #: Since when reading has failed with no lease left.
        self._lapsed_s: float | None = None
        self._needed = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"leases by {topic}")

    def assign(self, assignment: Assignment) -> bool:
        """Watch over a partition; False when somebody else has had it since."""
        self._needed.set()
        tenure = Tenure(assignment.epoch, assignment.owner)
        return self._leases.assign(assignment.partition.source, tenure, assignment.state_offset, _now_s())

    def drop(self, partition: TopicPartition) -> None:
        """The partition is not copied here any more."""
        self._leases.drop(partition)

    def holds(self, partition: TopicPartition) -> bool:
        """Whether records of the partition may be sent at this moment."""
        return self._leases.holds(partition, _now_s())

    def lasts(self) -> bool:
        """Whether any may."""
        return self._leases.lasts(_now_s())

    async def close(self) -> None:
        """End the reading."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        await self._needed.wait()
        await supervise(self._read, self._log.partition.topic, self._backoff, self._failed)

    async def _read(self) -> None:
        """Fetch once; the lease table gets what was read, and when the fetch began if it reached the end."""
        if self._read_from != self._leases.read_from:
            self._read_from = self._leases.read_from
            self._log.seek()
        began_s, read_from = _now_s(), self._read_from
        chunk = await self._log.poll(self._terms.look_ms, (self._terms.look_ms + self._terms.lease_ms) / 1000)
        if chunk.restarted:
            log.warning("topic %s was created anew, or has lost its end: read again", self._log.partition.topic)
            self._leases.begin_anew(_now_s())
        if self._log.missing:
            raise protocol_error(UNKNOWN_TOPIC_OR_PARTITION, f"find topic {self._log.partition.topic}")
        self._give_up(self._leases.shown(chunk.records))
        if chunk.complete and self._leases.read_from == read_from:
            renewed = self._leases.looked(began_s, _now_s())
            self._give_up(self._leases.ungranted(began_s))
            if renewed:
                self._lapsed_s = None
                self._on_lease(None)
        self._backoff.succeeded()

    def _give_up(self, given_up: Iterable[GivenUpLease]) -> None:
        for partition, why in given_up:
            self._on_outdated(partition, why)

    async def _start(self) -> int | None:
        return self._read_from if self._read_from != -1 else None

    def _failed(self, error: Exception) -> None:
        now_s = _now_s()
        if self._leases.lasts(now_s):
            return
        self._lapsed_s = now_s if self._lapsed_s is None else self._lapsed_s
        if now_s - self._lapsed_s > _UNNOTICED_S:
            alias, topic = self._cluster.settings.alias, self._log.partition.topic
            why = str(error) or type(error).__name__
            self._on_lease(f"no lease, so nothing is sent: state topic {topic} on {alias} can't be read: {why}")


def _grants(batch: RecordBatch, _: int) -> Iterable[tuple[TopicPartition, Tenure]]:
    """The grants in a batch. Most batches are positions, by the thousand, and are not decoded at all."""
    if batch.codec == "none" and _GRANT_PREFIX not in bytes(batch.view):
        return
    for record in records_of(batch):
        key, value = record.key or b"", record.value
        if key.startswith(_GRANT_PREFIX) and value is not None:
            grant = read_grant(key.decode(), json.loads(value))
            if grant is not None:
                yield grant[0], Tenure(grant[1].epoch, grant[1].owner)


def _now_s() -> float:
    return time.clock_gettime(_CLOCK)
