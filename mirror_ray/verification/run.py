"""Verifies a flow: plans, looks, and judges what differs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.flow_transforms import flow_chains
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError, MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.offsets.translator import OffsetMapTailer
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.transforms.chain import TransformChain
from mirror_ray.verification.cluster_queries import PartitionQuery, no_system
from mirror_ray.verification.first_pass import MAX_CONCURRENT_PARTITIONS, InProcessFirstPass
from mirror_ray.verification.job import CompareJob, FirstPass
from mirror_ray.verification.partition_log import PartitionLog
from mirror_ray.verification.planner import VerifyPlanner, VerifyRequest
from mirror_ray.verification.report import PartitionVerdict, VerifyReport
from mirror_ray.verification.second_pass import SecondPass
from mirror_ray.verification.uncompared_records import UncomparedRecords

_log = logging.getLogger(__name__)

#: A segments topic that can't be read within it.
_TIMEOUT_S = 60.0


@dataclass(slots=True)
class VerifyProgress:
    """How far it has come."""

    partitions: int = 0
    judged: int = 0
    #: Source offsets that are to be read, and records that were.
    offsets: int = 0
    records: int = 0

    def __str__(self) -> str:
        if not self.partitions:
            return "verify: asking what was copied"
        if self.judged:
            return f"verify: {self.judged} of {self.partitions} partitions judged"
        return f"verify: {self.records:,} records read of {self.partitions} partitions with {self.offsets:,} offsets"


#: Makes who takes the first look, from where a job's logs are, and who can always do it.
MakeFirstPass = Callable[[Callable[[CompareJob], tuple[PartitionLog, PartitionLog]], FirstPass], FirstPass]


class Verification:
    """One flow's two clusters; use ``verification``."""

    def __init__(
        self, flow: FlowSettings, source: ClusterConnections, target: ClusterConnections, own_map: OffsetMapTailer
    ) -> None:
        self._flow = flow
        self.source, self.target = source, target
        try:
            self._chains = flow_chains(flow, lambda: (source.metadata.cluster_id, target.metadata.cluster_id))
        except ValueError as error:
            raise ConfigError(f"flow {flow.name}: transforms: {error}") from error
        self.planner = VerifyPlanner(flow, source, target, own_map, self._chains)
        self.progress = VerifyProgress()

    def logs(self, job: CompareJob) -> tuple[PartitionLog, PartitionLog]:
        """Both sides of a job. So many connections to a broker as partitions are read at once."""
        purpose = f"verify {hash(job.source) % MAX_CONCURRENT_PARTITIONS}"
        committed = self._flow.fetch.isolation_level == "read_committed"
        chain = self._chains.chain(job.source.topic)
        copied = None if chain is None else partial(_kept, chain, job.source)
        return (
            PartitionLog(self.source, job.source, job.source_topic_id, committed, purpose, copied),
            PartitionLog(self.target, job.target, job.target_topic_id, True, purpose),
        )

    async def verify(
        self, jobs: Sequence[CompareJob], make_first_pass: MakeFirstPass | None = None
    ) -> list[PartitionVerdict]:
        """Compare what was planned; by default this process does it.

        Raises:
            ClusterUnreachableError: A cluster does not answer.
            MirrorError: A log can't be read.
        """
        ready = [job for job in jobs if _can_be_compared(job)]
        self.progress.partitions = len(ready)
        self.progress.offsets = sum(each.source_end - each.source for job in ready for each in job.chosen_ranges)
        plain = InProcessFirstPass(self.logs, self._told)
        looks = iter(await (make_first_pass(self.logs, plain) if make_first_pass else plain).look(ready))
        judge, remainder = SecondPass(self.logs, self.planner.find_pair), UncomparedRecords(self.logs)
        verdicts: list[PartitionVerdict] = []
        for job in jobs:
            checked = job.unchecked
            if _can_be_compared(job):
                checked = await judge.judge(job, next(looks))
                self.progress.judged += 1
            verdicts.append(job.verdict(*await remainder.account(job, checked)))
        return verdicts

    def _told(self, records: int) -> None:
        self.progress.records += records


def _kept(chain: TransformChain, source: TopicPartition, records: Sequence[DecodedRecord]) -> list[DecodedRecord]:
    return chain.apply(source, records).kept


def _can_be_compared(job: CompareJob) -> bool:
    return job.reason is None and bool(job.ranges)


@asynccontextmanager
async def verification(settings: MirrorSettings, flow: FlowName) -> AsyncIterator[Verification]:
    """Connect to both clusters of a flow, and read its map.

    Raises:
        ConfigError: There is no such flow.
        ConfigError: Security settings can't be used.
        ClusterUnreachableError: A cluster does not answer.
    """
    found = settings.flow(flow)
    client_id = f"{flow}|mirror-ray|verify"
    source, target = (ClusterConnections(settings.clusters[alias], client_id) for alias in (flow.source, flow.target))
    committed = found.fetch.isolation_level == "read_committed"
    own_map: OffsetMapTailer | None = None
    try:
        # Whoever does not answer is named at once.
        await source.refresh([])
        await target.refresh([])
        own_map = OffsetMapTailer(
            flow.source,
            source,
            target,
            read_committed=committed,
            on_problem=_log.warning,
            transforms_of=found,
            route=flow.route,
        )
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await own_map.ready.wait()
        except TimeoutError:
            raise ClusterUnreachableError(
                f"cluster {flow.target}: the segments topic could not be read within {_TIMEOUT_S:g} s"
            ) from None
        yield Verification(found, source, target, own_map)
    finally:
        if own_map is not None:
            await own_map.close()
        await asyncio.gather(source.close(), target.close())


async def verify_with_routes(
    settings: MirrorSettings,
    flow: FlowName,
    wanted: VerifyRequest,
    *,
    running: PartitionQuery = no_system,
    make_first_pass: MakeFirstPass | None = None,
    progress: VerifyProgress | None = None,
) -> VerifyReport:
    """As ``verify_flow``, of a flow and then of each of its routes that any of these topics is routed by."""
    verify = partial(verify_flow, settings, running=running, make_first_pass=make_first_pass, progress=progress)
    report = await verify(flow, wanted)
    for route in settings.family(flow)[1:]:
        rules = replication_rules(route)
        topics = dict.fromkeys(each.topic for each in report.partitions if rules.should_replicate_topic(each.topic))
        if topics:
            found = await verify(route.name, replace(wanted, topics=tuple(topics)))
            report = replace(report, partitions=[*report.partitions, *found.partitions])
    return report


async def verify_flow(
    settings: MirrorSettings,
    flow: FlowName,
    wanted: VerifyRequest,
    *,
    running: PartitionQuery = no_system,
    make_first_pass: MakeFirstPass | None = None,
    progress: VerifyProgress | None = None,
) -> VerifyReport:
    """Compare a flow's topics with their copies, up to what was copied when it begins.

    Args:
        settings: Of the flow and its clusters.
        flow: Which one.
        wanted: What of it.
        running: Asks the running system for its partitions, where there is one.
        make_first_pass: Takes the first look; None: this process.
        progress: Is kept up to date.

    Raises:
        ConfigError: There is no such flow.
        ConfigError: The flow copies no such topic.
        ClusterUnreachableError: A cluster does not answer.
        MirrorError: A log or an internal topic can't be read.
    """
    try:
        async with verification(settings, flow) as verifying:
            verifying.progress = progress or verifying.progress
            jobs = await verifying.planner.plan(wanted, running)
            found = await verifying.verify(jobs, make_first_pass)
            return VerifyReport(flow=str(flow), sample=wanted.sample, partitions=found)
    except MirrorError:
        raise
    except OSError as error:
        raise ClusterUnreachableError(f"flow {flow}: {error}") from error
