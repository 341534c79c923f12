"""The group sync of one flow without a system, commits in bulk, and the statuses of groups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mirror_ray.config.settings import FlowSettings, GroupSettings, TransformSettings
from mirror_ray.groups.commit_history_topic import HistoryWriter
from mirror_ray.groups.sync import GroupOffsetSync
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_offsets import send_commits
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.observe.groups import GroupPartitionStatus
from mirror_ray.offsets.flow_maps import FlowMaps
from tests.support.clusters import Clusters, cluster_settings, ensure_topic

#: All that a round may do, it does.
EVERY_ROUND = GroupSettings(
    include=(), emit_checkpoints_interval_s=0.001, sync_offsets_interval_s=0.001, refresh_interval_s=0.001
)

SYNCS = "mm2-offset-syncs.B.internal"
SEGMENTS = "mm2-ray-segments.A.internal"
COMMITS = "mm2-ray-commits.A.internal"
CHECKPOINTS = "A.checkpoints.internal"


@asynccontextmanager
async def _opened(
    clusters: Clusters, groups: str, transforms: TransformSettings | None = None
) -> AsyncIterator[tuple[FlowSettings, ClusterConnections, ClusterConnections, FlowMaps]]:
    flow = FlowSettings(
        name=FlowName("A", "B"),
        enabled=True,
        groups=EVERY_ROUND.model_copy(update={"include": (groups,)}),
        transforms=transforms or TransformSettings(),
    )
    source = ClusterConnections(cluster_settings("A", clusters.a), "c")
    target = ClusterConnections(cluster_settings("B", clusters.b), "c")
    maps = FlowMaps(flow, source, target, on_problem=lambda text: None)
    try:
        yield flow, source, target, maps
    finally:
        await maps.close()
        await source.close()
        await target.close()


@asynccontextmanager
async def group_sync(
    clusters: Clusters,
    groups: str,
    *,
    history_problems: list[str] | None = None,
    transforms: TransformSettings | None = None,
) -> AsyncIterator[GroupOffsetSync]:
    """Syncs the groups that match from A to B; begun. With ``history_problems`` it writes the commit history, too."""
    async with _opened(clusters, groups, transforms) as opened:
        problems = history_problems
        history = HistoryWriter("A", opened[2], problems.append) if problems is not None else None
        sync = GroupOffsetSync(*opened, UNRECORDED, history=history)
        await sync.begin()
        yield sync


@asynccontextmanager
async def followed_maps(clusters: Clusters) -> AsyncIterator[FlowMaps]:
    """The maps of A->B; read to their ends."""
    async with _opened(clusters, ".*") as (*_, maps):
        await maps.ready()
        yield maps


def internal_topics(clusters: Clusters) -> None:
    """As the coordinator creates them."""
    ensure_topic(clusters.b, COMMITS, "delete")
    for cluster, topic in ((clusters.a, SYNCS), (clusters.b, SEGMENTS), (clusters.b, CHECKPOINTS)):
        ensure_topic(cluster, topic)


async def commit_many(cluster: DevCluster, groups: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    """Commit each group's offsets."""
    connected = ClusterConnections(cluster_settings("X", cluster), "commits")
    try:
        commits = {group: {p: (offset, "") for p, offset in offsets.items()} for group, offsets in groups.items()}
        answers = await send_commits(GroupCoordinators(connected, patience_s=30), commits)
    finally:
        await connected.close()
    assert not [error for of_group in answers.values() for error in of_group.values() if error], answers


def partition_statuses(sync: GroupOffsetSync) -> dict[tuple[str, TopicPartition], GroupPartitionStatus]:
    """The status of every group and source partition."""
    return {
        (status.group, TopicPartition(partition.topic, partition.partition)): partition
        for status in sync.statuses()
        for partition in status.partitions
    }
