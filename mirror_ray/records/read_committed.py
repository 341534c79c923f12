"""Which fetched batches are to be copied: the consumer's read_committed rule, batch by batch.

Source: Kafka's ``CompletedFetch`` (KIP-98): the response lists the aborted transactions that reach into it; a
producer's batches are left out from its transaction's first offset until its abort marker.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirror_ray.records.batch import CONTROL_BIT, ControlType, RecordBatch
from mirror_ray.records.decode import control_type


class CommittedOnly:
    """Selects the batches of one partition in one Fetch response, in order.

    ``aborted`` holds (producer id, first offset); under read_uncommitted it is empty, and control and empty batches
    are dropped.
    """

    __slots__ = ("_aborting", "_coming")

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda item: -item[1])
        self._aborting: set[int] = set()

    @property
    def copies_all(self) -> bool:
        """Whether every batch with records that follows holds such, as no aborted transaction reaches there."""
        return not (self._coming or self._aborting)

    def copies(self, batch: RecordBatch) -> bool:
        """Whether the batch holds records that a read_committed consumer would see."""
        coming = self._coming
        if not (coming or self._aborting or batch.attributes & CONTROL_BIT):
            return batch.count > 0
        while coming and coming[-1][1] <= batch.last_offset:
            self._aborting.add(coming.pop()[0])
        if batch.is_control:
            if control_type(batch) is ControlType.ABORT:
                self._aborting.discard(batch.producer_id)
            return False
        if batch.is_empty:
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborting)
