"""The first two steps, which only look: do the clusters answer, and what would it cost if the source were lost now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mirror_ray.client import MirrorClient
from mirror_ray.failover import translate_offsets
from mirror_ray.failover.clusters import FailoverClusters, answered
from mirror_ray.failover.copy_progress import lags
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.failover.step_outcome import NAMED, StepOutcome, by_topic, names
from mirror_ray.failover.translated_offsets import GroupPlacement, group_totals, lost_if_gone, reread_if_gone
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError

_NO_WAY_BACK: Final = (
    "no flow {0}->{1} is enabled: what was written in {0}'s own topics meanwhile stays there, for the groups, too"
)


async def detect(sides: FailoverClusters, options: FailoverOptions) -> StepOutcome:
    """Whether the clusters that are needed answer, and how old the last heartbeat is.

    Raises:
        ClusterUnreachableError: One does not, and there is no way round it.
    """
    gone = options.source_is_gone
    alive = {cluster.settings.alias: await _health(cluster) for cluster in (sides.source, sides.target)}
    figures: dict[str, Any] = {"clusters": alive}
    beat = await asyncio.to_thread(_heartbeat, sides)
    figures["heartbeat"] = beat
    told = f"{_health_text(alive)}; last heartbeat {beat['text']}"
    destination, origin = sides.destination.settings.alias, sides.origin.settings.alias
    if "error" in alive[destination]:
        raise ClusterUnreachableError(alive[destination]["error"])
    if "error" in alive[origin] and not gone:
        if sides.kind == "failover":
            return StepOutcome("blocked", f"{told}. If {origin} will not come back soon, say --source-is-gone", figures)
        raise ClusterUnreachableError(alive[origin]["error"])
    if gone and "error" not in alive[origin]:
        told += f". {origin} answers: without --source-is-gone nothing would be lost nor read again"
    return StepOutcome("done", told, figures)


async def check(
    sides: FailoverClusters, options: FailoverOptions, moved_before: Mapping[str, list[GroupPlacement]]
) -> StepOutcome:
    """What there is to move, and what groups would lose and read again if the source were lost now.

    Raises:
        OSError, MirrorError: A cluster can't be asked.
    """
    if options.source_is_gone:
        return await _without_source(sides)
    behind = await lags(sides)
    groups = await _groups_at_risk(sides, moved_before, every=options.force)
    figures = {
        "lag": sum(lag or 0 for lag in behind.values()),
        "topics": by_topic(behind),
        "groups": len(groups),
        "lost_now": sum(group["lost_now"] for group in groups),
        "reread_now": sum(group["reread_now"] or 0 for group in groups),
        "by_group": sorted(groups, key=lambda group: -group["lost_now"] - (group["reread_now"] or 0))[:NAMED],
    }
    unknown = sorted({partition.topic for partition, lag in behind.items() if lag is None})
    origin, destination = sides.origin.settings.alias, sides.destination.settings.alias
    text = f"lag {figures['lag']} of {len(behind)} partitions; {len(groups)} groups"
    if sides.kind == "failover":
        text += f"; were {origin} lost now, they would miss {figures['lost_now']} and read"
        text += f" {figures['reread_now']} again"
    elif not sides.way_is_copied:
        text += f"; {_NO_WAY_BACK.format(origin, destination)}"
    text += f"; nothing is known of the copies of {names(unknown)}" if unknown else ""
    return StepOutcome("done", text, figures)


async def _without_source(sides: FailoverClusters) -> StepOutcome:
    figures: dict[str, Any] = group_totals(await translate_offsets.without_source(sides))
    text = (
        f"{figures['groups']} groups have checkpoints. What {sides.origin.settings.alias} had and"
        f" {sides.destination.settings.alias} has not, and what groups did after their last checkpoint,"
        " nobody can tell: the former is lost, the latter is done again"
    )
    return StepOutcome("done", text, figures)


def _heartbeat(sides: FailoverClusters) -> dict[str, Any]:
    flow = sides.flow.name
    try:
        with MirrorClient(sides.target.settings, sides.policy) as client:
            found = client.heartbeats().get(flow)
    except MirrorError as error:
        return {"age_s": None, "text": f"unknown: {error}"}
    if found is None:
        return {"age_s": None, "text": "never"}
    age_s = round(found.age_ms / 1000, 1)
    return {"age_s": age_s, "timestamp_ms": found.timestamp_ms, "text": f"{age_s:g} s ago"}


async def _groups_at_risk(
    sides: FailoverClusters, moved: Mapping[str, list[GroupPlacement]], *, every: bool
) -> list[dict[str, Any]]:
    groups = await sides.groups(sides.origin)
    committed = await sides.committed(sides.origin, list(groups))
    partitions = {partition for offsets in committed.values() for partition in offsets}
    logs = await sides.logs(sides.origin, partitions)
    places = await translate_offsets.with_source(sides, groups, moved, every=every)
    said = await sides.said() if sides.kind == "failover" else {}
    there = await sides.logs(
        sides.destination, {p.destination for of_group in places.values() for p in of_group if p.destination}
    )
    found = []
    for group, of_group in places.items():
        lost, again = 0, 0
        for place in of_group:
            if place.destination not in there or place.origin not in logs or place.origin_offset is None:
                continue
            if not sides.is_remote(place.origin):
                end, copied_to = logs[place.origin].end, sides.copied_to(place.origin)
                lost += lost_if_gone(end, copied_to, place.origin_offset)
            last = said.get(group, {}).get(place.destination)
            last_offset = last.checkpoint.downstream_offset if last else None
            again += reread_if_gone(place.offset, last_offset, there[place.destination])
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
