"""The first pass in this process: it reads all of both sides, batch by batch where every record is compared."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Literal, TypeVar

from mirror_ray.records import kernel
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.verification.batch_comparison import LogPiece, LogPieces, RangeComparison, records_in
from mirror_ray.verification.job import CompareJob, FirstPassResult
from mirror_ray.verification.last_records import LastRecords, differing_keys, key_slice
from mirror_ray.verification.partition_log import PartitionLog, RemovedError
from mirror_ray.verification.ranges import Span, merge_spans

_T = TypeVar("_T")
#: Takes records in the order in which they are read.
TakeRecords = Callable[[Sequence[DecodedRecord]], None]

#: Partitions that are read at once.
MAX_CONCURRENT_PARTITIONS = 4


class TooManyKeysError(Exception):
    """The keys of a compacted partition take more memory than they may."""


class InProcessFirstPass:
    """Compares jobs in this process. ``logs`` gives a job's logs; ``on_records`` gets numbers of records read."""

    def __init__(
        self,
        logs: Callable[[CompareJob], tuple[PartitionLog, PartitionLog]],
        on_records: Callable[[int], None] = lambda _: None,
        max_key_bytes: int = sys.maxsize,
    ) -> None:
        """``max_key_bytes``: about how much memory the keys of a compacted partition may take."""
        self._logs = logs
        self._on_records = on_records
        self._max_key_bytes = max_key_bytes
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT_PARTITIONS)

    async def run(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        """Compare all jobs, several at once; one result for each.

        Raises:
            ClusterUnreachableError: A cluster does not answer.
            CorruptBatchError: A batch does not fit its checksum, or does not parse.
            TooManyKeysError: A compacted partition has more keys than memory was given for.
        """
        return await asyncio.gather(*(self._run_one(job) for job in jobs))

    async def _run_one(self, job: CompareJob) -> FirstPassResult:
        async with self._semaphore:
            return await (self._compare_keys(job) if job.compacted else self._compare_ranges(job))

    async def _compare_ranges(self, job: CompareJob) -> FirstPassResult:
        source, target = self._logs(job)
        transform = None if source.transform is None else source.transformed
        comparison = RangeComparison(job.chosen_ranges, timestamps=job.timestamps, transform=transform)
        sides = (
            (comparison.source, _read(source, comparison.source, self._on_records)),
            (comparison.target, _read(target, comparison.target)),
        )
        comparison.step()
        while not comparison.done:
            await asyncio.gather(*(_feed(side, pieces) for side, pieces in sides if side.wants))
            comparison.step()
        numbered = list(zip(job.chosen, comparison.found, strict=True))
        records = sum(found for _, found in numbered if found is not None)
        differing = tuple(number for number, found in numbered if found is None)
        return FirstPassResult(records=records, target_records=records, ranges=differing)

    async def _compare_keys(self, job: CompareJob) -> FirstPassResult:
        logs = self._logs(job)
        if kernel.is_available() and logs[0].transform is None:
            return await self._compare_keys_by_kernel(logs, job)
        keys = key_slice(job.key_fraction, job.key_part)
        mine, theirs = LastRecords(job.timestamps, keys), LastRecords(job.timestamps, keys)

        def take(side: LastRecords, records: Sequence[DecodedRecord]) -> None:
            side.take(records)
            self._check_memory(job, mine.memory_bytes + theirs.memory_bytes)

        await read_both(logs, job, partial(take, mine), partial(take, theirs), self._on_records)
        return FirstPassResult(
            records=mine.records,
            target_records=theirs.records,
            keys=len(mine.found.keys() | theirs.found.keys()),
            same=mine.digest == theirs.digest,
            differing_keys=frozenset(differing_keys(mine.found, theirs.found)),
        )

    async def _compare_keys_by_kernel(
        self, logs: tuple[PartitionLog, PartitionLog], job: CompareJob
    ) -> FirstPassResult:
        keys = key_slice(job.key_fraction, job.key_part)
        comparison = kernel.KeyComparison(timestamps=job.timestamps, keys=keys.keys, ordered_below=keys.ordered_below)

        def take(side: Literal[0, 1], batches: Sequence[RecordBatch], span: Span) -> None:
            comparison.take(side, batches, span)
            self._check_memory(job, comparison.found().memory_bytes)
            if side == 0:
                self._on_records(sum(map(records_in, batches)))

        await read_batches_of_both(logs, job, take)
        found = comparison.found()
        return FirstPassResult(
            records=found.records,
            target_records=found.target_records,
            keys=found.keys,
            same=found.same,
            differing_keys=comparison.differing_keys(),
        )

    def _check_memory(self, job: CompareJob, key_bytes: int) -> None:
        if key_bytes > self._max_key_bytes:
            raise TooManyKeysError(f"{job.source}: its keys take more than {self._max_key_bytes:,} bytes of memory")


async def read_batches_of_both(
    logs: tuple[PartitionLog, PartitionLog],
    job: CompareJob,
    take: Callable[[Literal[0, 1], Sequence[RecordBatch], Span], None],
) -> None:
    """Read as ``read_both`` does, by batch: ``take`` gets the side, an answer's batches, and which offsets count."""

    async def read(side: Literal[0, 1], spans: Iterable[Span]) -> None:
        async for span, batches in _read_spans(partial(_with_span, logs[side]), spans, lambda _: None):
            take(side, batches, span)

    mine, theirs = _spans_of(job)
    await asyncio.gather(read(0, mine), read(1, theirs))


async def _with_span(log: PartitionLog, first: int, end: int) -> AsyncIterator[tuple[Span, Sequence[RecordBatch]]]:
    """The batches of a span, for each answer, with the span."""
    async for batches in log.batches(first, end):
        yield (first, end), batches


def _spans_of(job: CompareJob) -> tuple[list[Span], list[Span]]:
    """All that the flow copied of a job, on both sides."""
    return [(job.begin.source, job.end.source)], [(span.target, span.target_end) for span in job.ranges]


async def _read(
    log: PartitionLog, to: LogPieces, on_records: Callable[[int], None] = lambda _: None
) -> AsyncIterator[Sequence[LogPiece]]:
    """Read the spans of a log; ``on_records`` gets the number of records in each answer."""
    async for batches in _read_spans(log.batches, to.spans, to.removed):
        on_records(sum(map(records_in, batches)))
        yield batches


async def _feed(side: LogPieces, pieces: AsyncIterator[Sequence[LogPiece]]) -> None:
    side.feed(await anext(pieces, None))


async def read_both(
    logs: tuple[PartitionLog, PartitionLog],
    job: CompareJob,
    source: TakeRecords,
    target: TakeRecords,
    on_records: Callable[[int], None] = lambda _: None,
) -> None:
    """Read all that the flow copied of a job from both sides; what is removed meanwhile is skipped."""
    mine, theirs = _spans_of(job)
    await asyncio.gather(read_spans(logs[0], mine, source, on_records), read_spans(logs[1], theirs, target))


async def read_spans(
    log: PartitionLog,
    spans: Iterable[tuple[int, int]],
    take: TakeRecords,
    on_records: Callable[[int], None] = lambda _: None,
) -> None:
    """Read ascending spans of a log; what was removed is skipped. Raises as ``PartitionLog.batches`` does otherwise."""
    async for records in _read_spans(log.records, spans, lambda _: None):
        take(records)
        on_records(len(records))


async def _read_spans(
    read: Callable[[int, int], AsyncIterator[_T]], spans: Iterable[tuple[int, int]], removed: Callable[[int], None]
) -> AsyncIterator[_T]:
    """What ``read`` yields of ascending spans; ``removed`` gets the start of a log that lost what was to be read."""
    for first, end in merge_spans(spans):
        start = first
        while start < end:
            try:
                async for found in read(start, end):
                    yield found
                break
            except RemovedError as error:
                removed(error.start)
                start = error.start
