"""A flow's filling of offset gaps, from the first partition whose offsets are preserved."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.assignment import Assignment
from mirror_ray.replication.gap_filler import Filled, GapFiller
from mirror_ray.replication.offset_gaps import OffsetGap
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.sender import Lease


class FlowGaps:
    """Makes the ``GapFiller`` when it is needed; other flows begin no transaction."""

    def __init__(
        self,
        target: ClusterConnections,
        *,
        most_markers: int,
        lease: Lease,
        on_filled: Filled,
        on_event: Callable[[str, str], None],
    ) -> None:
        """``on_event(level, text)`` is for the event log."""
        self._target, self._most_markers, self._lease = target, most_markers, lease
        self._on_filled, self._on_event = on_filled, on_event
        self._filler: GapFiller | None = None

    def assigned(self, assignment: Assignment) -> None:
        """Prepare for a partition; all of a flow that one replicator has come with the same transactional id."""
        if assignment.preserve_offsets and self._filler is None:
            self._filler = GapFiller(
                self._target,
                assignment.transactional_id,
                most_markers=self._most_markers,
                lease=self._lease,
                on_filled=self._on_filled,
                on_event=self._on_event,
            )

    def request(self, copy: PartitionReplication, gap: OffsetGap) -> None:
        """Have a gap filled on the target."""
        if self._filler is not None:
            self._filler.request(copy, gap)

    def forget(self, copy: PartitionReplication) -> None:
        """The partition is not assigned here any more."""
        if self._filler is not None:
            self._filler.forget(copy)

    async def settle(self, copies: Iterable[PartitionReplication]) -> None:
        """Return once the log ends of these partitions may be read: no marker of ours is on its way to them.

        Raises:
            OSError, MirrorError: That is not known.
        """
        if self._filler is not None and any(copy.assignment.preserve_offsets for copy in copies):
            await self._filler.settle()

    async def close(self) -> None:
        """End it."""
        if self._filler is not None:
            await self._filler.close()
