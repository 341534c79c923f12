"""What becomes of batches that can't be passed on as they are, or that are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirror_ray.model.schema_id_counts import NO_SCHEMA_IDS, SchemaIdCounts
from mirror_ray.records.batch import RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RepackedBatch:
    """A batch to be produced, and which source records are in it.

    ``batch`` is whole and valid, with its own writable bytes, CreateTime, dense offsets, no producer; its
    ``base_offset`` is ``source_first``. It still goes through ``rewrite``.
    """

    batch: RecordBatch
    #: Source offset of its first and of its last record.
    source_first: int
    source_last: int
    #: Where the source goes on once this batch is acknowledged; after the last one behind the whole source batch.
    next_source_offset: int
    #: The source's leader epoch there; -1 where it is not known.
    source_epoch: int
    #: Runs without an offset gap, in order: (source offset of the first record, number of records).
    runs: tuple[tuple[int, int], ...]
    #: Bytes that it would have without compression; 0: not known.
    uncompressed_bytes: int
    #: Bytes of the source's batches that it was made of; of one that was divided, its share.
    source_bytes: int
    #: Its records by age, in order: the newest timestamp of some that follow each other, and how many they are.
    ages: tuple[tuple[int, int], ...]
    #: What was done with schema ids; the last of several batches that are made together has it for all of them.
    schema_ids: SchemaIdCounts = NO_SCHEMA_IDS


def with_schema_ids_counted(batches: Sequence[RepackedBatch], counts: SchemaIdCounts) -> list[RepackedBatch]:
    """Note what was done with schema ids to make these batches, in order."""
    return [*batches[:-1], *(replace(last, schema_ids=counts) for last in batches[-1:])]
