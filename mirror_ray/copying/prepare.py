"""A source batch as the batches that the target gets of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mirror_ray.copying import troubled
from mirror_ray.copying.troubled import Troubled
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import RecordTooLargeError
from mirror_ray.records.batch import Batch, needs_repack
from mirror_ray.records.decode import reaching_into
from mirror_ray.records.repack import compress_batch, repack


class Piece(NamedTuple):
    """A batch to be produced, still without producer and sequence."""

    batch: Batch
    #: Source offset of its first record, or of a hole before it.
    source_first: int
    #: Where the source goes on behind it.
    source_next: int
    #: Its records as runs without a hole on the source: (first offset, number of records).
    runs: tuple[tuple[int, int], ...]


def pieces_of(batch: Batch, position: int, assignment: Assignment, *, singly: bool) -> Sequence[Piece]:
    """The records of a batch from ``position`` on: as it is where that is right, else repacked.

    ``singly``: each record by itself.

    Raises:
        Troubled: A single record is larger than the target takes.
    """
    codec = assignment.compress_with
    if codec is not None and batch.magic == 2 and batch.codec == "none":
        batch = compress_batch(batch, codec)
    leave_out = reaching_into(batch, position, assignment.skip) if assignment.skip else ()
    if not (leave_out or singly) and needs_repack(batch, position, assignment.max_message_bytes) is None:
        first = batch.base_offset
        return (Piece(batch, first, batch.next_offset, ((first, batch.count),)),)
    try:
        repacked = repack(
            batch,
            from_offset=position,
            max_batch_bytes=assignment.max_message_bytes,
            leave_out=leave_out,
            singly=singly,
        )
    except RecordTooLargeError as error:
        source = assignment.partition.source
        raise Troubled(troubled.record_refused(source, error.offset, str(error))) from error
    return [Piece(piece.batch, piece.source_first, piece.next_source_offset, piece.runs) for piece in repacked]
