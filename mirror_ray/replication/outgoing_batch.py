"""The batches that the target gets of a source batch, each with what its acknowledgement will mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mirror_ray.model.assignment import NO_END, Assignment
from mirror_ray.model.errors import RecordTooLargeError
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.model.schema_id_counts import NO_SCHEMA_IDS, SchemaIdCounts
from mirror_ray.records import kernel
from mirror_ray.records.batch import CODEC_MASK, LOG_OVERHEAD_BYTES, RecordBatch, needs_repack
from mirror_ray.records.batch_run import BatchRun
from mirror_ray.records.decode import reaching_into
from mirror_ray.records.repack import compress_batch, pack, repack
from mirror_ray.records.repacked_batch import RepackedBatch, with_schema_ids_counted
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.merge_rules import merge_bytes, merged_codec
from mirror_ray.replication.partition_transforms import PartitionTransforms

#: In place of a batch whose bytes are not needed any more.
_RELEASED = RecordBatch(memoryview(b""), -1, 0, -1, 2, 0, 0, -1, -1, -1, -1, -1, -1, 0)


@dataclass(slots=True)
class OutgoingBatch:
    """A batch on its way to the target, from the fetch to its acknowledgement.

    ``batch`` is complete but for base offset, producer and sequence, which ``rewrite`` sets.
    """

    batch: RecordBatch
    #: Source offset of its first record.
    source_first: int
    #: Source position once it is acknowledged; offset gaps that follow it on the source move it on.
    source_next: int
    #: Its records as runs without an offset gap on the source: (first offset, number of records).
    runs: tuple[tuple[int, int], ...]
    #: The source's leader epoch at ``source_next``.
    source_epoch: int
    #: Set when it is queued.
    target_offset: int = -1
    sequence: int = -1
    #: Bytes that it would have without compression, where that is known.
    uncompressed_bytes: int = 0
    #: Bytes that its records took on the source; of a batch that was divided, its share.
    source_bytes: int = 0
    #: Its records by age, in order: the newest timestamp of some that follow each other, and how many they are; where
    #: nothing is said, all have the batch's.
    ages: tuple[tuple[int, int], ...] = ()
    #: What was done with schema ids, of this batch and of those before it that were made together with it.
    schema_ids: SchemaIdCounts = NO_SCHEMA_IDS
    #: Whether it was made of several of the source's.
    merged: bool = False
    #: Whether offsets before it have to be filled on the target first.
    behind_gap: bool = False

    #: What is needed of it after ``release``.
    count: int = field(init=False)
    size_bytes: int = field(init=False)
    max_timestamp: int = field(init=False)
    #: The codec's number.
    codec: int = field(init=False)

    def __post_init__(self) -> None:
        batch = self.batch
        self.count, self.max_timestamp = batch.count, batch.max_timestamp
        self.size_bytes = batch.length + LOG_OVERHEAD_BYTES
        self.codec = batch.attributes & CODEC_MASK
        self.source_bytes = self.source_bytes or self.size_bytes
        self.ages = self.ages or ((batch.max_timestamp, batch.count),)

    @property
    def next_sequence(self) -> int:
        """Sequence of the batch behind it."""
        return (self.sequence + self.count) % SEQUENCE_MODULUS

    def release(self) -> None:
        """Let go of its bytes."""
        self.batch = _RELEASED


def outgoing_batches(
    batch: RecordBatch,
    position: int,
    assignment: Assignment,
    transforms: PartitionTransforms | None,
    *,
    singly: bool,
    up_to: int = NO_END,
) -> Sequence[OutgoingBatch]:
    """Make the target's batches of the records from ``position`` on: the batch as it is, or repacked where it must be.

    They are in order; none where nothing is left of ``batch``, which is verified. ``position`` is a source offset.
    ``assignment`` says what the target takes, and which records are skipped; ``singly``: each record is to be a batch
    of its own. With ``transforms`` records from ``up_to`` on are left for later.

    Raises:
        ReplicationFault: A single record is larger than the target takes, or a transform failed.
        DeadLettersWaitError: Records that transforms failed on have to be written to the dead letter topic first.
        SchemaIdsWaitError: It is not known what the schema id of a record becomes.
    """
    codec = assignment.compress_with
    try:
        if transforms is not None:
            return _outgoing(_transformed(batch, position, assignment, transforms, singly=singly, up_to=up_to))
        source_bytes = batch.size_bytes
        if codec is not None and batch.magic == 2 and batch.codec == "none":
            batch = compress_batch(batch, codec)
        leave_out = reaching_into(batch, position, assignment.skip) if assignment.skip else ()
        if not (leave_out or singly) and needs_repack(batch, position, assignment.max_message_bytes) is None:
            first = batch.base_offset
            runs = ((first, batch.count),)
            epoch = batch.partition_leader_epoch
            return (OutgoingBatch(batch, first, batch.next_offset, runs, epoch, source_bytes=source_bytes),)
        repacked = repack(
            batch,
            from_offset=position,
            max_batch_bytes=assignment.max_message_bytes,
            leave_out=leave_out,
            apart="records" if singly else "runs" if assignment.preserve_offsets else "no",
        )
    except RecordTooLargeError as error:
        refused = faults.record_refused(assignment.partition.source, error.offset, str(error))
        raise ReplicationFault(refused) from error
    return _outgoing(repacked)


def _transformed(
    batch: RecordBatch,
    position: int,
    assignment: Assignment,
    transforms: PartitionTransforms,
    *,
    singly: bool,
    up_to: int,
) -> list[RepackedBatch]:
    codec = batch.codec if batch.codec != "none" else assignment.compress_with or "none"
    max_bytes = assignment.max_message_bytes
    if not singly and up_to == NO_END and not assignment.preserve_offsets:
        translated = transforms.translated([batch], position, codec=codec, max_batch_bytes=max_bytes)
        if translated is not None:
            return translated
    records, kept, failures, _, counts = transforms.take([batch], position, up_to)
    if singly:
        repacked = pack(records.decoded(kept), batch, max_batch_bytes=max_bytes, codec=codec, apart="records")
    else:
        repacked = records.pack(kept, codec=codec, max_batch_bytes=max_bytes)
        if assignment.preserve_offsets and any(len(part.runs) > 1 for part in repacked):
            repacked = pack(records.decoded(kept), batch, max_batch_bytes=max_bytes, codec=codec, apart="runs")
    transforms.left_out(failures)
    return with_schema_ids_counted(repacked, counts)


def merged_batches(
    batches: Sequence[RecordBatch | BatchRun],
    position: int,
    assignment: Assignment,
    transforms: PartitionTransforms | None,
) -> Sequence[OutgoingBatch]:
    """Make few large batches of small ones that follow each other, of their records from ``position`` on.

    ``batches``, with records, are verified, and ``is_merged`` holds for each.

    Raises:
        CorruptBatchError: One of them does not parse.
        RecordTooLargeError: A single record is larger than the target takes.
        ReplicationFault: A transform failed.
        DeadLettersWaitError: Records that transforms failed on have to be written to the dead letter topic first.
        SchemaIdsWaitError: It is not known what the schema id of a record becomes.
    """
    codec, max_bytes = merged_codec(batches, assignment.compress_with), assignment.max_message_bytes
    room_bytes = merge_bytes(max_bytes)
    if transforms is None:
        repacked = kernel.repack_batches(
            batches, codec=codec, merge_bytes=room_bytes, max_batch_bytes=max_bytes, from_offset=position
        )
    elif (
        translated := transforms.translated(
            batches, position, codec=codec, merge_bytes=room_bytes, max_batch_bytes=max_bytes
        )
    ) is not None:
        repacked = translated
    else:
        records, kept, failures, _, counts = transforms.take(batches, position)
        packed = records.pack(kept, codec=codec, merge_bytes=room_bytes, max_batch_bytes=max_bytes)
        repacked = with_schema_ids_counted(packed, counts)
        transforms.left_out(failures)
    return _outgoing(repacked, merged=True)


def _outgoing(repacked: Sequence[RepackedBatch], *, merged: bool = False) -> list[OutgoingBatch]:
    return [
        OutgoingBatch(
            part.batch,
            part.source_first,
            part.next_source_offset,
            part.runs,
            part.source_epoch,
            uncompressed_bytes=part.uncompressed_bytes,
            source_bytes=part.source_bytes,
            ages=part.ages,
            schema_ids=part.schema_ids,
            merged=merged,
        )
        for part in repacked
    ]
