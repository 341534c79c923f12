"""Where logs start and end, by their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST
from mirror_ray.model.errors import ClusterUnreachableError, NotReadyError
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import ReadableBounds


async def log_bounds(
    cluster: ClusterConnections, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ReadableBounds]:
    """Where logs start and end; partitions whose leader does not answer are left out."""
    found = await _asked(cluster, partitions)
    return {partition: bounds for partition, bounds in found.items() if isinstance(bounds, ReadableBounds)}


async def all_bounds(
    cluster: ClusterConnections, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ReadableBounds]:
    """Where logs start and end, open transactions included.

    Raises:
        ClusterUnreachableError: A leader does not answer.
    """
    found: dict[TopicPartition, ReadableBounds] = {}
    for partition, bounds in (await _asked(cluster, partitions)).items():
        if not isinstance(bounds, ReadableBounds):
            name = error_info(bounds).name
            raise ClusterUnreachableError(f"cluster {cluster.settings.alias}: {partition} can't be asked: {name}")
        found[partition] = bounds
    return found


async def _asked(
    cluster: ClusterConnections, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ReadableBounds | int]:
    """Bounds, or the code of an error."""
    if not partitions:
        return {}
    starts, ends = await asyncio.gather(
        cluster.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted"),
        cluster.list_offsets(dict.fromkeys(partitions, LATEST), "read_uncommitted"),
    )
    return {
        partition: starts[partition].error_code
        or ends[partition].error_code
        or ReadableBounds(starts[partition].offset, ends[partition].offset)
        for partition in partitions
    }


async def settled_bounds(
    cluster: ClusterConnections, partitions: Collection[TopicPartition], *, whose: str = "a producer"
) -> dict[TopicPartition, ReadableBounds]:
    """Where logs start and end, once all is replicated and no transaction is open; ``whose`` it would be, for errors.

    Raises:
        ClusterUnreachableError: A leader does not answer.
        NotReadyError: Something is under way in a partition.
    """
    if not partitions:
        return {}
    starts, ends, stable = await asyncio.gather(
        cluster.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted"),
        cluster.log_ends(partitions),
        cluster.list_offsets(dict.fromkeys(partitions, LATEST), "read_committed"),
    )
    found: dict[TopicPartition, ReadableBounds] = {}
    for partition in partitions:
        code = starts[partition].error_code or ends[partition].error_code or stable[partition].error_code
        where = f"cluster {cluster.settings.alias}: {partition}"
        if code:
            raise ClusterUnreachableError(f"{where} can't be asked: {error_info(code).name}; run this again")
        end = ends[partition].end_offset
        if stable[partition].offset < end or ends[partition].high_watermark < end:
            raise NotReadyError(
                f"{where} ends at {end}, and only what is before {stable[partition].offset} is settled: a transaction "
                f"of {whose} is open, or replicas lag. Run this again when it has ended, at the latest after its "
                f"transaction.timeout.ms (60 s by default)"
            )
        found[partition] = ReadableBounds(starts[partition].offset, end)
    return found
