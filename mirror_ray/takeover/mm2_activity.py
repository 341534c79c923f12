"""Reads what MM2 has left on a flow's clusters: its source offsets, its offset syncs, and its activity."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import list_groups
from mirror_ray.kafka.leader_requests import LATEST
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError, CorruptRecordError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.policy import load_policy
from mirror_ray.records.mm2_records import HeartbeatRecord, OffsetSyncRecord
from mirror_ray.records.source_offset import SOURCE_CONNECTOR, SourceOffset
from mirror_ray.takeover.log_contents import read_all
from mirror_ray.takeover.mm2_liveness import Mm2Activity

#: Heartbeats of all flows into a cluster come into one topic, one a second each.
_HEARTBEATS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mm2Topics:
    """Which MM2 a flow is taken over from, or handed back to."""

    #: Its topic of source offsets on the target.
    offsets_topic: str
    connector: str
    #: The group of its workers; None: not known, for it runs in a Connect cluster.
    group: str | None


def which_mm2(flow: FlowName, offsets_topic: str | None, connector: str | None, group: str | None) -> Mm2Topics:
    """MM2 in dedicated mode, unless other names are given. In a Connect cluster the group is the cluster's own."""
    dedicated = offsets_topic is None
    return Mm2Topics(
        offsets_topic=offsets_topic or f"mm2-offsets.{flow.source}.internal",
        connector=connector or SOURCE_CONNECTOR,
        group=group or (f"{flow.source}-mm2" if dedicated else None),
    )


async def read_source_offsets(
    target: ClusterConnections, mm2: Mm2Topics, flow: FlowName
) -> dict[TopicPartition, int | None]:
    """MM2's source offset of each partition, of the last record that it committed as copied; None: it was deleted.

    Raises:
        ConfigError: There is no such topic, or it has source offsets of other connectors or clusters alone.
        ClusterUnreachableError, NotReadyError: As ``read_all``.
        CorruptRecordError: A record is no source offset of Connect.
    """
    if mm2.offsets_topic not in target.metadata.topics:
        raise ConfigError(
            f"cluster {flow.target} has no topic {mm2.offsets_topic}, in which MirrorMaker 2 in dedicated mode notes "
            f"its progress: where it runs in a Connect cluster, name that one's with --offsets-topic"
        )
    offsets: dict[TopicPartition, int | None] = {}
    others: set[str] = set()
    for record in await read_all(target, mm2.offsets_topic):
        found = SourceOffset.decode(record.key, record.value)
        if found is None:
            continue
        if (found.connector, found.cluster) == (mm2.connector, flow.source):
            offsets[found.partition] = found.offset
        else:
            others.add(f"connector {found.connector}, cluster {found.cluster}")
    if others and not offsets:
        raise ConfigError(
            f"topic {mm2.offsets_topic} on {flow.target} has notes of {'; '.join(sorted(others))}, and none of "
            f"connector {mm2.connector}, cluster {flow.source}: name it with --connector, and use MM2's aliases"
        )
    return offsets


async def read_offset_syncs(
    flow: FlowSettings, source: ClusterConnections, target: ClusterConnections
) -> dict[TopicPartition, list[OffsetSyncRecord]]:
    """The records that MM2's offset-syncs topic still holds, in order; a missing topic is an empty one.

    Raises:
        ClusterUnreachableError, NotReadyError: As ``read_all``.
    """
    policy, name = load_policy(flow.policy, flow.name.source), flow.name
    on_source = flow.offset_syncs.location == "source"
    topic = policy.offset_syncs_topic(name.target if on_source else name.source)
    found: dict[TopicPartition, list[OffsetSyncRecord]] = {}
    for record in await read_all(source if on_source else target, topic):
        try:
            sync = OffsetSyncRecord.decode(record.key, record.value)
        except CorruptRecordError:
            continue
        found.setdefault(sync.partition, []).append(sync)
    return found


async def read_activity(
    flow: FlowSettings, target: ClusterConnections, mm2: Mm2Topics, remote: Collection[TopicPartition]
) -> Mm2Activity:
    """What MM2 leaves on the target now.

    Raises:
        ClusterUnreachableError: A broker does not answer.
        NotReadyError: As ``read_all``.
    """
    topic = target.metadata.topics.get(mm2.offsets_topic)
    own = [TopicPartition(mm2.offsets_topic, number) for number in topic.partitions] if topic is not None else []
    offsets_ends, remote_ends, heartbeat_ms, workers = await asyncio.gather(
        _ends(target, own), _ends(target, remote), _heartbeat(flow, target), _workers(target, mm2.group)
    )
    return Mm2Activity(offsets_ends=offsets_ends, remote_ends=remote_ends, heartbeat_ms=heartbeat_ms, workers=workers)


async def _ends(cluster: ClusterConnections, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
    if not partitions:
        return {}
    ends = await cluster.list_offsets(dict.fromkeys(partitions, LATEST), "read_uncommitted")
    silent = next((partition for partition, answer in ends.items() if answer.error_code), None)
    if silent is not None:
        raise ClusterUnreachableError(f"cluster {cluster.settings.alias}: the leader of {silent} does not answer")
    return {partition: answer.offset for partition, answer in ends.items()}


async def _heartbeat(flow: FlowSettings, target: ClusterConnections) -> int | None:
    topic = load_policy(flow.policy, flow.name.source).heartbeats_topic()
    newest: int | None = None
    for record in await read_all(target, topic, last=_HEARTBEATS):
        try:
            beat = HeartbeatRecord.decode(record.key, record.value)
        except CorruptRecordError:
            continue
        if (beat.source_alias, beat.target_alias) == (flow.name.source, flow.name.target):
            newest = max(beat.timestamp_ms, newest or 0)
    return newest


async def _workers(target: ClusterConnections, group: str | None) -> str | None:
    if group is None:
        return None
    listing = await list_groups(GroupCoordinators(target))
    if listing.silent:
        why = "; ".join(f"broker {broker}: {error}" for broker, error in listing.silent.items())
        raise ClusterUnreachableError(f"cluster {target.settings.alias}: not all groups are known: {why}")
    listed = listing.groups.get(group)
    return None if listed is None else listed.state
