"""Reads records that are not compared: finds out who wrote them, and tells doubled records from foreign ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import records_of
from mirror_ray.verification.difference import Difference, HashedRecord, RecordHash, by_target_offset, hash_record
from mirror_ray.verification.in_flight import compacted_in_flight_differences, in_flight_differences
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.known_differences import KnownDifferences, with_explanations
from mirror_ray.verification.partition_log import PartitionLog, RemovedError, read_batches
from mirror_ray.verification.producers import RecordAttribution, WrittenBatch
from mirror_ray.verification.ranges import PositionPair, merge_spans
from mirror_ray.verification.record_comparison import LOOKAHEAD, MAX_DIFFERENCES
from mirror_ray.verification.report import CheckedRecords, UncomparedAccount

#: Offsets before and behind a surplus record in which an equal one is searched for on the source.
_NEAR = 8192
#: Differences that lie no further apart are read together, and so many offsets at most.
_APART, _TOGETHER = 1000, 50_000
#: Such groups of a partition that are read.
_MAX_SPANS = 20
#: Records of a compacted source behind the acknowledged pair that are held; of later ones only the keys are.
_MAX_FOLLOWING = 100_000
_NO_HASH = RecordHash(b"", b"", b"", -1)
_EVERYWHERE = PositionPair(sys.maxsize, sys.maxsize)


class UncomparedRecords:
    """Accounts for the records that a job does not compare. ``logs`` gives its partition on both sides."""

    def __init__(self, logs: Callable[[CompareJob], tuple[PartitionLog, PartitionLog]]) -> None:
        self._logs = logs

    async def account(self, job: CompareJob, checked: CheckedRecords) -> tuple[CheckedRecords, UncomparedAccount]:
        """Add the differences outside of what was compared, and what was counted. Raises as ``read_batches`` does."""
        outside, account = await self.outside(job)
        differences = await self._with_source_records(job, [*checked.differences, *outside])
        gave_up = checked.gave_up or account.foreign > MAX_DIFFERENCES
        account = replace(
            account, cleaned_on_source=checked.cleaned_on_source, cleaned_on_target=checked.cleaned_on_target
        )
        reason = checked.reason or unattributed_reason(account)
        return replace(checked, differences=differences, gave_up=gave_up, reason=reason), account

    async def outside(self, job: CompareJob) -> tuple[list[Difference], UncomparedAccount]:
        """The differences and figures of what lies outside of what is compared. Raises as ``read_batches`` does."""
        if not job.uncompared:
            return [], job.account
        job = await self._with_own_writer(job)
        # If nothing is compared, records that the offset map does not account for may still belong there.
        compared = (job.begin.target if job.ranges else job.end.target), job.end.target
        attribution = RecordAttribution(
            owners=job.owners,
            reached=job.acknowledged,
            copy_start=job.copy_start,
            compared=compared,
            most=MAX_DIFFERENCES,
        )
        async for batch in read_batches(self._logs(job)[1], job.uncompared):
            wanted = attribution.needs_records(batch.producer_id, batch.last_offset)
            attribution.take(_written_batch(batch, job, wanted=wanted))
        wrong = await self._in_flight(job, attribution.ours) if attribution.ours else []
        account = replace(
            job.account,
            in_flight=attribution.in_flight - sum(difference.kind != "missing" for difference in wrong),
            foreign=attribution.foreign_records,
            not_ours=attribution.not_ours,
            unattributed=attribution.unattributed,
        )
        differences = sorted([*attribution.found, *wrong], key=by_target_offset)
        return with_explanations(differences, KnownDifferences(job.skipped_ranges, _EVERYWHERE)), account

    async def _with_own_writer(self, job: CompareJob) -> CompareJob:
        """If the state does not name the flow's producer, take the producer of the last acknowledged batch."""
        if job.owners.own or not job.ranges or job.ranges[-1].target_end <= job.begin.target:
            return job
        last = job.ranges[-1].target_end
        own = {batch.producer_id async for batch in read_batches(self._logs(job)[1], [(last - 1, last)])}
        return replace(job, owners=replace(job.owners, own=frozenset(own), flows=job.owners.flows | own))

    async def _in_flight(self, job: CompareJob, ours: Sequence[HashedRecord]) -> list[Difference]:
        """Compare our records behind the acknowledged pair with the source's next ones."""
        if job.irreproducible is not None:
            return []
        try:
            return await (self._compacted_in_flight(job, ours) if job.compacted else self._ordered_in_flight(job, ours))
        except RemovedError:
            # Records that the source has removed can't be compared with their copies.
            return []

    async def _ordered_in_flight(self, job: CompareJob, ours: Sequence[HashedRecord]) -> list[Difference]:
        following: list[HashedRecord] = []
        async for records in self._logs(job)[0].records(job.acknowledged.source, job.source_end):
            following += [hash_record(record, timestamps=job.timestamps) for record in records]
            if len(following) >= len(ours) + LOOKAHEAD:
                break
        return in_flight_differences(ours, following, job.acknowledged)

    async def _compacted_in_flight(self, job: CompareJob, ours: Sequence[HashedRecord]) -> list[Difference]:
        source, target = self._logs(job)
        following: list[HashedRecord] = []
        newer: set[bytes] = set()
        end = max(job.source_end, await source.end())
        async for records in source.records(job.acknowledged.source, end):
            hashes = [hash_record(record, timestamps=job.timestamps) for record in records]
            newer |= {record.hash.key for record in hashes[max(0, _MAX_FOLLOWING - len(following)) :]}
            following += hashes[: max(0, _MAX_FOLLOWING - len(following))]
        found = compacted_in_flight_differences(ours, following, job.acknowledged, end, newer)
        if not found:
            return []
        # Records that were written since, also by others on the target, may have caused cleaning on either side.
        for log, first in ((source, end), (target, job.acknowledged.target)):
            mine = {record.offset for record in ours} if log is target else set()
            async for records in log.records(first, await log.end()):
                others = (record for record in records if record.offset not in mine)
                newer |= {hash_record(record, timestamps=False).hash.key for record in others}
        return compacted_in_flight_differences(ours, following, job.acknowledged, end, newer)

    async def _with_source_records(self, job: CompareJob, differences: Sequence[Difference]) -> list[Difference]:
        """Refine differences by what the source has nearby: doubled and swapped records; and who wrote them."""
        open_differences = [found for found in differences if found.kind in ("extra", "changed") and found.gap is None]
        refined: dict[Difference, Difference | None] = {}
        for near in list(_near(open_differences))[:_MAX_SPANS]:
            refined |= await self._refined(job, near)
        if not refined:
            return list(differences)
        known = (refined.get(found, found) for found in differences)
        return sorted((found for found in known if found is not None), key=by_target_offset)

    async def _refined(self, job: CompareJob, near: Sequence[Difference]) -> dict[Difference, Difference | None]:
        wanted = {found.target_offset for found in near}
        there: dict[int, RecordHash] = {}
        writers: dict[int, int] = {}
        async for batch in read_batches(self._logs(job)[1], [(min(wanted), max(wanted) + 1)]):
            for record in records_of(batch):
                if record.offset in wanted:
                    there[record.offset] = hash_record(record, timestamps=job.timestamps).hash
                    writers[record.offset] = batch.producer_id
        equal_on_source = await self._find_on_source(job, near, set(there.values()))
        refined: dict[Difference, Difference | None] = dict(swapped(near, there, equal_on_source))
        for found in near:
            content = there.get(found.target_offset)
            if found.kind == "extra" and content is not None:
                foreign = not job.owners.may_write(writers[found.target_offset])
                known = replace(found, producer_id=writers[found.target_offset] if foreign else found.producer_id)
                equal = equal_on_source.get(content)
                refined[found] = known if equal is None else replace(known, kind="doubled", source_offset=equal)
        return refined

    async def _find_on_source(
        self, job: CompareJob, near: Iterable[Difference], contents: Collection[RecordHash]
    ) -> dict[RecordHash, int]:
        """The first source offset, near these differences, of each record that is there."""
        source = self._logs(job)[0]
        start, end = await source.start(), await source.end()
        spans = ((max(start, found.source_offset - _NEAR), min(end, found.source_offset + _NEAR)) for found in near)
        found: dict[RecordHash, int] = {}
        for first, behind in merge_spans(spans)[:_MAX_SPANS]:
            with suppress(RemovedError):
                async for records in source.records(first, behind):
                    for record in records:
                        content = hash_record(record, timestamps=job.timestamps).hash
                        if content in contents:
                            found.setdefault(content, record.offset)
        return found


def unattributed_reason(account: UncomparedAccount) -> str | None:
    """Why a partition can't be called equal if some of its records may be another flow's."""
    if not account.unattributed:
        return None
    return f"whose {account.unattributed:,} records on the target are is not known: the state of a flow can't be read"


def _written_batch(batch: RecordBatch, job: CompareJob, *, wanted: bool) -> WrittenBatch:
    """Describe a batch by its header, with its records' hashes if ``wanted``; only the part that is not compared."""
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


def _near(differences: Iterable[Difference]) -> Iterable[list[Difference]]:
    """Group differences that lie near each other on the target."""
    run: list[Difference] = []
    for found in sorted(differences, key=by_target_offset):
        if run and (
            found.target_offset - run[-1].target_offset > _APART
            or found.target_offset - run[0].target_offset > _TOGETHER
        ):
            yield run
            run = []
        run.append(found)
    if run:
        yield run


def swapped(
    differences: Iterable[Difference], there: Mapping[int, RecordHash], equal_on_source: Mapping[RecordHash, int]
) -> dict[Difference, Difference | None]:
    """Join pairs of changed records that have each other's content, though other records lie between them.

    ``there`` are the target's records by offset, ``equal_on_source`` the source offsets of records.

    Returns:
        For the first of two such differences a ``swapped`` one, and None for the second.
    """
    changed = {found.source_offset: found for found in differences if found.kind == "changed"}
    joined: dict[Difference, Difference | None] = {}
    for source, found in changed.items():
        other = changed.get(equal_on_source.get(there.get(found.target_offset, _NO_HASH), -1))
        if other is None or other in joined or found in joined or other is found:
            continue
        if equal_on_source.get(there.get(other.target_offset, _NO_HASH)) == source:
            joined |= {found: replace(found, kind="swapped", fields=()), other: None}
    return joined
