"""Which Produce requests wait for all in-sync replicas, and which for the leader alone.

A broker handles a connection's requests one after another, and one with ``acks=all`` ends only after a round of the
in-sync replicas, however many requests wait behind it. So batches of a partition go out in groups: ``acks=1`` for all
but the last, whose ``acks=all`` commits those before it too (a log is committed up to an offset), is refused where
``min.insync.replicas`` is not met, and costs one round. Nothing of a group counts as acknowledged before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

#: What one round of the in-sync replicas is spent on at most, so that a broken group is soon sent again.
GROUP_BYTES = 4 << 20
#: Nor does an acknowledgement wait longer for batches to come behind it.
GROUP_S = 0.2


@dataclass(slots=True)
class _Group:
    began_s: float
    bytes: int = 0


class CommitGroups:
    """The open group of each partition: what went out since its last batch with ``acks=all``."""

    def __init__(self, largest_bytes: int = GROUP_BYTES, longest_s: float = GROUP_S) -> None:
        self._largest_bytes, self._longest_s = largest_bytes, longest_s
        self._open: dict[Hashable, _Group] = {}

    def ends(self, partition: Hashable, size_bytes: int, now_s: float, *, more: bool) -> bool:
        """Whether the next batch of ``partition`` is its group's last; ``more``: another one may follow at once."""
        group = self._open.get(partition)
        if group is None:
            group = self._open[partition] = _Group(now_s)
        group.bytes += size_bytes
        return not more or group.bytes >= self._largest_bytes or now_s - group.began_s >= self._longest_s

    def committing(self, partitions: Iterable[Hashable]) -> None:
        """The request that holds these partitions' last batches goes out with ``acks=all``: their groups end."""
        for partition in partitions:
            self._open.pop(partition, None)

    def forget(self, partition: Hashable) -> None:
        """Nothing more of it will be sent here."""
        self._open.pop(partition, None)
