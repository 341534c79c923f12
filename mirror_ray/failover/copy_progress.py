"""Reads how far copies have come, and what would be left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Final

from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.left_behind import LeftBehind, PartitionEnds, left_behind
from mirror_ray.groups.cluster_groups import answered
from mirror_ray.kafka.errors import protocol_error
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST
from mirror_ray.model.names import TopicPartition

POLL_S: Final = 0.3
#: Replicators publish every second how far they have come, and when they release a partition.
PUBLISHED_WITHIN_S: Final = 3.0


async def lags(clusters: FailoverClusters) -> dict[TopicPartition, int | None]:
    """Offsets that each partition is behind; None: nothing is known of its copy, and it is not empty."""
    partitions = await clusters.topics()
    await clusters.read_maps()
    ends, logs = await asyncio.gather(clusters.stable_ends(partitions), clusters.logs(clusters.origin, partitions))
    found: dict[TopicPartition, int | None] = {}
    for partition in partitions:
        to, empty = clusters.copied_to(partition), partition in logs and logs[partition].start == ends[partition]
        found[partition] = 0 if empty else None if to is None else max(0, ends[partition] - to)
    return found


async def groups_behind(clusters: FailoverClusters, groups: Collection[str]) -> dict[TopicPartition, int]:
    """Offsets that copies are behind what groups have committed on the origin, in topics that stay there."""
    committed = await clusters.committed(clusters.origin, groups)
    furthest: dict[TopicPartition, int] = {}
    for offsets in committed.values():
        for partition, offset in offsets.items():
            if not clusters.scope.leaves(partition.topic) and clusters.remote_partitions(partition):
                furthest[partition] = max(offset.offset, furthest.get(partition, 0))
    await clusters.read_maps()
    return {partition: max(0, offset - (clusters.copied_to(partition) or 0)) for partition, offset in furthest.items()}


async def log_ends(
    clusters: FailoverClusters, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """High watermarks and last stable offsets on the origin."""
    if not partitions:
        return {}, {}
    high, stable = await asyncio.gather(
        answered(clusters.origin, clusters.origin.list_offsets(dict.fromkeys(partitions, LATEST), "read_uncommitted")),
        answered(clusters.origin, clusters.origin.list_offsets(dict.fromkeys(partitions, LATEST), "read_committed")),
    )
    return (
        {partition: high[partition].offset for partition in partitions},
        {partition: stable[partition].offset for partition in partitions},
    )


async def records_left_behind(clusters: FailoverClusters) -> LeftBehind:
    """What the origin's logs hold that is not copied; for what was copied a moment ago the maps are waited for."""
    deadline_s = time.monotonic() + PUBLISHED_WITHIN_S
    while True:
        late = time.monotonic() > deadline_s
        ends = await _ends(clusters, late=late)
        found = LeftBehind() if ends is None else left_behind(ends)
        if late or (ends is not None and not found.records):
            return found
        await asyncio.sleep(POLL_S)


async def _ends(clusters: FailoverClusters, *, late: bool) -> dict[TopicPartition, PartitionEnds] | None:
    """None: a leader does not know yet; once it is ``late`` that is an error."""
    partitions = await clusters.topics()
    await clusters.read_maps()
    if not partitions:
        return {}
    origin = clusters.origin
    logs, starts, stable = await answered(
        origin,
        asyncio.gather(
            origin.log_ends(partitions),
            origin.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted"),
            origin.list_offsets(dict.fromkeys(partitions, LATEST), "read_committed"),
        ),
    )
    found: dict[TopicPartition, PartitionEnds] = {}
    for partition in partitions:
        code = logs[partition].error_code or starts[partition].error_code or stable[partition].error_code
        if code and late:
            raise protocol_error(code, f"see where {partition} ends on cluster {origin.settings.alias}")
        if code:
            return None
        found[partition] = PartitionEnds(
            log_start=starts[partition].offset,
            stable=stable[partition].offset,
            log_end=logs[partition].end_offset,
            copied_to=clusters.copied_to(partition),
        )
    return found
