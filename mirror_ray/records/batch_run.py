"""Small batches that follow each other, taken together: one object for all of them, not one for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mirror_ray.model.errors import IncompleteBatchError
from mirror_ray.records import kernel
from mirror_ray.records.batch import RecordBatch, iter_batches


class BatchRun(NamedTuple):
    """Whole batches of magic 2, two or more: of one codec, timestamp type and leader epoch, in ascending offsets.

    Their checksums were compared, none is a marker, and each has records. The fields are named as a ``RecordBatch``'s.
    """

    view: memoryview
    #: Of the first batch.
    base_offset: int
    #: Behind the last one.
    next_offset: int
    partition_leader_epoch: int
    #: Codec and timestamp type alone.
    attributes: int
    batches: int

    @property
    def size_bytes(self) -> int:
        """Bytes on the wire and on disk, all headers included."""
        return len(self.view)


def iter_runs(buffer: memoryview, largest: Sequence[int], most_bytes: int) -> list[RecordBatch | BatchRun]:
    """Split the records of one partition of a Fetch response as ``iter_batches`` does, small batches into runs.

    The record kernel must be there. ``largest``: the size of a batch in a run at most, by bits 0 to 3 of its
    attributes; a compacted one counts as one with LogAppendTime. A run has ``most_bytes`` at most.

    Raises:
        IncompleteBatchError, CorruptBatchError: As ``iter_batches``.
    """
    found: list[RecordBatch | BatchRun] = []
    position = 0
    for start, end, *fields in kernel.runs(buffer, largest, most_bytes):
        if start > position:
            found += iter_batches(buffer[position:start])
        found.append(BatchRun(buffer[start:end], *fields))
        position = end
    if position < len(buffer):
        try:
            found += iter_batches(buffer[position:])
        except IncompleteBatchError:
            if not found:
                raise
    return found


def single_batches(items: Iterable[RecordBatch | BatchRun]) -> Iterator[RecordBatch]:
    """The same batch by batch."""
    for item in items:
        if isinstance(item, BatchRun):
            yield from iter_batches(item.view)
        else:
            yield item
