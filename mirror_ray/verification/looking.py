"""The first look, by this process: every record of both sides is read and hashed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from mirror_ray.records.decode import Record
from mirror_ray.verification.job import Job, Look
from mirror_ray.verification.keys import LastOfKeys, differing_keys
from mirror_ray.verification.prints import Sums
from mirror_ray.verification.ranges import stretches
from mirror_ray.verification.reading import Log, RemovedError

#: Partitions that are read at once.
AT_ONCE = 4


class Taking(Protocol):
    """Takes records as they are read."""

    def take(self, records: Sequence[Record], /) -> None:
        """Take the next ones."""
        ...


class PlainLooker:
    """See ``Looker``. ``logs`` gives a job's partition on both sides; ``told`` is called with numbers of records."""

    def __init__(self, logs: Callable[[Job], tuple[Log, Log]], told: Callable[[int], None] = lambda _: None) -> None:
        self._logs = logs
        self._told = told
        self._room = asyncio.Semaphore(AT_ONCE)

    async def look(self, jobs: Sequence[Job]) -> Sequence[Look]:
        """See ``Looker``."""
        return await asyncio.gather(*(self._look(job) for job in jobs))

    async def _look(self, job: Job) -> Look:
        async with self._room:
            return await (self._look_at_keys(job) if job.compacted else self._look_at_ranges(job))

    async def _look_at_ranges(self, job: Job) -> Look:
        spans = [(each.source, each.source_end) for each in job.chosen_ranges]
        target_spans = [(each.target, each.target_end) for each in job.chosen_ranges]
        mine, theirs = Sums(spans, timestamps=job.timestamps), Sums(target_spans, timestamps=job.timestamps)
        source, target = self._logs(job)
        await asyncio.gather(
            read_spans(source, spans, mine, mine.removed, self._told),
            read_spans(target, target_spans, theirs, theirs.removed),
        )
        sums = list(zip(job.chosen, mine.finish(), theirs.finish(), strict=True))
        equal = [here for _, here, there in sums if here is not None and here == there]
        records = sum(each.records for each in equal)
        differing = tuple(number for number, here, there in sums if here is None or here != there)
        return Look(records=records, target_records=records, ranges=differing)

    async def _look_at_keys(self, job: Job) -> Look:
        mine = LastOfKeys(job.timestamps, job.key_fraction)
        theirs = LastOfKeys(job.timestamps, job.key_fraction)
        await read_both(self._logs(job), job, mine, theirs, self._told)
        return Look(
            records=mine.records,
            target_records=theirs.records,
            keys=len(mine.found.keys() | theirs.found.keys()),
            differing_keys=frozenset(differing_keys(mine.found, theirs.found)),
        )


async def read_both(
    logs: tuple[Log, Log], job: Job, source: Taking, target: Taking, told: Callable[[int], None] = lambda _: None
) -> None:
    """Read all that the flow copied of a job from both sides; what is removed meanwhile is passed over."""
    await asyncio.gather(
        read_spans(logs[0], [(job.begin.source, job.end.source)], source, told=told),
        read_spans(logs[1], [(each.target, each.target_end) for each in job.ranges], target),
    )


async def read_spans(
    log: Log,
    spans: Iterable[tuple[int, int]],
    to: Taking,
    removed: Callable[[int], None] = lambda _: None,
    told: Callable[[int], None] = lambda _: None,
) -> None:
    """Read ascending spans of a log; where their beginning was removed meanwhile that is said, and the rest read.

    Raises:
        ClusterUnreachableError: The leader does not answer.
        MirrorError: The log can't be read.
    """
    for first, end in stretches(spans):
        start = first
        while start < end:
            try:
                async for records in log.records(start, end):
                    to.take(records)
                    told(len(records))
                break
            except RemovedError as error:
                removed(error.start)
                start = error.start
