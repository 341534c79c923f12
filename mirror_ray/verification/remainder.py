"""Reads what of the target is not compared, and says whose it is; tells what is there twice from what is foreign."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace

from mirror_ray.kafka.reading import read_between
from mirror_ray.model.errors import ClusterUnreachableError, KafkaProtocolError
from mirror_ray.records.batch import Batch
from mirror_ray.records.decode import records_of
from mirror_ray.verification.account import Account, Sorter, Span, Written, swapped, unexpected
from mirror_ray.verification.compare import MOST_FINDINGS
from mirror_ray.verification.finding import Finding
from mirror_ray.verification.job import Job
from mirror_ray.verification.known import Known, with_gaps
from mirror_ray.verification.prints import Print, Printed, printed
from mirror_ray.verification.ranges import Pair
from mirror_ray.verification.reading import Log, RemovedError
from mirror_ray.verification.verdict import Checked

#: A leader that shows nothing for so long fails the whole.
_PATIENCE_S = 30.0
_AGAIN_S = 0.2
#: Records of ours behind the acknowledged pair that are compared with the source's next ones.
_MOST_IN_FLIGHT = 20_000
#: So many offsets before and behind a record that is too much, one that is equal is looked for on the source.
_NEAR = 8192
#: Findings that lie no further apart are looked at together.
_APART = 1000
#: Such stretches of a partition.
_MOST_STRETCHES = 20
_EVERYWHERE = Pair(sys.maxsize, sys.maxsize)


class Remainder:
    """Accounts for what a job does not compare. ``logs`` gives its partition on both sides."""

    def __init__(self, logs: Callable[[Job], tuple[Log, Log]]) -> None:
        self._logs = logs

    async def account(self, job: Job, checked: Checked) -> tuple[Checked, Account]:
        """What was found with what lies outside of it, and the numbers of that.

        Raises:
            ClusterUnreachableError: A cluster does not answer.
            MirrorError: A log can't be read.
        """
        outside, account = await self.outside(job)
        findings = await self._with_twins(job, [*checked.findings, *outside])
        more = account.foreign > MOST_FINDINGS
        cleaned = {"cleaned_on_source": checked.cleaned_on_source, "cleaned_on_target": checked.cleaned_on_target}
        account = replace(account, **cleaned)
        return replace(checked, findings=findings, gave_up=checked.gave_up or more), account

    async def outside(self, job: Job) -> tuple[list[Finding], Account]:
        """What is wrong with what lies outside of what is compared, and its numbers. Raises as ``account`` does."""
        if not job.beside:
            return [], job.account
        job = await self._with_own_writer(job)
        compared = job.begin.target, job.end.target
        sorter = Sorter.of(job.writers, job.copied, job.origin, compared, MOST_FINDINGS)
        async for batch in self._batches(job, job.beside):
            ours = batch.producer_id in job.writers.own
            wanted = not ours or len(sorter.ours) < _MOST_IN_FLIGHT
            sorter.take(_written(batch, job, wanted=wanted))
        wrong = await self._unexpected(job, sorter.ours) if sorter.ours else []
        account = replace(
            job.account,
            in_flight=sorter.in_flight - len(wrong),
            foreign=sorter.foreign_records,
            not_ours=sorter.not_ours,
        )
        findings = sorted([*sorter.found, *wrong], key=lambda each: each.target_offset)
        return with_gaps(findings, Known(job.gaps, _EVERYWHERE)), account

    async def _with_own_writer(self, job: Job) -> Job:
        """Where the state does not say who writes for the flow: whoever wrote the last batch that was acknowledged."""
        if job.writers.own or job.end.target <= max(0, job.begin.target) or not job.ranges:
            return job
        last = job.ranges[-1].target_end
        own = {each.producer_id async for each in self._batches(job, [(last - 1, last)])}
        return replace(job, writers=replace(job.writers, own=frozenset(own), flows=job.writers.flows | own))

    async def _unexpected(self, job: Job, ours: Sequence[Printed]) -> list[Finding]:
        following: list[Print] = []
        source = self._logs(job)[0]
        try:
            async for records in source.records(job.copied.source, job.source_end):
                following += [printed(record, timestamps=job.timestamps).print for record in records]
                if len(following) >= len(ours) and not job.compacted:
                    break
        except RemovedError:
            # What the source does not have any more says nothing against its copy.
            return []
        return unexpected(ours, following, job.copied.source, cleaned=job.compacted)

    async def _with_twins(self, job: Job, findings: Sequence[Finding]) -> list[Finding]:
        """Told by what the source has nearby: a record that is there twice, two in each other's place; and by whom."""
        doubtful = [each for each in findings if each.kind in ("extra", "changed")]
        told = dict[Finding, Finding | None]()
        for near in list(_near(doubtful))[:_MOST_STRETCHES]:
            told |= await self._told(job, near)
        if not told:
            return list(findings)
        known = [told.get(each, each) for each in findings]
        return sorted(
            (each for each in known if each is not None), key=lambda each: (each.target_offset, each.source_offset)
        )

    async def _told(self, job: Job, near: Sequence[Finding]) -> dict[Finding, Finding | None]:
        there: dict[int, tuple[Print, int]] = {}
        async for batch in self._batches(job, [(near[0].target_offset, near[-1].target_offset + 1)]):
            found = [printed(record, timestamps=job.timestamps) for record in records_of(batch)]
            there |= {each.offset: (each.print, batch.producer_id) for each in found}
        places = [each.source_offset for each in near]
        twins = await self._source_places(job, min(places) - _NEAR, max(places) + _NEAR)
        prints = {at: each for at, (each, _) in there.items()}
        flows = job.writers.own | job.writers.flows if job.writers.own else None
        told: dict[Finding, Finding | None] = dict(swapped(near, prints, twins))
        for each in near:
            if each.kind == "extra" and each.target_offset in there:
                content, producer = there[each.target_offset]
                foreign = flows is not None and producer not in flows
                known = replace(each, producer_id=producer if foreign else each.producer_id)
                twin = twins.get(content)
                told[each] = known if twin is None else replace(known, kind="doubled", source_offset=twin)
        return told

    async def _source_places(self, job: Job, first: int, end: int) -> dict[Print, int]:
        source = self._logs(job)[0]
        first = max(first, await source.start())
        found: dict[Print, int] = {}
        try:
            async for records in source.records(first, min(end, await source.end())):
                for record in records:
                    found.setdefault(printed(record, timestamps=job.timestamps).print, record.offset)
        except RemovedError:
            return found
        return found

    async def _batches(self, job: Job, spans: Iterable[Span]) -> AsyncIterator[Batch]:
        """Batches of the target with records in these spans, whoever wrote them, committed or not."""
        target = self._logs(job)[1]
        for first, end in spans:
            at = first
            until_s = asyncio.get_running_loop().time() + _PATIENCE_S
            while at < end:
                try:
                    async with asyncio.timeout(_PATIENCE_S) as limit:
                        reading = read_between(
                            target.cluster, target.partition, target.topic_id, at, end, purpose=target.purpose
                        )
                        async for batches, _ in reading:
                            limit.reschedule(asyncio.get_running_loop().time() + _PATIENCE_S)
                            until_s = asyncio.get_running_loop().time() + _PATIENCE_S
                            for batch in batches:
                                at = max(at, batch.next_offset)
                                if batch.count and not batch.is_control and batch.next_offset > first:
                                    yield batch
                    at = end
                except (OSError, TimeoutError, KafkaProtocolError) as error:
                    if asyncio.get_running_loop().time() > until_s:
                        alias = target.cluster.settings.alias
                        raise ClusterUnreachableError(
                            f"cluster {alias}: {target.partition} can't be read: {error}"
                        ) from error
                    await asyncio.sleep(_AGAIN_S)
                    await target.cluster.refresh([target.partition.topic])
                    at = max(at, await target.start())


def _written(batch: Batch, job: Job, *, wanted: bool) -> Written:
    """A batch by its header, with what its records are if ``wanted``, of those that lie beside what is compared."""
    inside = [
        (max(first, batch.base_offset), min(end, batch.next_offset))
        for first, end in job.beside
        if first < batch.next_offset and batch.base_offset < end
    ]
    if not wanted:
        records = batch.count if not batch.is_compacted else 0
        whole = sum(end - first for first, end in inside)
        return Written(batch.producer_id, inside[0][0], min(records or whole, whole))
    prints = [
        printed(record, timestamps=job.timestamps)
        for record in records_of(batch)
        if any(first <= record.offset < end for first, end in inside)
    ]
    return Written(batch.producer_id, inside[0][0], len(prints), prints)


def _near(findings: Sequence[Finding]) -> Iterable[list[Finding]]:
    """Findings by where they lie on the target, those that lie near each other together."""
    run: list[Finding] = []
    for each in sorted(findings, key=lambda each: each.target_offset):
        if run and each.target_offset - run[-1].target_offset > _APART:
            yield run
            run = []
        run.append(each)
    if run:
        yield run
