"""The first look, by this process: all of both sides is read, batch by batch where every record counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from mirror_ray.records.decode import DecodedRecord
from mirror_ray.verification.batch_comparison import LogPieces, RangeComparison, ReadPiece, records_in
from mirror_ray.verification.compacted import LastRecords, differing_keys
from mirror_ray.verification.job import CompareJob, FirstPassResult
from mirror_ray.verification.partition_log import PartitionLog, RemovedError
from mirror_ray.verification.ranges import merge_spans

_T = TypeVar("_T")

#: Partitions that are read at once.
MAX_CONCURRENT_PARTITIONS = 4


class RecordSink(Protocol):
    """Takes records as they are read."""

    def take(self, records: Sequence[DecodedRecord], /) -> None:
        """Take the next ones."""
        ...


class InProcessFirstPass:
    """See ``Looker``. ``logs`` gives a job's partition on both sides; ``told`` is called with numbers of records."""

    def __init__(
        self,
        logs: Callable[[CompareJob], tuple[PartitionLog, PartitionLog]],
        told: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._logs = logs
        self._told = told
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT_PARTITIONS)

    async def look(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        """See ``Looker``."""
        return await asyncio.gather(*(self._look(job) for job in jobs))

    async def _look(self, job: CompareJob) -> FirstPassResult:
        async with self._semaphore:
            return await (self._look_at_keys(job) if job.compacted else self._look_at_ranges(job))

    async def _look_at_ranges(self, job: CompareJob) -> FirstPassResult:
        source, target = self._logs(job)
        kept = None if source.copied is None else source.kept
        comparison = RangeComparison(job.chosen_ranges, timestamps=job.timestamps, kept=kept)
        sides = (
            (comparison.source, _read(source, comparison.source, self._told)),
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

    async def _look_at_keys(self, job: CompareJob) -> FirstPassResult:
        mine = LastRecords(job.timestamps, job.key_fraction)
        theirs = LastRecords(job.timestamps, job.key_fraction)
        await read_both(self._logs(job), job, mine, theirs, self._told)
        return FirstPassResult(
            records=mine.records,
            target_records=theirs.records,
            keys=len(mine.found.keys() | theirs.found.keys()),
            same=mine.digest == theirs.digest,
            differing_keys=frozenset(differing_keys(mine.found, theirs.found)),
        )


async def _read(
    log: PartitionLog, to: LogPieces, told: Callable[[int], None] = lambda _: None
) -> AsyncIterator[Sequence[ReadPiece]]:
    """What is read of a log's spans; ``told`` of how many records there are."""
    async for batches in _stretches_of(log.batches, to.spans, to.removed):
        told(sum(map(records_in, batches)))
        yield batches


async def _feed(side: LogPieces, pieces: AsyncIterator[Sequence[ReadPiece]]) -> None:
    side.feed(await anext(pieces, None))


async def read_both(
    logs: tuple[PartitionLog, PartitionLog],
    job: CompareJob,
    source: RecordSink,
    target: RecordSink,
    told: Callable[[int], None] = lambda _: None,
) -> None:
    """Read all that the flow copied of a job from both sides; what is removed meanwhile is passed over."""
    await asyncio.gather(
        read_spans(logs[0], [(job.begin.source, job.end.source)], source, told=told),
        read_spans(logs[1], [(each.target, each.target_end) for each in job.ranges], target),
    )


async def read_spans(
    log: PartitionLog,
    spans: Iterable[tuple[int, int]],
    to: RecordSink,
    removed: Callable[[int], None] = lambda _: None,
    told: Callable[[int], None] = lambda _: None,
) -> None:
    """Read ascending spans of a log; where their beginning was removed meanwhile that is said, and the rest read.

    Raises:
        ClusterUnreachableError: The leader does not answer.
        MirrorError: The log can't be read.
    """
    async for records in _stretches_of(log.records, spans, removed):
        to.take(records)
        told(len(records))


async def _stretches_of(
    read: Callable[[int, int], AsyncIterator[_T]], spans: Iterable[tuple[int, int]], removed: Callable[[int], None]
) -> AsyncIterator[_T]:
    """What ``read`` gives of ascending spans, without what is removed meanwhile: that is said."""
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
