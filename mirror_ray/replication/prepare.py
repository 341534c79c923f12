"""A source batch as the batches that the target gets of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import RecordTooLargeError
from mirror_ray.records.batch import CODEC_MASK, RecordBatch, needs_repack
from mirror_ray.records.decode import reaching_into
from mirror_ray.records.repack import RepackedBatch, compress_batch, pack, repack
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.partition_transforms import PartitionTransforms


class PreparedBatch(NamedTuple):
    """A batch to be produced, still without producer and sequence."""

    batch: RecordBatch
    #: Source offset of its first record, or of a hole before it.
    source_first: int
    #: Where the source goes on behind it.
    source_next: int
    #: Its records as runs without a hole on the source: (first offset, number of records).
    runs: tuple[tuple[int, int], ...]


def pieces_of(
    batch: RecordBatch, position: int, assignment: Assignment, transforms: PartitionTransforms | None, *, singly: bool
) -> Sequence[PreparedBatch]:
    """The records of a batch from ``position`` on: as it is where that is right, else repacked.

    ``singly``: each record by itself.

    Raises:
        Troubled: A single record is larger than the target takes, or a transform failed.
        DeadLettersWaitError: Records that transforms failed on have to be written elsewhere first.
    """
    if transforms is not None:
        return _transformed(batch, position, assignment, transforms, singly=singly)
    codec = assignment.compress_with
    if codec is not None and batch.magic == 2 and batch.codec == "none":
        batch = compress_batch(batch, codec)
    leave_out = reaching_into(batch, position, assignment.skip) if assignment.skip else ()
    if not (leave_out or singly) and needs_repack(batch, position, assignment.max_message_bytes) is None:
        first = batch.base_offset
        return (PreparedBatch(batch, first, batch.next_offset, ((first, batch.count),)),)
    try:
        repacked = repack(
            batch,
            from_offset=position,
            max_batch_bytes=assignment.max_message_bytes,
            leave_out=leave_out,
            singly=singly,
        )
    except RecordTooLargeError as error:
        raise _too_large(error, assignment) from error
    return _pieces(repacked)


def _transformed(
    batch: RecordBatch, position: int, assignment: Assignment, transforms: PartitionTransforms, *, singly: bool
) -> Sequence[PreparedBatch]:
    """None where all of it is left out."""
    codec = assignment.compress_with if batch.codec == "none" else None
    try:
        packed = pack(
            transforms.take(batch, position),
            batch,
            max_batch_bytes=assignment.max_message_bytes,
            codec=codec,
            singly=singly,
        )
    except RecordTooLargeError as error:
        raise _too_large(error, assignment) from error
    return _pieces(packed)


def outgoing_of(
    piece: PreparedBatch, target_offset: int, sequence: int, epoch: int, unpacked_bytes: int
) -> OutgoingBatch:
    """A rewritten piece as it goes to the target; ``epoch``: the source's leader epoch at its end."""
    batch = piece.batch
    return OutgoingBatch(
        view=batch.view,
        target_offset=target_offset,
        sequence=sequence,
        count=batch.count,
        source_first=piece.source_first,
        source_next=piece.source_next,
        runs=piece.runs,
        source_epoch=epoch,
        max_timestamp=batch.max_timestamp,
        size_bytes=len(batch.view),
        codec=batch.attributes & CODEC_MASK,
        unpacked_bytes=unpacked_bytes,
    )


def _pieces(repacked: Sequence[RepackedBatch]) -> list[PreparedBatch]:
    return [PreparedBatch(piece.batch, piece.source_first, piece.next_source_offset, piece.runs) for piece in repacked]


def _too_large(error: RecordTooLargeError, assignment: Assignment) -> ReplicationFault:
    return ReplicationFault(faults.record_refused(assignment.partition.source, error.offset, str(error)))
