"""Batches of one partition on their way to the target. Pure."""

from __future__ import annotations

from collections import deque

from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.replication.outgoing_batch import BufferBudget, OutgoingBatch

_RELEASED = memoryview(b"")
#: What a batch takes in memory besides its bytes, about: for small ones that is as much again.
_OBJECTS_BYTES = 1024


class Pipeline:
    """Batches wait in ``ready``, then in ``in_flight``, then, where the leader alone has them, in ``uncommitted``.

    Guarantees: all that it holds is on the account of ``budget``, and nothing once it is empty.
    """

    __slots__ = ("_boundaries", "_remembered", "budget", "in_flight", "ready", "size_bytes", "uncommitted")

    def __init__(self, budget: BufferBudget) -> None:
        self.budget = budget
        self.ready: deque[OutgoingBatch] = deque()
        self.in_flight: deque[OutgoingBatch] = deque()
        #: Appended by the leader; the next acknowledgement by all in-sync replicas covers them.
        self.uncommitted: deque[OutgoingBatch] = deque()
        self.size_bytes = 0
        self._boundaries: dict[int, tuple[int, int]] = {}
        self._remembered: dict[int, OutgoingBatch] = {}

    @property
    def newest(self) -> OutgoingBatch | None:
        """The last batch on its way."""
        queue = self.ready or self.in_flight or self.uncommitted
        return queue[-1] if queue else None

    @property
    def settled(self) -> bool:
        """Whether all that was put in is committed or given up."""
        return not (self.ready or self.in_flight or self.uncommitted)

    def add(self, outgoing: OutgoingBatch) -> None:
        """Put a batch at the end."""
        self.ready.append(outgoing)
        held_bytes = outgoing.size_bytes + _OBJECTS_BYTES
        self.size_bytes += held_bytes
        self.budget.used_bytes += held_bytes

    def take(self) -> OutgoingBatch:
        """The next batch to send."""
        outgoing = self.ready.popleft()
        self.in_flight.append(outgoing)
        return outgoing

    def answered(self) -> OutgoingBatch:
        """The oldest batch in flight is there no more; its bytes are let go."""
        outgoing = self.in_flight.popleft()
        self._release(outgoing)
        return outgoing

    def appended(self, outgoing: OutgoingBatch) -> None:
        """The leader has it."""
        self.uncommitted.append(outgoing)

    def committed(self) -> list[OutgoingBatch]:
        """Everything that the leader has is committed; returns it, oldest first."""
        done = list(self.uncommitted)
        self.uncommitted.clear()
        return done

    def lose(self) -> None:
        """No answer will come for what is in flight."""
        while self.in_flight:
            self.answered()

    def drop(self) -> None:
        """Give up all that no answer is awaited for."""
        while self.ready:
            self._release(self.ready.popleft())
        self.uncommitted.clear()

    def remember(self) -> None:
        """Keep batches on their way, and which source position belongs to each sequence that they may bring about."""
        for outgoing in (*self.uncommitted, *self.in_flight):
            self._boundaries[outgoing.next_sequence] = (outgoing.source_next, outgoing.source_epoch)
            self._remembered[outgoing.sequence] = outgoing

    @property
    def unanswered(self) -> bool:
        """Whether what became of something that was sent is not known."""
        return bool(self._boundaries)

    def boundary(self, sequence: int) -> tuple[int, int] | None:
        """Source position and leader epoch that belong to the target's next sequence, where that is remembered."""
        return self._boundaries.get(sequence)

    def remembered(self, first: int, after: int) -> list[OutgoingBatch]:
        """Batches that hold the sequences from ``first`` to before ``after``; none where one of them is missing."""
        records = (after - first) % SEQUENCE_MODULUS
        found = [each for each in self._remembered.values() if (each.sequence - first) % SEQUENCE_MODULUS < records]
        return found if sum(each.count for each in found) == records else []

    def forget(self) -> None:
        """What was remembered has been used."""
        self._boundaries.clear()
        self._remembered.clear()

    def _release(self, outgoing: OutgoingBatch) -> None:
        outgoing.view = _RELEASED
        held_bytes = outgoing.size_bytes + _OBJECTS_BYTES
        self.size_bytes -= held_bytes
        self.budget.used_bytes -= held_bytes
