"""The first two steps, which change nothing: do the clusters answer, and what would be lost with the source now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mirror_ray.client import MirrorClient
from mirror_ray.failover import translate_offsets
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.copy_progress import lags
from mirror_ray.failover.left_behind import lost_if_gone, reread_if_gone
from mirror_ray.failover.messages import NAMED, StepOutcome, by_topic, group_totals, names
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.groups.cluster_groups import answered
from mirror_ray.groups.translated_offset import TranslatedGroups
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError

_NO_WAY_BACK: Final = (
    "no flow {0}->{1} is enabled: what was written in {0}'s own topics meanwhile stays there, for the groups, too"
)


async def detect(clusters: FailoverClusters, options: FailoverOptions) -> StepOutcome:
    """Whether the clusters that are needed answer, and how old the last heartbeat is.

    Raises:
        ClusterUnreachableError: One does not, and there is no way round it.
    """
    gone = options.source_is_gone
    alive = {cluster.settings.alias: await _health(cluster) for cluster in (clusters.source, clusters.target)}
    figures: dict[str, Any] = {"clusters": alive}
    beat = await asyncio.to_thread(_heartbeat, clusters)
    figures["heartbeat"] = beat
    text = f"{_health_text(alive)}; last heartbeat {beat['text']}"
    destination, origin = clusters.destination.settings.alias, clusters.origin.settings.alias
    if "error" in alive[destination]:
        raise ClusterUnreachableError(alive[destination]["error"])
    if "error" in alive[origin] and not gone:
        if clusters.kind == "failover":
            return StepOutcome("blocked", f"{text}. If {origin} will not come back soon, say --source-is-gone", figures)
        raise ClusterUnreachableError(alive[origin]["error"])
    if gone and "error" not in alive[origin]:
        text += f". {origin} answers: without --source-is-gone nothing would be lost nor read again"
    return StepOutcome("done", text, figures)


async def check(clusters: FailoverClusters, options: FailoverOptions, moved_before: TranslatedGroups) -> StepOutcome:
    """What there is to move, and what groups would lose and read again if the source were lost now."""
    if options.source_is_gone:
        return await _without_source(clusters)
    behind = await lags(clusters)
    groups = await _groups_at_risk(clusters, moved_before, every=options.force)
    figures = {
        "lag": sum(lag or 0 for lag in behind.values()),
        "topics": by_topic(behind),
        "groups": len(groups),
        "lost_now": sum(group["lost_now"] for group in groups),
        "reread_now": sum(group["reread_now"] or 0 for group in groups),
        "by_group": sorted(groups, key=lambda group: -group["lost_now"] - (group["reread_now"] or 0))[:NAMED],
    }
    unknown = sorted({partition.topic for partition, lag in behind.items() if lag is None})
    origin, destination = clusters.origin.settings.alias, clusters.destination.settings.alias
    text = f"lag {figures['lag']} of {len(behind)} partitions; {len(groups)} groups"
    if clusters.kind == "failover":
        text += f"; were {origin} lost now, they would miss {figures['lost_now']} and read"
        text += f" {figures['reread_now']} again"
    elif not clusters.is_copied:
        text += f"; {_NO_WAY_BACK.format(origin, destination)}"
    text += f"; nothing is known of the copies of {names(unknown)}" if unknown else ""
    return StepOutcome("done", text, figures)


async def _without_source(clusters: FailoverClusters) -> StepOutcome:
    figures: dict[str, Any] = group_totals(await translate_offsets.without_source(clusters))
    text = (
        f"{figures['groups']} groups have checkpoints. What {clusters.origin.settings.alias} had and"
        f" {clusters.destination.settings.alias} has not, and what groups did after their last checkpoint,"
        " nobody can tell: the former is lost, the latter is done again"
    )
    return StepOutcome("done", text, figures)


def _heartbeat(clusters: FailoverClusters) -> dict[str, Any]:
    flow = clusters.flow.name
    try:
        with MirrorClient(clusters.target.settings, clusters.policy) as client:
            found = client.heartbeats().get(flow)
    except MirrorError as error:
        return {"age_s": None, "text": f"unknown: {error}"}
    if found is None:
        return {"age_s": None, "text": "never"}
    age_s = round(found.age_ms / 1000, 1)
    return {"age_s": age_s, "timestamp_ms": found.timestamp_ms, "text": f"{age_s:g} s ago"}


async def _groups_at_risk(clusters: FailoverClusters, moved: TranslatedGroups, *, every: bool) -> list[dict[str, Any]]:
    """What each group would miss, and read again, if the origin were lost now."""
    groups = await clusters.groups(clusters.origin)
    committed = await clusters.committed(clusters.origin, list(groups))
    partitions = {partition for offsets in committed.values() for partition in offsets}
    logs = await clusters.logs(clusters.origin, partitions)
    translated = await translate_offsets.with_source(clusters, groups, moved, every=every)
    checkpoints = await clusters.checkpoints() if clusters.kind == "failover" else {}
    destinations = {offset.destination for offsets in translated.values() for offset in offsets if offset.destination}
    target_logs = await clusters.logs(clusters.destination, destinations)
    found = []
    for group, offsets in translated.items():
        lost, again = 0, 0
        for offset in offsets:
            if offset.destination not in target_logs or offset.origin not in logs or offset.origin_offset is None:
                continue
            if not clusters.is_remote(offset.origin):
                end, copied_to = logs[offset.origin].end, clusters.copied_to(offset.origin)
                lost += lost_if_gone(end, copied_to, offset.origin_offset)
            last = checkpoints.get(group, {}).get(offset.destination)
            checkpoint = last.checkpoint.downstream_offset if last else None
            again += reread_if_gone(offset.offset, checkpoint, target_logs[offset.destination])
        found.append({"group": group, "state": groups[group].state, "lost_now": lost, "reread_now": again})
    return found


async def _health(cluster: ClusterConnections) -> dict[str, Any]:
    try:
        found = await answered(cluster, cluster.refresh(None))
    except (MirrorError, OSError) as error:
        return {"error": str(error)}
    leaderless = [
        f"{topic.name}-{number}"
        for topic in found.topics.values()
        for number, partition in topic.partitions.items()
        if partition.leader < 0
    ]
    return {"brokers": len(found.brokers), "without_leader": leaderless[:NAMED]}


def _health_text(alive: Mapping[str, Mapping[str, Any]]) -> str:
    parts = []
    for alias, found in alive.items():
        if "error" in found:
            parts.append(f"{alias} does not answer")
            continue
        lost = f", {len(found['without_leader'])} partitions without a leader" if found["without_leader"] else ""
        parts.append(f"{alias} answers, {found['brokers']} brokers{lost}")
    return "; ".join(parts)
