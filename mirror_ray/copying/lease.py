"""A replicator's right to write: the epochs that the flow's state topic has shown, and until when that holds. Pure.

The coordinator writes the epoch of every assignment into the state topic before it hands it out. So a read of that
topic which began at some moment and showed no higher epoch proves that until then nobody else had the partition; a
coordinator that gives it to somebody else without having seen the former holder dead waits until all that this read
allows has arrived (``LeaseTerms``).
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror_ray.model.lease import LeaseTerms
from mirror_ray.model.names import TopicPartition

_NEVER = float("-inf")


class LeaseBook:
    """The leases of one flow's partitions in one replicator. Times are seconds of a clock that runs through suspension.

    Guarantees: ``holds`` is true only for a partition whose epoch is the highest that any read has shown, of the state
    topic from ``state_offset`` of its assignment on, and only until ``sending_s`` after the begin of the last whole
    read.
    """

    def __init__(self, terms: LeaseTerms) -> None:
        self._terms = terms
        self._until_s = _NEVER
        #: Everything from here on has been or will be read; None before the first assignment.
        self._read_from: int | None = None
        self._held: dict[TopicPartition, int] = {}
        self._seen: dict[TopicPartition, int] = {}
        #: Held partitions that no whole read has covered yet.
        self._uncovered: set[TopicPartition] = set()

    @property
    def read_from(self) -> int | None:
        """Offset of the state topic that reading must begin at; it goes back when an assignment needs an earlier one.

        None: nothing has been assigned, nothing needs to be read. -1: the log's start.
        """
        return self._read_from

    def assign(self, partition: TopicPartition, epoch: int, state_offset: int) -> bool:
        """Note an assignment; False when a higher epoch has been seen already: somebody else has it.

        When this moves ``read_from``, a read in progress must be given up and begun anew from there.
        """
        if epoch < self._seen.get(partition, 0):
            return False
        self._held[partition] = epoch
        if self._read_from is None or state_offset < self._read_from:
            self._read_from = state_offset
            self._uncovered.add(partition)
        return True

    def drop(self, partition: TopicPartition) -> None:
        """The partition is not held any more."""
        self._held.pop(partition, None)
        self._uncovered.discard(partition)

    def shown(self, epochs: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """A read has shown these epochs: the partitions that somebody else has now. They are dropped."""
        lost = []
        for partition, epoch in epochs.items():
            self._seen[partition] = max(epoch, self._seen.get(partition, 0))
            if epoch > self._held.get(partition, epoch):
                lost.append(partition)
                self.drop(partition)
        return lost

    def looked(self, began_s: float, now_s: float) -> bool:
        """A read that began then has reached the topic's end, and all that it showed has been noted.

        Returns:
            Whether something may be sent now that could not be before.
        """
        fresh = bool(self._uncovered) or not self.lasts(now_s)
        self._until_s = max(self._until_s, began_s + self._terms.sending_s)
        self._uncovered.clear()
        return fresh and self.lasts(now_s)

    def lasts(self, now_s: float) -> bool:
        """Whether anything may be sent at all."""
        return now_s < self._until_s

    def holds(self, partition: TopicPartition, now_s: float) -> bool:
        """Whether records of the partition may be sent now."""
        return now_s < self._until_s and partition in self._held and partition not in self._uncovered
