"""What the headers of batches alone say of a flow's remote topics: who wrote them, and how far the copy has come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.state.schema import FlowStateRecords
from mirror_ray.verification.cluster_queries import PartitionQuery, query_partitions
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.report import BatchHeaders, UncomparedAccount
from mirror_ray.verification.run import verification
from mirror_ray.verification.uncompared import halt_of
from mirror_ray.verification.uncompared_records import UncomparedRecords, unattributed_reason


async def read_headers(
    settings: MirrorSettings, flow: FlowName, topics: Sequence[str], running: PartitionQuery
) -> dict[TopicPartition, BatchHeaders]:
    """What a flow's remote topics hold beside its offset map, by source partition. Raises as ``verify_flow`` does."""
    found: dict[TopicPartition, BatchHeaders] = {}
    async with verification(settings, flow) as verifying:
        uncompared = UncomparedRecords(verifying.logs)
        for job in await verifying.planner.plan(VerifyRequest(topics=tuple(topics), headers_only=True), running):
            differences, account = await uncompared.outside(job)
            irreproducible = job.irreproducible if account.in_flight else None
            found[job.source] = BatchHeaders(
                source=job.source,
                differences=differences,
                account=account,
                halt=job.halt,
                reason=job.reason or unattributed_reason(account) or irreproducible,
                counted=job.reason is None or account != UncomparedAccount(),
            )
    return found


async def unread_headers(
    partitions: Iterable[TopicPartition], flow: FlowName, state: FlowStateRecords, running: PartitionQuery, why: str
) -> dict[TopicPartition, BatchHeaders]:
    """What is known of source partitions when nothing can be read: whether they are copied at the moment."""
    statuses = await query_partitions(running, flow)
    return {
        partition: BatchHeaders(
            source=partition,
            differences=(),
            account=UncomparedAccount(),
            halt=halt_of(state, partition, statuses.get(partition)),
            reason=why,
            counted=False,
        )
        for partition in partitions
    }
