"""Both sides of partitions that nobody copies, as decisions about them need it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mirror_ray.coordinator.fault_rules import FaultContext
from mirror_ray.coordinator.ports import ClusterTopics, FlowClusters
from mirror_ray.model.names import TopicPartition


async def look_at_both_sides(
    port: FlowClusters,
    partitions: Collection[TopicPartition],
    source: ClusterTopics,
    target: ClusterTopics,
    selected: Mapping[str, str],
) -> dict[TopicPartition, FaultContext]:
    """Where the logs begin and end; a partition that can't be asked now is left out.

    Raises:
        MirrorError: A cluster can't be reached.
    """
    remote = {
        each: TopicPartition(selected[each.topic], each.partition)
        for each in partitions
        if each.topic in selected and each.topic in source.topics and selected[each.topic] in target.topics
    }
    starts = await port.source_offsets(list(remote), latest=False)
    bounds = await port.target_bounds(list(remote.values()))
    return {
        each: FaultContext(
            source_topic_id=source.topics[each.topic].topic_id,
            source_start=starts[each],
            target_topic_id=target.topics[there.topic].topic_id,
            target_start=bounds[there].start,
            target_end=bounds[there].committed,
            target_settled=bounds[there].committed == bounds[there].end,
        )
        for each, there in remote.items()
        if each in starts and there in bounds
    }
