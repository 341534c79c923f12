"""A flow's remote topics by the headers of their batches alone: whose they are, and how far the copy has come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.state.schema import FlowStateRecords
from mirror_ray.verification.log_ends import Ask
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.run import verification
from mirror_ray.verification.uncompared import BatchHeaders, UncomparedAccount, halted
from mirror_ray.verification.uncompared_records import UncomparedRecords, whose_is_not_known


async def read_headers(
    settings: MirrorSettings, flow: FlowName, topics: Sequence[str], running: Ask
) -> dict[TopicPartition, BatchHeaders]:
    """What the remote topics of a flow hold beside what its map accounts for, by source partition.

    Raises:
        ConfigError: The flow copies no such topic.
        ClusterUnreachableError: A cluster does not answer.
        MirrorError: A log or an internal topic can't be read.
    """
    try:
        async with verification(settings, flow) as verifying:
            remainder = UncomparedRecords(verifying.logs)
            found: dict[TopicPartition, BatchHeaders] = {}
            for job in await verifying.planner.plan(VerifyRequest(topics=tuple(topics), headers_alone=True), running):
                findings, account = await remainder.outside(job)
                found[job.source] = BatchHeaders(
                    source=job.source,
                    findings=findings,
                    account=account,
                    halt=job.halt,
                    reason=job.reason or whose_is_not_known(account) or (job.unlike if account.in_flight else None),
                    counted=job.reason is None or account != UncomparedAccount(),
                )
            return found
    except MirrorError:
        raise
    except OSError as error:
        raise ClusterUnreachableError(f"flow {flow}: {error}") from error


async def unread_headers(
    partitions: Iterable[TopicPartition], flow: FlowName, memory: FlowStateRecords, running: Ask, why: str
) -> dict[TopicPartition, BatchHeaders]:
    """What is known of source partitions where nothing can be read: whether they go on."""
    told = {TopicPartition(line.topic, line.partition): line for line in await running() if line.flow == str(flow)}
    return {
        each: BatchHeaders(
            source=each,
            findings=(),
            account=UncomparedAccount(),
            halt=halted(memory, each, told.get(each)),
            reason=why,
            counted=False,
        )
        for each in partitions
    }
