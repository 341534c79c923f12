"""Verifies a flow: plans, runs the first pass, and then the second pass on what differs."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.config.transforms import flow_chains
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.offsets.translator import OffsetMapTailer
from mirror_ray.transforms.met_schemas import MetSchemas, SchemaCollector
from mirror_ray.transforms.schema_ids import SchemaIdMap
from mirror_ray.verification.cluster_queries import PartitionQuery, no_system
from mirror_ray.verification.first_pass import MAX_CONCURRENT_PARTITIONS, InProcessFirstPass
from mirror_ray.verification.job import CompareJob, FirstPass
from mirror_ray.verification.partition_log import PartitionLog
from mirror_ray.verification.planner import VerifyPlanner, VerifyRequest
from mirror_ray.verification.report import PartitionVerdict, VerifyReport
from mirror_ray.verification.schema_check import check_registries, schema_check
from mirror_ray.verification.schema_ids import seen_by, with_schema_ids
from mirror_ray.verification.second_pass import SecondPass
from mirror_ray.verification.uncompared_records import UncomparedRecords

_log = logging.getLogger(__name__)

#: How long reading the segments topic may take.
_TIMEOUT_S = 60.0


@dataclass(slots=True)
class VerifyProgress:
    """How far a verification has come."""

    partitions: int = 0
    compared: int = 0
    #: Source offsets that are to be read, and records that were read.
    offsets: int = 0
    records: int = 0

    def __str__(self) -> str:
        if not self.partitions:
            return "verify: asking what was copied"
        if self.compared:
            return f"verify: {self.compared} of {self.partitions} partitions compared"
        return f"verify: {self.records:,} records read of {self.partitions} partitions with {self.offsets:,} offsets"


#: Makes a first pass, from what gives a job's logs, and from the first pass of this process.
MakeFirstPass = Callable[[Callable[[CompareJob], tuple[PartitionLog, PartitionLog]], FirstPass], FirstPass]


class Verification:
    """Connections to the two clusters of one flow; ``verification`` makes it."""

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        offset_map: OffsetMapTailer,
        schema_ids: SchemaIdMap | None = None,
    ) -> None:
        self.flow, self.schema_ids = flow, schema_ids or SchemaIdMap()
        self.source, self.target = source, target
        try:
            self._chains = flow_chains(
                flow, lambda: (source.metadata.cluster_id, target.metadata.cluster_id), schema_ids
            )
        except ValueError as error:
            raise ConfigError(f"flow {flow.name}: transforms: {error}") from error
        self._collectors: dict[TopicPartition, SchemaCollector] = {}
        #: By source topic, of tasks that have collectors of their own.
        self._met: defaultdict[str, MetSchemas] = defaultdict(MetSchemas)
        self.planner = VerifyPlanner(flow, source, target, offset_map, self._chains)
        self.progress = VerifyProgress()

    def logs(self, job: CompareJob) -> tuple[PartitionLog, PartitionLog]:
        """A job's partition on both sides. Each broker gets as many connections as partitions are read at once."""
        purpose = f"verify {hash(job.source) % MAX_CONCURRENT_PARTITIONS}"
        committed = self.flow.fetch.isolation_level == "read_committed"
        chain, met = self._chains.chain(job.source.topic), self._collector(job)
        transform, take = seen_by(met, job.source, chain)
        return (
            PartitionLog(self.source, job.source, job.source_topic_id, committed, purpose, transform, take),
            PartitionLog(self.target, job.target, job.target_topic_id, True, purpose),
        )

    async def verify(
        self, jobs: Sequence[CompareJob], make_first_pass: MakeFirstPass | None = None
    ) -> list[PartitionVerdict]:
        """Compare what was planned, if wanted by another first pass. Raises as ``PartitionLog.batches`` does."""
        ready = [job for job in jobs if _can_be_compared(job)]
        self.progress.partitions = len(ready)
        self.progress.offsets = sum(span.source_end - span.source for job in ready for span in job.chosen_ranges)
        plain = InProcessFirstPass(self.logs, self._add_records)
        found = await (make_first_pass(self.logs, plain) if make_first_pass else plain).run(ready)
        for job, result in zip(ready, found, strict=True):
            self._met[job.source.topic] |= result.met
        results = iter(found)
        second_pass, uncompared = SecondPass(self.logs, self.planner.find_pair), UncomparedRecords(self.logs)
        verdicts: list[PartitionVerdict] = []
        for job in jobs:
            checked = job.unchecked
            if _can_be_compared(job):
                checked = await second_pass.run(job, next(results))
                self.progress.compared += 1
            verdicts.append(job.verdict(*await uncompared.account(job, checked)))
        return verdicts

    def met(self) -> Mapping[str, MetSchemas]:
        """The schemas that the source's records had the ids of, by source topic, where jobs want that."""
        found = defaultdict(MetSchemas, self._met)
        for partition, collector in self._collectors.items():
            found[partition.topic] |= collector.found()
        return found

    def _collector(self, job: CompareJob) -> SchemaCollector | None:
        if job.schemas is not None and job.source not in self._collectors:
            self._collectors[job.source] = SchemaCollector(job.schemas)
        return self._collectors.get(job.source)

    def _add_records(self, records: int) -> None:
        self.progress.records += records


def _can_be_compared(job: CompareJob) -> bool:
    return job.reason is None and bool(job.ranges)


@asynccontextmanager
async def verification(settings: MirrorSettings, flow: FlowName) -> AsyncIterator[Verification]:
    """Connect to both clusters of a flow, and read its offset map.

    Raises:
        ConfigError: There is no such flow, or security settings can't be used.
        ClusterUnreachableError: A cluster does not answer, also while the context lasts.
    """
    found = settings.flow(flow)
    client_id = f"{flow}|mirror-ray|verify"
    source, target = (ClusterConnections(settings.clusters[alias], client_id) for alias in (flow.source, flow.target))
    committed = found.fetch.isolation_level == "read_committed"
    offset_map: OffsetMapTailer | None = None
    problems: list[str] = []

    def note(problem: str) -> None:
        problems.append(problem)
        _log.warning(problem)

    try:
        # A cluster that does not answer is named at once.
        await source.refresh([])
        await target.refresh([])
        found, schema_ids = await with_schema_ids(found, target)
        offset_map = OffsetMapTailer(
            flow.source,
            source,
            target,
            read_committed=committed,
            on_problem=note,
            transforms_of=found,
            route=flow.route,
        )
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await offset_map.ready.wait()
        except TimeoutError:
            why = f": {problems[-1]}" if problems else ""
            raise ClusterUnreachableError(
                f"cluster {flow.target}: the segments topic could not be read within {_TIMEOUT_S:g} s{why}"
            ) from None
        yield Verification(found, source, target, offset_map, schema_ids)
    except OSError as error:
        raise ClusterUnreachableError(f"flow {flow}: {error}") from error
    finally:
        if offset_map is not None:
            await offset_map.close()
        await asyncio.gather(source.close(), target.close())


async def verify_with_routes(
    settings: MirrorSettings,
    flow: FlowName,
    request: VerifyRequest,
    *,
    running: PartitionQuery = no_system,
    make_first_pass: MakeFirstPass | None = None,
    progress: VerifyProgress | None = None,
) -> VerifyReport:
    """Verify a flow as ``verify_flow`` does, and then each of its routes that takes any of these topics."""
    verify = partial(verify_flow, settings, running=running, make_first_pass=make_first_pass, progress=progress)
    report = await verify(flow, request)
    for route in settings.family(flow)[1:]:
        rules = replication_rules(route)
        topics = dict.fromkeys(
            partition.topic for partition in report.partitions if rules.should_replicate_topic(partition.topic)
        )
        if topics:
            found = await verify(route.name, replace(request, topics=tuple(topics)))
            schemas = None if report.schemas is None else [*report.schemas, *(found.schemas or ())]
            report = replace(report, partitions=[*report.partitions, *found.partitions], schemas=schemas)
    return report


async def verify_flow(
    settings: MirrorSettings,
    flow: FlowName,
    request: VerifyRequest,
    *,
    running: PartitionQuery = no_system,
    make_first_pass: MakeFirstPass | None = None,
    progress: VerifyProgress | None = None,
) -> VerifyReport:
    """Compare a flow's topics with their copies, up to what was copied when it begins.

    ``progress`` is updated while this runs; the other arguments are those of ``VerifyPlanner.plan`` and of
    ``Verification.verify``.

    Raises:
        ConfigError: There is no such flow, it copies no such topic, or it has no registries whose schemas to compare.
        ClusterUnreachableError: A cluster does not answer.
        MirrorError: A log or an internal topic can't be read.
    """
    if request.schemas:
        check_registries(settings, flow)
    async with verification(settings, flow) as verifying:
        verifying.progress = progress or verifying.progress
        jobs = await verifying.planner.plan(request, running)
        if not request.schemas:
            found = await verifying.verify(jobs, make_first_pass)
            return VerifyReport(flow=str(flow), sample=request.sample, partitions=found)
        async with schema_check(settings, verifying.flow, verifying.schema_ids) as check:
            jobs = await check.wanted(jobs)
            found = await verifying.verify(jobs, make_first_pass)
            schemas = await check.topics(jobs, verifying.met())
        return VerifyReport(flow=str(flow), sample=request.sample, partitions=found, schemas=schemas)
