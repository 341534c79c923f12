"""Going through what a remote partition holds, batch by batch: who wrote it, and which offsets are empty. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.replication.copied_records import TargetLog
from mirror_ray.replication.recovery import TargetContents


@dataclass(slots=True)
class TargetScan:
    """Takes all batches from ``begin`` on, in order. ``contents``, if there, gets our records behind ``anchor``."""

    assignment: Assignment
    anchor: OffsetPair
    begin: int
    contents: TargetContents | None = None
    newest: RecordBatch | None = None
    stranger: RecordBatch | None = None
    #: Every offset from here to ``_next`` is in a batch.
    _whole_from: int = field(init=False)
    _next: int = field(init=False)

    def __post_init__(self) -> None:
        self._whole_from = self._next = self.begin

    def add(self, batches: Iterable[RecordBatch]) -> None:
        """Take the next batches."""
        for batch in batches:
            if batch.base_offset > self._next:
                self._whole_from = batch.base_offset
            self._next = batch.next_offset
            if batch.producer_id == self.assignment.producer_id:
                self.newest = batch
                if self.contents is not None and batch.next_offset > self.anchor.target_offset:
                    self.contents.add(batch)
            elif self.stranger is None and batch.base_offset >= self.assignment.foreign_to:
                self.stranger = batch

    def told(self, log: TargetLog) -> TargetLog:
        """The log, with what was seen of it."""
        whole_from = self._whole_from if self._next >= log.end else log.end
        return replace(log, tail=self.newest, stranger=self.stranger, whole_from=whole_from)
