"""Writes markers to the leaders of many partitions at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.transaction_markers import Markers, write_markers
from mirror_ray.replication.partition import PartitionReplication

_PURPOSE: Final = "markers"


class MarkerWriter:
    """Each request is sent once: after an error the log ends say what was appended."""

    def __init__(self, target: ClusterConnections) -> None:
        self._target = target
        #: Whose markers they are; no record is ever written by it.
        self._producer = (-1, -1)
        #: What is not answered yet.
        self._sent: dict[Connection, Mapping[PartitionReplication, int]] = {}

    def forget(self, copy: PartitionReplication) -> None:
        """Somebody else may get the partition: no broker is to handle later what waits in its socket."""
        for connection, counts in self._sent.items():
            if copy in counts:
                connection.abort(f"{copy.assignment.partition} was released with markers on their way")

    async def write(self, counts: Mapping[PartitionReplication, int]) -> dict[PartitionReplication, str]:
        """Append so many markers to each partition's log on the target.

        Returns:
            Kafka's errors of those that have one; the others have their markers on all in-sync replicas.

        Raises:
            OSError, MirrorError: It is not known which have them; nothing is on its way any more.
        """
        if self._producer[0] < 0:
            self._producer = await self._target.init_producer_id()
        by_leader: dict[int, dict[PartitionReplication, int]] = {}
        for copy, count in counts.items():
            by_leader.setdefault(self._target.metadata.leader(copy.assignment.target), {})[copy] = count
        errors: dict[PartitionReplication, str] = {}
        answers = await asyncio.gather(
            *(self._write_to(leader, led) for leader, led in by_leader.items()), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            errors |= answer
        return errors

    async def _write_to(
        self, leader: int, counts: Mapping[PartitionReplication, int]
    ) -> dict[PartitionReplication, str]:
        connection = await self._target.connect(leader, _PURPOSE)
        copies = {copy.assignment.target: copy for copy in counts}
        markers = {partition: Markers(counts[copy], copy.assignment.epoch) for partition, copy in copies.items()}
        self._sent[connection] = counts
        try:
            errors = await write_markers(connection, self._producer, markers)
        except BaseException:
            # What waits in the broker's socket must not be handled once the log ends were read.
            connection.abort("markers were not answered")
            raise
        finally:
            del self._sent[connection]
        return {copies[partition]: error for partition, error in errors.items()}
