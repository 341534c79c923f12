"""Batches of one partition on their way to the target, and the memory that they take."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.model.schema_id_counts import NO_SCHEMA_IDS, SchemaIdCounts
from mirror_ray.replication.offset_gaps import OffsetGap
from mirror_ray.replication.outgoing_batch import OutgoingBatch

#: About what a batch takes in memory besides its bytes: for small ones that is as much again.
_OBJECTS_BYTES = 1024


@dataclass(slots=True)
class BufferBudget:
    """Bytes fetched and not yet taken by the target, over all partitions of a flow in one replicator."""

    limit_bytes: int
    used_bytes: int = 0
    #: For answers under way that may be larger than usual.
    reserved_bytes: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether nothing more should be fetched for now."""
        return self.used_bytes >= self.limit_bytes

    @property
    def free_bytes(self) -> int:
        """What is neither used nor reserved; negative where answers brought more than there was room for."""
        return self.limit_bytes - self.used_bytes - self.reserved_bytes


@dataclass(slots=True)
class CopyProgress:
    """What this replicator has copied of a partition since the assignment."""

    records: int = 0
    bytes: int = 0
    last_timestamp_ms: int = -1
    schema_ids: SchemaIdCounts = NO_SCHEMA_IDS

    def add(self, batch: OutgoingBatch) -> None:
        """Count a committed batch."""
        self.records += batch.count
        self.bytes += batch.size_bytes
        self.last_timestamp_ms = max(self.last_timestamp_ms, batch.max_timestamp)
        if batch.schema_ids is not NO_SCHEMA_IDS:
            self.schema_ids += batch.schema_ids


class Pipeline:
    """Batches are ``ready``, then ``in_flight``, then, while the leader alone has them, ``uncommitted``.

    Guarantees: ``budget`` counts all that it holds, and nothing once it is empty.
    """

    __slots__ = (
        *("_boundaries", "_remembered", "budget", "deep", "filling", "in_flight", "ready", "size_bytes", "uncommitted"),
    )

    def __init__(self, budget: BufferBudget) -> None:
        self.budget = budget
        self.ready: deque[OutgoingBatch] = deque()
        self.in_flight: deque[OutgoingBatch] = deque()
        #: Appended by the leader; the next answer from all in-sync replicas covers them.
        self.uncommitted: deque[OutgoingBatch] = deque()
        self.size_bytes = 0
        #: Whether more than one batch may be in flight: only while the connection's broker is known to hold our
        #: producer, for nothing else keeps it from appending a batch behind one that failed.
        self.deep = False
        #: The gap that is being filled on the target, behind all that was sent.
        self.filling: OffsetGap | None = None
        self._boundaries: dict[int, tuple[int, int]] = {}
        self._remembered: dict[int, OutgoingBatch] = {}

    @property
    def newest(self) -> OutgoingBatch | None:
        """The last batch on its way."""
        queue = self.ready or self.in_flight or self.uncommitted
        return queue[-1] if queue else None

    @property
    def settled(self) -> bool:
        """Whether all that was put in is committed or given up, and no gap is being filled."""
        return not (self.ready or self.in_flight or self.uncommitted or self.filling)

    @property
    def sendable(self) -> bool:
        """Whether the next batch may go out now."""
        return bool(self.ready) and not self.ready[0].behind_gap and (self.deep or not self.in_flight)

    @property
    def answered_all(self) -> bool:
        """Whether all that was sent is committed or given up."""
        return not (self.in_flight or self.uncommitted or self.filling)

    def add(self, batch: OutgoingBatch) -> None:
        """Put a batch at the end."""
        self.ready.append(batch)
        held_bytes = batch.size_bytes + _OBJECTS_BYTES
        self.size_bytes += held_bytes
        self.budget.used_bytes += held_bytes

    def take(self) -> OutgoingBatch:
        """Move the next batch to those in flight, and return it."""
        batch = self.ready.popleft()
        self.in_flight.append(batch)
        return batch

    def answered(self) -> OutgoingBatch:
        """Take the oldest batch in flight out, without its bytes."""
        batch = self.in_flight.popleft()
        self._release(batch)
        return batch

    def appended(self, batch: OutgoingBatch) -> None:
        """Note that the leader has it."""
        self.uncommitted.append(batch)

    def committed(self) -> list[OutgoingBatch]:
        """Take out everything that the leader has, since it is committed; oldest first."""
        done = list(self.uncommitted)
        self.uncommitted.clear()
        return done

    def lose(self) -> None:
        """Give up what is in flight: no answer will come."""
        while self.in_flight:
            self.answered()

    def drop(self) -> None:
        """Give up all that no answer is awaited for."""
        while self.ready:
            self._release(self.ready.popleft())
        self.uncommitted.clear()

    def remember(self) -> None:
        """Keep the batches on their way, and which source position belongs to each sequence that they lead to."""
        for batch in (*self.uncommitted, *self.in_flight):
            self._boundaries[batch.next_sequence] = (batch.source_next, batch.source_epoch)
            self._remembered[batch.sequence] = batch

    @property
    def unanswered(self) -> bool:
        """Whether it is not known what became of something that was sent."""
        return bool(self._boundaries)

    def boundary(self, sequence: int) -> tuple[int, int] | None:
        """Source position and leader epoch that belong to the target's next sequence, where that is remembered."""
        return self._boundaries.get(sequence)

    def remembered(self, first: int, after: int) -> list[OutgoingBatch]:
        """Batches that hold the sequences from ``first`` to before ``after``; none where one of them is missing."""
        records = (after - first) % SEQUENCE_MODULUS
        found = [batch for batch in self._remembered.values() if (batch.sequence - first) % SEQUENCE_MODULUS < records]
        return found if sum(batch.count for batch in found) == records else []

    def forget(self) -> None:
        """Forget what was remembered: the target's log end was compared with it."""
        self._boundaries.clear()
        self._remembered.clear()

    def _release(self, batch: OutgoingBatch) -> None:
        batch.release()
        held_bytes = batch.size_bytes + _OBJECTS_BYTES
        self.size_bytes -= held_bytes
        self.budget.used_bytes -= held_bytes
