"""The second pass: what differs is read again, and compared record by record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from mirror_ray.records import kernel
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.verification.compacted import LastRecordHashes, RecordHashes, compare_in_order, key_differences
from mirror_ray.verification.difference import Difference, HashedRecord, by_target_offset, hash_record
from mirror_ray.verification.first_pass import read_batches_of_both, read_both, read_spans
from mirror_ray.verification.job import CompareJob, FirstPassResult
from mirror_ray.verification.known_differences import KnownDifferences, large_skipped_ranges, with_explanations
from mirror_ray.verification.partition_log import PartitionLog, RemovedError
from mirror_ray.verification.ranges import ComparedRange, PositionPair, join_ranges, ranges_between
from mirror_ray.verification.record_comparison import LOOKAHEAD, RecordComparison
from mirror_ray.verification.report import CheckedRecords

#: Retention may remove the beginning of what is read; then reading starts again behind it.
_ATTEMPTS = 10
#: Keys of one partition that are compared again, of those that no newer record supersedes.
MAX_KEYS = 1000
#: Records of one side of a compacted partition that are held in memory to be compared in order.
MAX_ORDERED_RECORDS = 300_000
#: Behind a skipped range of so many offsets comparing begins anew: the lookahead does not reach over it.
_LARGE_SKIPPED_RANGE = LOOKAHEAD // 2

_LAST_RECORDS_ONLY = "only the last record of each key was compared, not its order, nor older ones"

#: The first exact pair of a job at or behind both positions; None: none is known.
FindPair = Callable[[CompareJob, int, int], Awaitable[PositionPair | None]]


@dataclass(slots=True)
class _SpanDifferences:
    records: int = 0
    target_records: int = 0
    differences: list[Difference] = field(default_factory=list)
    gave_up: bool = False
    removed: int = 0
    #: Why some of it could not be compared.
    reason: str | None = None

    def add(self, other: _SpanDifferences) -> None:
        """Add what was found in a later span."""
        self.records += other.records
        self.target_records += other.target_records
        self.differences += other.differences
        self.gave_up |= other.gave_up
        self.removed += other.removed
        self.reason = self.reason or other.reason


class SecondPass:
    """Finds the differences of a job. ``logs`` gives a job's partition on both sides."""

    def __init__(self, logs: Callable[[CompareJob], tuple[PartitionLog, PartitionLog]], find_pair: FindPair) -> None:
        self._logs = logs
        self._find_pair = find_pair

    async def run(self, job: CompareJob, first: FirstPassResult) -> CheckedRecords:
        """Compare again what differed in the first pass, and name each difference. Raises as ``read_spans`` does."""
        return await (self._check_keys(job, first) if job.compacted else self._check_ranges(job, first))

    async def _check_ranges(self, job: CompareJob, first: FirstPassResult) -> CheckedRecords:
        total = _SpanDifferences()
        for span in join_ranges(job.ranges[number] for number in first.ranges):
            for piece in await self._between_skipped_ranges(job, span):
                if not total.gave_up:
                    total.add(await self._compare_span(job, piece))
        records, target_records = first.records + total.records, first.target_records + total.target_records
        return _checked(job, total, records=records, target_records=target_records)

    async def _between_skipped_ranges(self, job: CompareJob, span: ComparedRange) -> list[ComparedRange]:
        """Cut a range behind large skipped ranges, so that nothing has to be matched across them."""
        pairs = [
            await self._find_pair(job, max(source, span.source), max(target, span.target))
            for source, target in large_skipped_ranges(job.skipped_ranges, _LARGE_SKIPPED_RANGE)
            if source < span.source_end and target < span.target_end
        ]
        cuts = [span.begin]
        for at in sorted(pair for pair in pairs if pair is not None):
            if at > cuts[-1] and cuts[-1].target <= at.target <= span.target_end and at.source <= span.source_end:
                cuts.append(at)
        return ranges_between([*cuts, span.end])

    async def _compare_span(self, job: CompareJob, span: ComparedRange) -> _SpanDifferences:
        removed = 0
        for _ in range(_ATTEMPTS):
            begin = await self._still_there(job, span.begin, span.end)
            if begin is None:
                return _SpanDifferences(removed=removed, reason=_unknown_text(span.begin, span.end))
            removed += begin.source - span.source
            (span,) = ranges_between([begin, span.end])
            try:
                return await self._compare(job, span, removed)
            except RemovedError:
                continue
        return _SpanDifferences(removed=removed, reason=_unknown_text(span.begin, span.end))

    async def _still_there(self, job: CompareJob, begin: PositionPair, end: PositionPair) -> PositionPair | None:
        """Where a span begins now: at its end if one side has nothing left of it. None: that is unknown."""
        starts = PositionPair(*await asyncio.gather(*(log.start() for log in self._logs(job))))
        if starts.source <= begin.source and starts.target <= begin.target:
            return begin
        if begin.source < end.source <= starts.source or begin.target < end.target <= starts.target:
            return end
        first = PositionPair(max(starts.source, begin.source), max(starts.target, begin.target))
        found = await self._find_pair(job, *first)
        if found is None or found.source > end.source or found.target > end.target:
            return None
        # A later pair would leave out records that both sides still have.
        return found if found.source == first.source or found.target == first.target else None

    async def _compare(self, job: CompareJob, span: ComparedRange, removed: int) -> _SpanDifferences:
        logs = self._logs(job)
        source = _hashes(logs[0].records(span.source, span.source_end), job)
        target = _hashes(logs[1].records(span.target, span.target_end), job)
        known = KnownDifferences(job.skipped_ranges, job.end)
        comparison = RecordComparison(span.end, is_known=lambda difference: known.explain(difference) is not None)
        while not comparison.done:
            for side, records in ((comparison.source, source), (comparison.target, target)):
                if side.wants:
                    side.feed(await anext(records, None))
            comparison.step()
        return _SpanDifferences(
            comparison.source.fed, comparison.target.fed, comparison.differences(), comparison.gave_up, removed
        )

    async def _check_keys(self, job: CompareJob, first: FirstPassResult) -> CheckedRecords:
        superseded: set[bytes] = set()
        found = _SpanDifferences()
        if first.differing_keys:
            superseded = await self._superseded(job, first.differing_keys)
            left = sorted(first.differing_keys - superseded)
            found, late = await self._compare_keys(job, set(left[:MAX_KEYS]))
            superseded |= late
            found.gave_up = len(left) > MAX_KEYS
        checked = _checked(
            job,
            found,
            records=first.records,
            target_records=first.target_records,
            keys=first.keys,
            superseded=len(superseded),
        )
        if first.same or found.gave_up or found.reason is not None:
            return checked
        return await self._with_order(job, checked, first.differing_keys, superseded)

    async def _with_order(
        self, job: CompareJob, checked: CheckedRecords, compared_keys: Collection[bytes], superseded: Collection[bytes]
    ) -> CheckedRecords:
        """Add what differs in the order of all records, and of keys that are not among ``compared_keys``.

        ``superseded`` are those of them that have newer records behind the end.
        """
        if job.key_fraction < 1:
            return checked
        alone = join_ranges(job.ranges) == ranges_between([job.begin, job.end])
        if not alone or max(checked.records, checked.target_records) > MAX_ORDERED_RECORDS:
            return replace(checked, notes=(*checked.notes, _LAST_RECORDS_ONLY))
        if kernel.is_available() and self._logs(job)[0].transform is None:
            cleaned = await self._cleaned(job, superseded)
            if cleaned is not None:
                return replace(checked, cleaned_on_source=cleaned[0], cleaned_on_target=cleaned[1])
        mine, theirs = RecordHashes(job.timestamps), RecordHashes(job.timestamps)
        await read_both(self._logs(job), job, mine.take, theirs.take)
        begin = await self._still_there(job, job.begin, job.end)
        if begin is None:
            return checked
        mine.drop_before(begin.source)
        theirs.drop_before(begin.target)
        keys = mine.keys | theirs.keys
        unfiltered = compare_in_order(mine.found, theirs.found, begin, job.end)
        newer = await self._superseded(job, {keys[hashed] for hashed in unfiltered.keys if hashed in keys})
        superseded = {hashed for hashed, key in keys.items() if key in newer}
        found = compare_in_order(mine.found, theirs.found, begin, job.end, superseded)
        others = [difference for difference, key in found.differences if keys.get(key) not in compared_keys]
        more = with_explanations(others, KnownDifferences(job.skipped_ranges, job.end, compacted=True))
        return replace(
            checked,
            differences=sorted([*checked.differences, *more], key=by_target_offset),
            cleaned_on_source=found.cleaned_on_source,
            cleaned_on_target=found.cleaned_on_target,
        )

    async def _cleaned(self, job: CompareJob, superseded: Collection[bytes]) -> tuple[int, int] | None:
        """How many records were cleaned on either side, if the kernel finds that nothing else differs in order."""
        comparison = kernel.CleanedComparison(timestamps=job.timestamps)
        await read_batches_of_both(self._logs(job), job, comparison.take)
        begin = await self._still_there(job, job.begin, job.end)
        if begin is None:
            return None
        return comparison.cleaned((begin.source, job.end.source), (begin.target, job.end.target), superseded)

    async def _superseded(self, job: CompareJob, keys: Collection[bytes]) -> set[bytes]:
        """The keys with a newer record behind the end on either side, or of another flow in a shared topic."""
        source, target = self._logs(job)
        ends = await asyncio.gather(source.end(), target.end())
        found: set[bytes] = set()

        def take(records: Sequence[DecodedRecord]) -> None:
            found.update(key for record in records if (key := record.key) is not None and key in keys)

        await read_spans(source, [(job.end.source, ends[0])], take)
        await read_spans(target, [*_between(job), (job.end.target, ends[1])], take)
        return found

    async def _compare_keys(self, job: CompareJob, keys: set[bytes]) -> tuple[_SpanDifferences, set[bytes]]:
        """Compare the last records of these keys; also returns keys that were superseded while they were read."""
        if not keys:
            return _SpanDifferences(), set()
        mine, theirs = LastRecordHashes(job.timestamps, keys), LastRecordHashes(job.timestamps, keys)
        await read_both(self._logs(job), job, mine.take, theirs.take)
        begin = await self._still_there(job, job.begin, job.end)
        if begin is None:
            return _SpanDifferences(reason=_unknown_text(job.begin, job.end)), set()
        mine.drop_before(begin.source)
        theirs.drop_before(begin.target)
        removed = begin.source - job.begin.source
        if not key_differences(mine, theirs, job.end):
            return _SpanDifferences(removed=removed), set()
        # A record may have been cleaned because of a newer one that was written while this read.
        late = await self._superseded(job, keys)
        mine.drop(late)
        theirs.drop(late)
        return _SpanDifferences(differences=key_differences(mine, theirs, job.end), removed=removed), late


async def _hashes(records: AsyncIterator[list[DecodedRecord]], job: CompareJob) -> AsyncIterator[list[HashedRecord]]:
    async for some in records:
        yield [hash_record(record, timestamps=job.timestamps) for record in some]


def _between(job: CompareJob) -> list[tuple[int, int]]:
    """Target offsets between the ranges: other producers wrote there."""
    at, found = job.begin.target, []
    for span in job.ranges:
        if span.target > at:
            found.append((at, span.target))
        at = span.target_end
    return found


def _checked(
    job: CompareJob, found: _SpanDifferences, *, records: int, target_records: int, keys: int = 0, superseded: int = 0
) -> CheckedRecords:
    differences = with_explanations(
        found.differences, KnownDifferences(job.skipped_ranges, job.end, compacted=job.compacted)
    )
    notes = job.notes
    if found.removed:
        notes += (f"{found.removed} source offsets were removed from a log before they were compared",)
    reason = found.reason
    if found.gave_up and all(difference.gap is not None for difference in differences):
        reason = "so much differs that the rest was not compared: compare less at once, with --since"
    return CheckedRecords(
        ranges=len(job.ranges),
        ranges_checked=len(job.chosen),
        records=records,
        target_records=target_records,
        keys=keys,
        superseded=superseded,
        differences=differences,
        gave_up=found.gave_up,
        notes=notes,
        reason=reason,
    )


def _unknown_text(begin: PositionPair, end: PositionPair) -> str:
    return (
        f"records between source offsets {begin.source} and {end.source} were removed while they were compared, and"
        " which offsets belong together behind them is not known: run it again"
    )
