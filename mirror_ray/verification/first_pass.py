"""The first pass in this process: it reads all of both sides, batch by batch where every record is compared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeVar

from mirror_ray.records.decode import DecodedRecord
from mirror_ray.verification.batch_comparison import LogPiece, LogPieces, RangeComparison, records_in
from mirror_ray.verification.compacted import LastRecords, differing_keys
from mirror_ray.verification.job import CompareJob, FirstPassResult
from mirror_ray.verification.partition_log import PartitionLog, RemovedError
from mirror_ray.verification.ranges import merge_spans

_T = TypeVar("_T")
#: Takes records in the order in which they are read.
TakeRecords = Callable[[Sequence[DecodedRecord]], None]

#: Partitions that are read at once.
MAX_CONCURRENT_PARTITIONS = 4


class InProcessFirstPass:
    """Compares jobs in this process. ``logs`` gives a job's logs; ``on_records`` gets numbers of records read."""

    def __init__(
        self,
        logs: Callable[[CompareJob], tuple[PartitionLog, PartitionLog]],
        on_records: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._logs = logs
        self._on_records = on_records
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT_PARTITIONS)

    async def run(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        """Compare all jobs, several at once; one result for each."""
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
        mine = LastRecords(job.timestamps, job.key_fraction)
        theirs = LastRecords(job.timestamps, job.key_fraction)
        await read_both(self._logs(job), job, mine.take, theirs.take, self._on_records)
        return FirstPassResult(
            records=mine.records,
            target_records=theirs.records,
            keys=len(mine.found.keys() | theirs.found.keys()),
            same=mine.digest == theirs.digest,
            differing_keys=frozenset(differing_keys(mine.found, theirs.found)),
        )


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
    await asyncio.gather(
        read_spans(logs[0], [(job.begin.source, job.end.source)], source, on_records),
        read_spans(logs[1], [(span.target, span.target_end) for span in job.ranges], target),
    )


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
