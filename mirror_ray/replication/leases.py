"""A replicator's right to write: the grants that the flow's state topic has shown, and until when they hold.

The coordinator writes the epoch of every assignment into the state topic before it hands it out. So a read of that
topic which began at some moment and showed no higher epoch proves that until then nobody else had the partition; a
coordinator that gives it to somebody else without having seen the former holder dead waits until all that this read
allows has arrived (``LeaseTerms``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import TopicPartition

_NEVER = float("-inf")


class Tenure(NamedTuple):
    """Who may write a partition: an epoch, and the coordinator that raised it to that (empty: unknown)."""

    epoch: int
    owner: str | None = ""


class GivenUpLease(NamedTuple):
    """A partition that is not held any more, and why."""

    partition: TopicPartition
    why: str


class LeaseTable:
    """The leases of one flow's partitions in one replicator. Times are seconds of a clock that runs through suspension.

    Guarantees: ``holds`` is true only for a partition whose own grant is the newest that any read has shown, of the
    state topic from ``state_offset`` of its assignment on, and only until ``sending_s`` after the begin of the last
    whole read. Of two coordinators that raised an epoch to the same number, neither's grant is good.
    """

    def __init__(self, terms: LeaseTerms) -> None:
        self._terms = terms
        self._until_s = _NEVER
        #: Everything from here on has been or will be read; None before the first assignment.
        self._read_from: int | None = None
        self._held: dict[TopicPartition, Tenure] = {}
        #: The newest; without an owner where two coordinators raised the epoch to the same.
        self._seen: dict[TopicPartition, Tenure] = {}
        #: Held partitions that no whole read has covered yet, and since when it is due.
        self._uncovered: dict[TopicPartition, float] = {}

    @property
    def read_from(self) -> int | None:
        """Offset of the state topic that reading must begin at; it goes back when an assignment needs an earlier one.

        None: nothing has been assigned, nothing needs to be read. -1: the log's start.
        """
        return self._read_from

    def assign(self, partition: TopicPartition, tenure: Tenure, state_offset: int, now_s: float) -> bool:
        """Note an assignment; False when somebody else's has been seen already, of that epoch or a higher one.

        When this moves ``read_from``, a read in progress must be given up and begun anew from there.
        """
        seen = self._seen.get(partition)
        if _is_over(tenure, seen):
            return False
        self._held[partition] = tenure
        goes_back = self._read_from is None or state_offset < self._read_from
        if goes_back:
            self._read_from = state_offset
        if goes_back or seen != tenure:
            self._uncovered[partition] = now_s
        return True

    def drop(self, partition: TopicPartition) -> None:
        """The partition is not held any more."""
        self._held.pop(partition, None)
        self._uncovered.pop(partition, None)

    def shown(self, grants: Iterable[tuple[TopicPartition, Tenure]]) -> list[GivenUpLease]:
        """A read has shown these grants: the partitions that somebody else has now. They are dropped."""
        given_up = []
        for partition, tenure in grants:
            seen = self._seen[partition] = _newest(self._seen.get(partition), tenure)
            held = self._held.get(partition)
            if held is not None and _is_over(held, seen):
                given_up.append(GivenUpLease(partition, _why(held, seen)))
                self.drop(partition)
        return given_up

    def looked(self, began_s: float, now_s: float) -> bool:
        """A read that began then has reached the topic's end, and all that it showed has been noted.

        Returns:
            Whether something may be sent now that could not be before.
        """
        covered = [partition for partition in self._uncovered if self._seen.get(partition) == self._held[partition]]
        fresh = bool(covered) or not self.lasts(now_s)
        self._until_s = max(self._until_s, began_s + self._terms.sending_s)
        for partition in covered:
            del self._uncovered[partition]
        return fresh and self.lasts(now_s)

    def ungranted(self, began_s: float) -> list[GivenUpLease]:
        """Partitions whose own grant a whole read that began then has not shown: the topic has lost it.

        They are dropped. To be called after ``looked``.
        """
        lost = [partition for partition, since_s in self._uncovered.items() if since_s <= began_s]
        for partition in lost:
            self.drop(partition)
        return [GivenUpLease(partition, "the state topic does not hold its grant any more") for partition in lost]

    def begin_anew(self, now_s: float) -> None:
        """The topic was created anew, or has lost its end: what it has shown is void, and it is read from its start."""
        self._seen.clear()
        self._read_from, self._until_s = -1, _NEVER
        self._uncovered = dict.fromkeys(self._held, now_s)

    def lasts(self, now_s: float) -> bool:
        """Whether anything may be sent at all."""
        return now_s < self._until_s

    def holds(self, partition: TopicPartition, now_s: float) -> bool:
        """Whether records of the partition may be sent now."""
        return now_s < self._until_s and partition in self._held and partition not in self._uncovered


def _newest(seen: Tenure | None, shown: Tenure) -> Tenure:
    if seen is None or shown.epoch > seen.epoch:
        return shown
    return Tenure(seen.epoch, None) if shown.epoch == seen.epoch and shown != seen else seen


def _is_over(held: Tenure, seen: Tenure | None) -> bool:
    return seen is not None and (seen.epoch > held.epoch or (seen.epoch == held.epoch and seen != held))


def _why(held: Tenure, seen: Tenure) -> str:
    if seen.epoch == held.epoch:
        return f"another coordinator has handed it out, too, with epoch {held.epoch}"
    return f"it was handed out with epoch {seen.epoch}, ours is {held.epoch}"
