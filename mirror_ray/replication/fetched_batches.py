"""Batches that were fetched, on the way to their partition: how they are kept, and how many are processed at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.batch_run import BatchRun
from mirror_ray.replication.merge_rules import MERGE_BYTES
from mirror_ray.replication.partition import PartitionReplication

#: An answer may stay in memory because of a part of it that is not smaller than this fraction.
_SMALL_PART = 8
#: So much is sent through transforms at a time: some ten milliseconds for the transforms that mirror-ray provides.
_TRANSFORMED_CHUNK_BYTES = 64 << 10
#: More batches than that in one answer are small ones: they are processed by what becomes about one merged batch.
_SMALL_BATCHES = 32


def detached(records: memoryview, answer_bytes: int) -> memoryview:
    """Copy records that are a small part of their answer: if they wait for long they must not keep all of it."""
    return memoryview(bytearray(records)) if len(records) < answer_bytes // _SMALL_PART else records


def chunks(batches: Sequence[RecordBatch | BatchRun], size_bytes: int) -> Iterator[Sequence[RecordBatch | BatchRun]]:
    """Yield the batches in order, as many at a time as reach that size; without batches one empty chunk."""
    first = size = 0
    for number, batch in enumerate(batches, start=1):
        size += batch.size_bytes
        if size >= size_bytes:
            yield batches[first:number]
            first, size = number, 0
    if first < len(batches) or not batches:
        yield batches[first:]


@dataclass(slots=True)
class FetchedBatches:
    """Batches of one partition, fetched and not processed yet."""

    copy: PartitionReplication
    batches: Sequence[RecordBatch | BatchRun]
    aborted: list[tuple[int, int]]
    #: The partition's fetch and process offset since: with others it went back, and these batches are to be dropped.
    offsets: tuple[int, int]

    @property
    def chunk_bytes(self) -> int:
        """How much to process at a time; 0: all of it, for that is quick."""
        if self.copy.transforms is not None:
            return _TRANSFORMED_CHUNK_BYTES if self.copy.transforms.chain.steps else MERGE_BYTES
        count = sum(item.batches if isinstance(item, BatchRun) else 1 for item in self.batches)
        return MERGE_BYTES if count > _SMALL_BATCHES else 0
