"""What a wave touches: the topics that its groups read, who else reads and writes the topics that it leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final

from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.messages import NAMED, names
from mirror_ray.kafka.acls import describe_acls
from mirror_ray.kafka.cluster import CONTROL
from mirror_ray.kafka.leader_requests import known_producers
from mirror_ray.model.acls import Acl
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.reversal.flow_states import read_records

_WRITES: Final = frozenset({"WRITE", "ALL"})


async def survey(clusters: FailoverClusters) -> tuple[str, dict[str, Any]]:
    """A text and figures for a wave's ``check``; what may not be asked is left out, and said."""
    partitions = await clusters.topics()
    leaves = {partition.topic for partition in partitions}
    every = await clusters.every_group(clusters.origin)
    committed = await clusters.committed(clusters.origin, list(every))
    reads: dict[str, set[str]] = defaultdict(set)
    for group, offsets in committed.items():
        for partition in offsets:
            reads[group].add(partition.topic)
    moved = {group for group in reads if clusters.scope.moves(group)}
    others = {topic: sorted(g for g in reads if g not in moved and topic in reads[g]) for topic in sorted(leaves)}
    stay = sorted({topic for group in moved for topic in reads[group]} - leaves)
    producers, principals = await _producers(clusters, partitions), await _principals(clusters, leaves)
    figures = {
        "groups": {group: sorted(reads[group]) for group in sorted(moved)[:NAMED]},
        "topics": sorted(leaves)[:NAMED],
        "topics_that_stay": stay[:NAMED],
        "other_groups": {topic: groups for topic, groups in others.items() if groups},
        "producers": producers,
        "principals": principals,
    }
    text = f"the wave moves {len(moved)} groups ({names(sorted(moved)) or 'none'})"
    text += f" and the producers of {names(sorted(leaves)) or 'no topic'}"
    if stay:
        text += f"; its groups also read {names(stay)}, whose producers stay"
    if remaining := sorted({group for groups in others.values() for group in groups}):
        text += f"; {names(remaining)} read topics that are left, and stay: nothing new comes there for them"
    if producers is None:
        text += "; who has written is not known: READ on the topics, and brokers from 2.8 on, would tell"
    elif producers:
        text += "; idempotent producers seen: " + names([f"{count} on {topic}" for topic, count in producers.items()])
    if principals:
        text += f"; WRITE is granted to {names(principals)}"
    return text, figures


async def _producers(clusters: FailoverClusters, partitions: Collection[TopicPartition]) -> dict[str, int] | None:
    """Idempotent and transactional producers that brokers remember, by topic; None: they don't say."""
    origin, found = clusters.origin, defaultdict[str, set[int]](set)
    by_leader: dict[int, dict[TopicPartition, Any]] = defaultdict(dict)
    for partition in partitions:
        by_leader[origin.metadata.leader(partition)][partition] = origin.metadata.partition(partition)
    try:
        for leader, led in by_leader.items():
            answers = await known_producers(await origin.connect(leader, CONTROL), led)
            for partition, known in answers.items():
                if known.error_code:
                    return None
                found[partition.topic] |= set(known.last_sequences)
    except (OSError, TimeoutError, MirrorError):
        return None
    return {topic: len(ids) for topic, ids in sorted(found.items())}


async def _principals(clusters: FailoverClusters, topics: Collection[str]) -> list[str]:
    """Who may write to topics on the origin, as far as its ACLs may be read."""
    try:
        acls = await describe_acls(clusters.origin)
    except MirrorError:
        return []
    return writers_of(topics, acls or ())


def writers_of(topics: Collection[str], acls: Collection[Acl]) -> list[str]:
    """The principals that ACLs grant WRITE on one of these topics."""
    return sorted(
        {
            acl.principal
            for acl in acls
            if acl.resource == "TOPIC" and acl.permission == "ALLOW" and acl.operation in _WRITES
            if any(map(acl.covers, topics))
        }
    )


async def written_on_target(clusters: FailoverClusters) -> str | None:
    """Why a wave can't come back by itself: producers have written into the remote topics; None: they have not."""
    records = {
        partition: record
        for partition, record in (await read_records(clusters.target, clusters.flow.name)).partitions.items()
        if partition.topic in clusters.scope.own_topics
    }
    remotes = {TopicPartition(record.target_topic, at.partition): record for at, record in records.items()}
    logs = await clusters.logs(clusters.target, remotes)
    found = written_since(
        {partition: log.end for partition, log in logs.items()},
        {partition: record.target_offset for partition, record in remotes.items()},
    )
    if not found:
        return None
    listed = names([f"{count} offsets in {topic}" for topic, count in found.items()])
    flow = clusters.flow.name
    return (
        f"producers have written on {flow.target} since: {listed}. A wave comes back without them; `mirror-ray failback"
        f" '{flow}'` brings back all waves, and what was written"
    )


def written_since(ends: Mapping[TopicPartition, int], copied_to: Mapping[TopicPartition, int]) -> dict[str, int]:
    """Offsets that remote topics have behind what was copied into them, by topic: producers have written there."""
    found: dict[str, int] = defaultdict(int)
    for partition, end in ends.items():
        if (more := end - copied_to.get(partition, end)) > 0:
            found[partition.topic] += more
    return dict(found)
