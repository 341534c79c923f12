"""The second look: what differs is read again, record by record, and told in words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

from mirror_ray.records.decode import Record
from mirror_ray.verification.compare import Comparison
from mirror_ray.verification.finding import Finding, with_gaps
from mirror_ray.verification.job import Job, Look
from mirror_ray.verification.keys import LastPrints, key_findings
from mirror_ray.verification.looking import read_both, read_spans
from mirror_ray.verification.prints import Printed, printed
from mirror_ray.verification.ranges import Pair, Range, joined
from mirror_ray.verification.reading import Log, RemovedError
from mirror_ray.verification.verdict import Checked

#: Retention may take the beginning of what is read; then it is begun anew behind that.
_ATTEMPTS = 10
#: Keys of one partition that are looked at again.
MOST_KEYS = 1000

#: The first exact pair of a job at or behind both positions; None: none is known.
BeginAt = Callable[[Job, int, int], Awaitable[Pair | None]]


@dataclass(slots=True)
class _Drilled:
    records: int = 0
    target_records: int = 0
    findings: list[Finding] = field(default_factory=list)
    gave_up: bool = False
    removed: int = 0


class Judge:
    """Says of a job what its first look comes to. ``logs`` gives a job's partition on both sides."""

    def __init__(self, logs: Callable[[Job], tuple[Log, Log]], begin_at: BeginAt) -> None:
        self._logs = logs
        self._begin_at = begin_at

    async def judge(self, job: Job, look: Look) -> Checked:
        """Look at what differs, and tell it.

        Raises:
            ClusterUnreachableError: A cluster does not answer.
            MirrorError: A log can't be read.
        """
        return await (self._judge_keys(job, look) if job.compacted else self._judge_ranges(job, look))

    async def _judge_ranges(self, job: Job, look: Look) -> Checked:
        whole = _Drilled()
        for each in joined(job.ranges[number] for number in look.ranges):
            found = await self._drill(job, each)
            whole.records += found.records
            whole.target_records += found.target_records
            whole.findings += found.findings
            whole.removed += found.removed
            if found.gave_up:
                whole.gave_up = True
                break
        notes = job.notes
        if whole.removed:
            notes += (f"{whole.removed} source offsets were removed from a log before they were compared",)
        return Checked(
            ranges=len(job.ranges),
            ranges_checked=len(job.chosen),
            records=look.records + whole.records,
            target_records=look.target_records + whole.target_records,
            findings=with_gaps(whole.findings, job.gaps),
            gave_up=whole.gave_up,
            notes=notes,
        )

    async def _drill(self, job: Job, span: Range) -> _Drilled:
        removed = 0
        for _ in range(_ATTEMPTS):
            begin = await self._still_there(job, span)
            removed += min(begin.source, span.source_end) - span.source
            span = Range(begin.source, span.source_end, begin.target, span.target_end)
            if begin.source >= span.source_end:
                return _Drilled(removed=removed)
            try:
                return await self._compare(job, span, removed)
            except RemovedError:
                continue
        return _Drilled(removed=removed + span.source_end - span.source)

    async def _still_there(self, job: Job, span: Range) -> Pair:
        """Where a range begins now, or its end where nothing of it is left to compare."""
        source, target = self._logs(job)
        starts = await asyncio.gather(source.start(), target.start())
        if starts[0] <= span.source and starts[1] <= span.target:
            return span.begin
        begin = await self._begin_at(job, max(starts[0], span.source), max(starts[1], span.target))
        end = Pair(span.source_end, span.target_end)
        return end if begin is None or begin.source >= end.source or begin.target > end.target else begin

    async def _compare(self, job: Job, span: Range, removed: int) -> _Drilled:
        logs = self._logs(job)
        source = _prints(logs[0].records(span.source, span.source_end), job)
        target = _prints(logs[1].records(span.target, span.target_end), job)
        comparison = Comparison(span.source_end, span.target_end)
        while not comparison.done:
            if comparison.wants_source:
                comparison.feed_source(await anext(source, None))
            if comparison.wants_target:
                comparison.feed_target(await anext(target, None))
            comparison.step()
        return _Drilled(
            comparison.records, comparison.target_records, comparison.findings(), comparison.gave_up, removed
        )

    async def _judge_keys(self, job: Job, look: Look) -> Checked:
        keys = set(sorted(look.differing_keys)[:MOST_KEYS])
        superseded: set[bytes] = set()
        findings: list[Finding] = []
        if keys:
            superseded = await self._superseded(job, keys)
            findings = await self._findings_of_keys(job, keys - superseded)
        if findings:
            # What was read last may have been cleaned for what was written just before.
            late = await self._superseded(job, keys - superseded)
            superseded |= late
            findings = await self._findings_of_keys(job, keys - superseded) if late else findings
        return Checked(
            ranges=len(job.ranges),
            ranges_checked=len(job.chosen),
            records=look.records,
            target_records=look.target_records,
            keys=look.keys,
            superseded=len(superseded),
            findings=with_gaps(findings, job.gaps),
            gave_up=len(look.differing_keys) > MOST_KEYS,
            notes=job.notes,
        )

    async def _superseded(self, job: Job, keys: Collection[bytes]) -> set[bytes]:
        """The keys of which one side holds a newer record, behind the end; or another flow's, in a shared topic."""
        source, target = self._logs(job)
        ends = await asyncio.gather(source.end(), target.end())
        found = _Seen(keys)
        await read_spans(source, [(job.end.source, ends[0])], found)
        others = [*_between(job), (job.end.target, ends[1])]
        await read_spans(target, others, found)
        return found.seen

    async def _findings_of_keys(self, job: Job, keys: Collection[bytes]) -> list[Finding]:
        if not keys:
            return []
        logs = self._logs(job)
        mine, theirs = LastPrints(job.timestamps, keys), LastPrints(job.timestamps, keys)
        await read_both(logs, job, mine, theirs)
        findings = key_findings(mine.found, theirs.found, (job.end.source, job.end.target))
        starts = await asyncio.gather(*(log.start() for log in logs))
        if starts[0] <= job.begin.source and starts[1] <= job.begin.target:
            return findings
        begin = await self._begin_at(job, max(starts[0], job.begin.source), max(starts[1], job.begin.target))
        return [] if begin is None else [each for each in findings if _is_behind(each, begin)]


class _Seen:
    """Which of these keys have records."""

    def __init__(self, keys: Collection[bytes]) -> None:
        self._keys = keys
        self.seen: set[bytes] = set()

    def take(self, records: Sequence[Record]) -> None:
        """Take the next records."""
        self.seen |= {key for record in records if (key := record.key) is not None and key in self._keys}


async def _prints(records: AsyncIterator[list[Record]], job: Job) -> AsyncIterator[list[Printed]]:
    async for some in records:
        yield [printed(record, timestamps=job.timestamps) for record in some]


def _between(job: Job) -> list[tuple[int, int]]:
    """Target offsets between the ranges: others wrote there."""
    at, found = job.begin.target, []
    for each in job.ranges:
        if each.target > at:
            found.append((at, each.target))
        at = each.target_end
    return found


def _is_behind(finding: Finding, begin: Pair) -> bool:
    source, target = finding.source_offset >= begin.source, finding.target_offset >= begin.target
    return source and target
