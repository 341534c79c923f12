"""Says whose the records are that are not compared, and tells what is there twice from what is foreign."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import records_of
from mirror_ray.verification.batch_scan import batches_in
from mirror_ray.verification.compared_ranges import PositionPair, stretches
from mirror_ray.verification.comparison import LOOKAHEAD, MOST_FINDINGS
from mirror_ray.verification.difference import Difference
from mirror_ray.verification.in_flight import unexpected, unexpected_of_cleaned
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.known_differences import KnownDifferences, with_gaps
from mirror_ray.verification.partition_log import PartitionLog, RemovedError
from mirror_ray.verification.record_hashes import HashedRecord, RecordHash, printed
from mirror_ray.verification.report import CheckedRecords
from mirror_ray.verification.uncompared import RecordSorter, UncomparedAccount, WrittenBatch, swapped

#: So many offsets before and behind a record that is too much, one that is equal is looked for on the source.
_NEAR = 8192
#: Findings that lie no further apart are looked at together, and so many offsets at most.
_APART, _TOGETHER = 1000, 50_000
#: Such stretches of a partition.
_MOST_STRETCHES = 20
#: Records of a compacted source behind the acknowledged pair that are held; of further ones the keys are.
_MOST_FOLLOWING = 100_000
_EVERYWHERE = PositionPair(sys.maxsize, sys.maxsize)


class UncomparedRecords:
    """Accounts for what a job does not compare. ``logs`` gives its partition on both sides."""

    def __init__(self, logs: Callable[[CompareJob], tuple[PartitionLog, PartitionLog]]) -> None:
        self._logs = logs

    async def account(self, job: CompareJob, checked: CheckedRecords) -> tuple[CheckedRecords, UncomparedAccount]:
        """What was found with what lies outside of it, and the numbers of that.

        Raises:
            ClusterUnreachableError: A cluster does not answer.
            MirrorError: A log can't be read.
        """
        outside, account = await self.outside(job)
        findings = await self._with_twins(job, [*checked.findings, *outside])
        gave_up = checked.gave_up or account.foreign > MOST_FINDINGS
        account = replace(
            account, cleaned_on_source=checked.cleaned_on_source, cleaned_on_target=checked.cleaned_on_target
        )
        reason = checked.reason or whose_is_not_known(account)
        return replace(checked, findings=findings, gave_up=gave_up, reason=reason), account

    async def outside(self, job: CompareJob) -> tuple[list[Difference], UncomparedAccount]:
        """What is wrong with what lies outside of what is compared, and its numbers. Raises as ``account`` does."""
        if not job.beside:
            return [], job.account
        job = await self._with_own_writer(job)
        # Where nothing is compared, what the map does not account for is not known to be too much.
        compared = (job.begin.target if job.ranges else job.end.target), job.end.target
        sorter = RecordSorter.of(job.writers, job.copied, job.origin, compared, MOST_FINDINGS)
        async for batch in batches_in(self._logs(job)[1], job.beside):
            sorter.take(_written(batch, job, wanted=sorter.wants(batch.producer_id, batch.last_offset)))
        wrong = await self._unexpected(job, sorter.ours) if sorter.ours else []
        account = replace(
            job.account,
            in_flight=sorter.in_flight - sum(each.kind != "missing" for each in wrong),
            foreign=sorter.foreign_records,
            not_ours=sorter.not_ours,
            unattributed=sorter.unattributed,
        )
        findings = sorted([*sorter.found, *wrong], key=_place)
        return with_gaps(findings, KnownDifferences(job.gaps, _EVERYWHERE)), account

    async def _with_own_writer(self, job: CompareJob) -> CompareJob:
        """Where the state does not say who writes for the flow: whoever wrote the last batch that was acknowledged."""
        if job.writers.own or not job.ranges or job.ranges[-1].target_end <= job.begin.target:
            return job
        last = job.ranges[-1].target_end
        own = {batch.producer_id async for batch in batches_in(self._logs(job)[1], [(last - 1, last)])}
        return replace(job, writers=replace(job.writers, own=frozenset(own), flows=job.writers.flows | own))

    async def _unexpected(self, job: CompareJob, ours: Sequence[HashedRecord]) -> list[Difference]:
        """What of ours behind the acknowledged pair is not what the source has next."""
        if job.unlike is not None:
            return []
        try:
            return await (self._of_cleaned(job, ours) if job.compacted else self._of_whole(job, ours))
        except RemovedError:
            # What the source does not have any more says nothing against its copy.
            return []

    async def _of_whole(self, job: CompareJob, ours: Sequence[HashedRecord]) -> list[Difference]:
        following: list[HashedRecord] = []
        async for records in self._logs(job)[0].records(job.copied.source, job.source_end):
            following += [printed(record, timestamps=job.timestamps) for record in records]
            if len(following) >= len(ours) + LOOKAHEAD:
                break
        return unexpected(ours, following, job.copied)

    async def _of_cleaned(self, job: CompareJob, ours: Sequence[HashedRecord]) -> list[Difference]:
        source, target = self._logs(job)
        following: list[HashedRecord] = []
        newer: set[bytes] = set()
        end = max(job.source_end, await source.end())
        async for records in source.records(job.copied.source, end):
            prints = [printed(record, timestamps=job.timestamps) for record in records]
            newer |= {each.print.key for each in prints[max(0, _MOST_FOLLOWING - len(following)) :]}
            following += prints[: max(0, _MOST_FOLLOWING - len(following))]
        found = unexpected_of_cleaned(ours, following, job.copied, end, newer)
        if not found:
            return []
        # Either side may have been cleaned for what was written since, and the target for what others wrote there.
        for log, first in ((source, end), (target, job.copied.target)):
            mine = {record.offset for record in ours} if log is target else set()
            async for records in log.records(first, await log.end()):
                newer |= {printed(each, timestamps=False).print.key for each in records if each.offset not in mine}
        return unexpected_of_cleaned(ours, following, job.copied, end, newer)

    async def _with_twins(self, job: CompareJob, findings: Sequence[Difference]) -> list[Difference]:
        """Told by what the source has nearby: a record that is there twice, two in each other's place; and by whom."""
        doubtful = [found for found in findings if found.kind in ("extra", "changed") and found.gap is None]
        told: dict[Difference, Difference | None] = {}
        for near in list(_near(doubtful))[:_MOST_STRETCHES]:
            told |= await self._told(job, near)
        if not told:
            return list(findings)
        known = (told.get(found, found) for found in findings)
        return sorted((found for found in known if found is not None), key=_place)

    async def _told(self, job: CompareJob, near: Sequence[Difference]) -> dict[Difference, Difference | None]:
        wanted = {found.target_offset for found in near}
        there: dict[int, RecordHash] = {}
        writers: dict[int, int] = {}
        async for batch in batches_in(self._logs(job)[1], [(min(wanted), max(wanted) + 1)]):
            for record in records_of(batch):
                if record.offset in wanted:
                    there[record.offset] = printed(record, timestamps=job.timestamps).print
                    writers[record.offset] = batch.producer_id
        twins = await self._source_places(job, near, set(there.values()))
        told: dict[Difference, Difference | None] = dict(swapped(near, there, twins))
        for found in near:
            content = there.get(found.target_offset)
            if found.kind == "extra" and content is not None:
                foreign = not job.writers.knows(writers[found.target_offset])
                known = replace(found, producer_id=writers[found.target_offset] if foreign else found.producer_id)
                twin = twins.get(content)
                told[found] = known if twin is None else replace(known, kind="doubled", source_offset=twin)
        return told

    async def _source_places(
        self, job: CompareJob, near: Iterable[Difference], contents: Collection[RecordHash]
    ) -> dict[RecordHash, int]:
        """The first place on the source, near to these findings, of each content that is there."""
        source = self._logs(job)[0]
        start, end = await source.start(), await source.end()
        places = ((max(start, found.source_offset - _NEAR), min(end, found.source_offset + _NEAR)) for found in near)
        found: dict[RecordHash, int] = {}
        for first, behind in stretches(places)[:_MOST_STRETCHES]:
            try:
                async for records in source.records(first, behind):
                    for record in records:
                        content = printed(record, timestamps=job.timestamps).print
                        if content in contents:
                            found.setdefault(content, record.offset)
            except RemovedError:
                continue
        return found


def whose_is_not_known(account: UncomparedAccount) -> str | None:
    """Why a partition can't be called equal for records that may be anybody's."""
    if not account.unattributed:
        return None
    return f"whose {account.unattributed:,} records on the target are is not known: the state of a flow can't be read"


def _written(batch: RecordBatch, job: CompareJob, *, wanted: bool) -> WrittenBatch:
    """A batch by its header, with what its records are if ``wanted``, of those that lie beside what is compared."""
    inside = [
        (max(first, batch.base_offset), min(end, batch.next_offset))
        for first, end in job.beside
        if first < batch.next_offset and batch.base_offset < end
    ]
    offset = inside[0][0] if inside else batch.base_offset
    if not wanted:
        return WrittenBatch(batch.producer_id, offset, min(batch.count, sum(end - first for first, end in inside)))
    prints = [
        printed(record, timestamps=job.timestamps)
        for record in records_of(batch)
        if any(first <= record.offset < end for first, end in inside)
    ]
    return WrittenBatch(batch.producer_id, offset, len(prints), prints)


def _near(findings: Iterable[Difference]) -> Iterable[list[Difference]]:
    """Findings by where they lie on the target, those that lie near each other together."""
    run: list[Difference] = []
    for found in sorted(findings, key=_place):
        if run and (
            found.target_offset - run[-1].target_offset > _APART
            or found.target_offset - run[0].target_offset > _TOGETHER
        ):
            yield run
            run = []
        run.append(found)
    if run:
        yield run


def _place(found: Difference) -> tuple[int, int]:
    return found.target_offset, found.source_offset
