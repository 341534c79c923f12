"""Says whose the records are that are not compared, and tells what is there twice from what is foreign."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import records_of
from mirror_ray.verification.difference import Difference, HashedRecord, RecordHash, hash_record
from mirror_ray.verification.in_flight import compacted_in_flight_differences, in_flight_differences
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.known_differences import KnownDifferences, with_explanations
from mirror_ray.verification.partition_log import PartitionLog, RemovedError, read_batches
from mirror_ray.verification.producers import RecordAttribution, WrittenBatch
from mirror_ray.verification.ranges import PositionPair, merge_spans
from mirror_ray.verification.record_comparison import LOOKAHEAD, MAX_DIFFERENCES
from mirror_ray.verification.report import CheckedRecords, UncomparedAccount

#: So many offsets before and behind a record that is too much, one that is equal is looked for on the source.
_NEAR = 8192
#: Findings that lie no further apart are looked at together, and so many offsets at most.
_APART, _TOGETHER = 1000, 50_000
#: Such stretches of a partition.
_MAX_SPANS = 20
#: Records of a compacted source behind the acknowledged pair that are held; of further ones the keys are.
_MAX_FOLLOWING = 100_000
_NO_HASH = RecordHash(b"", b"", b"", -1)
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
        findings = await self._with_twins(job, [*checked.differences, *outside])
        gave_up = checked.gave_up or account.foreign > MAX_DIFFERENCES
        account = replace(
            account, cleaned_on_source=checked.cleaned_on_source, cleaned_on_target=checked.cleaned_on_target
        )
        reason = checked.reason or unattributed_reason(account)
        return replace(checked, differences=findings, gave_up=gave_up, reason=reason), account

    async def outside(self, job: CompareJob) -> tuple[list[Difference], UncomparedAccount]:
        """What is wrong with what lies outside of what is compared, and its numbers. Raises as ``account`` does."""
        if not job.uncompared:
            return [], job.account
        job = await self._with_own_writer(job)
        # Where nothing is compared, what the map does not account for is not known to be too much.
        compared = (job.begin.target if job.ranges else job.end.target), job.end.target
        attribution = RecordAttribution(
            owners=job.owners,
            reached=job.acknowledged,
            copy_start=job.copy_start,
            compared=compared,
            most=MAX_DIFFERENCES,
        )
        async for batch in read_batches(self._logs(job)[1], job.uncompared):
            attribution.take(
                _written_batch(batch, job, wanted=attribution.needs_records(batch.producer_id, batch.last_offset))
            )
        wrong = await self._unexpected(job, attribution.ours) if attribution.ours else []
        account = replace(
            job.account,
            in_flight=attribution.in_flight - sum(each.kind != "missing" for each in wrong),
            foreign=attribution.foreign_records,
            not_ours=attribution.not_ours,
            unattributed=attribution.unattributed,
        )
        findings = sorted([*attribution.found, *wrong], key=_place)
        return with_explanations(findings, KnownDifferences(job.skipped_ranges, _EVERYWHERE)), account

    async def _with_own_writer(self, job: CompareJob) -> CompareJob:
        """Where the state does not say who writes for the flow: whoever wrote the last batch that was acknowledged."""
        if job.owners.own or not job.ranges or job.ranges[-1].target_end <= job.begin.target:
            return job
        last = job.ranges[-1].target_end
        own = {batch.producer_id async for batch in read_batches(self._logs(job)[1], [(last - 1, last)])}
        return replace(job, owners=replace(job.owners, own=frozenset(own), flows=job.owners.flows | own))

    async def _unexpected(self, job: CompareJob, ours: Sequence[HashedRecord]) -> list[Difference]:
        """What of ours behind the acknowledged pair is not what the source has next."""
        if job.irreproducible is not None:
            return []
        try:
            return await (self._of_cleaned(job, ours) if job.compacted else self._of_whole(job, ours))
        except RemovedError:
            # What the source does not have any more says nothing against its copy.
            return []

    async def _of_whole(self, job: CompareJob, ours: Sequence[HashedRecord]) -> list[Difference]:
        following: list[HashedRecord] = []
        async for records in self._logs(job)[0].records(job.acknowledged.source, job.source_end):
            following += [hash_record(record, timestamps=job.timestamps) for record in records]
            if len(following) >= len(ours) + LOOKAHEAD:
                break
        return in_flight_differences(ours, following, job.acknowledged)

    async def _of_cleaned(self, job: CompareJob, ours: Sequence[HashedRecord]) -> list[Difference]:
        source, target = self._logs(job)
        following: list[HashedRecord] = []
        newer: set[bytes] = set()
        end = max(job.source_end, await source.end())
        async for records in source.records(job.acknowledged.source, end):
            hashes = [hash_record(record, timestamps=job.timestamps) for record in records]
            newer |= {each.hash.key for each in hashes[max(0, _MAX_FOLLOWING - len(following)) :]}
            following += hashes[: max(0, _MAX_FOLLOWING - len(following))]
        found = compacted_in_flight_differences(ours, following, job.acknowledged, end, newer)
        if not found:
            return []
        # Either side may have been cleaned for what was written since, and the target for what others wrote there.
        for log, first in ((source, end), (target, job.acknowledged.target)):
            mine = {record.offset for record in ours} if log is target else set()
            async for records in log.records(first, await log.end()):
                newer |= {hash_record(each, timestamps=False).hash.key for each in records if each.offset not in mine}
        return compacted_in_flight_differences(ours, following, job.acknowledged, end, newer)

    async def _with_twins(self, job: CompareJob, findings: Sequence[Difference]) -> list[Difference]:
        """Told by what the source has nearby: a record that is there twice, two in each other's place; and by whom."""
        doubtful = [found for found in findings if found.kind in ("extra", "changed") and found.gap is None]
        told: dict[Difference, Difference | None] = {}
        for near in list(_near(doubtful))[:_MAX_SPANS]:
            told |= await self._told(job, near)
        if not told:
            return list(findings)
        known = (told.get(found, found) for found in findings)
        return sorted((found for found in known if found is not None), key=_place)

    async def _told(self, job: CompareJob, near: Sequence[Difference]) -> dict[Difference, Difference | None]:
        wanted = {found.target_offset for found in near}
        there: dict[int, RecordHash] = {}
        writers: dict[int, int] = {}
        async for batch in read_batches(self._logs(job)[1], [(min(wanted), max(wanted) + 1)]):
            for record in records_of(batch):
                if record.offset in wanted:
                    there[record.offset] = hash_record(record, timestamps=job.timestamps).hash
                    writers[record.offset] = batch.producer_id
        twins = await self._source_places(job, near, set(there.values()))
        told: dict[Difference, Difference | None] = dict(swapped(near, there, twins))
        for found in near:
            content = there.get(found.target_offset)
            if found.kind == "extra" and content is not None:
                foreign = not job.owners.may_write(writers[found.target_offset])
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
        for first, behind in merge_spans(places)[:_MAX_SPANS]:
            try:
                async for records in source.records(first, behind):
                    for record in records:
                        content = hash_record(record, timestamps=job.timestamps).hash
                        if content in contents:
                            found.setdefault(content, record.offset)
            except RemovedError:
                continue
        return found


def unattributed_reason(account: UncomparedAccount) -> str | None:
    """Why a partition can't be called equal for records that may be anybody's."""
    if not account.unattributed:
        return None
    return f"whose {account.unattributed:,} records on the target are is not known: the state of a flow can't be read"


def _written_batch(batch: RecordBatch, job: CompareJob, *, wanted: bool) -> WrittenBatch:
    """A batch by its header, with what its records are if ``wanted``, of those that lie beside what is compared."""
    inside = [
        (max(first, batch.base_offset), min(end, batch.next_offset))
        for first, end in job.uncompared
        if first < batch.next_offset and batch.base_offset < end
    ]
    offset = inside[0][0] if inside else batch.base_offset
    if not wanted:
        return WrittenBatch(batch.producer_id, offset, min(batch.count, sum(end - first for first, end in inside)))
    hashes = [
        hash_record(record, timestamps=job.timestamps)
        for record in records_of(batch)
        if any(first <= record.offset < end for first, end in inside)
    ]
    return WrittenBatch(batch.producer_id, offset, len(hashes), hashes)


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


def swapped(
    differences: Iterable[Difference], there: Mapping[int, RecordHash], twins: Mapping[RecordHash, int]
) -> dict[Difference, Difference | None]:
    """Join pairs of changed records that have each other's content, though other records lie between them.

    Args:
        differences: All that were found.
        there: The target's records, by their offsets.
        twins: The source offsets of records.

    Returns:
        For the first of two such differences a ``swapped`` one, and None for the second.
    """
    changed = {found.source_offset: found for found in differences if found.kind == "changed"}
    joined: dict[Difference, Difference | None] = {}
    for source, found in changed.items():
        other = changed.get(twins.get(there.get(found.target_offset, _NO_HASH), -1))
        if other is None or other in joined or found in joined or other is found:
            continue
        if twins.get(there.get(other.target_offset, _NO_HASH)) == source:
            joined |= {found: replace(found, kind="swapped", fields=()), other: None}
    return joined
