"""Translates every group's offsets: asked of the cluster that it leaves, or of the target where the source is gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.groups.checkpoints import unsubscribed_by
from mirror_ray.groups.cluster_groups import answered
from mirror_ray.groups.merged_groups import assumed_offset, first_translations, merge_translated
from mirror_ray.groups.merged_topics import GroupRemote, uncommitted_topics
from mirror_ray.groups.translated_offset import (
    NOT_COPIED,
    NOT_THERE,
    TranslatedGroups,
    TranslatedOffset,
    by_checkpoint,
    within_log,
)
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.flow_maps import FlowMaps, RemotePartition, translate_many
from mirror_ray.offsets.map import ExactOffset
from mirror_ray.offsets.translation import ReadableBounds, Translation, within

Offsets = dict[str, list[TranslatedOffset]]


def to_move(
    clusters: FailoverClusters, groups: Mapping[str, ListedGroup], moved: TranslatedGroups, *, every: bool
) -> dict[str, ListedGroup]:
    """The groups that are moved, where they have committed in topics that the flow copies.

    Args:
        clusters: Both clusters.
        groups: On the cluster that they leave.
        moved: For a failback, what the failover has moved: other groups stay where they are, unless ``every``.
        every: A failback brings back every group that reads remote topics.
    """
    found = {name: group for name, group in groups.items() if group.why_without_offsets is None}
    if clusters.kind == "failback" and not every:
        found = {name: group for name, group in found.items() if name in moved}
    return found


async def with_source(
    clusters: FailoverClusters,
    groups: Mapping[str, ListedGroup],
    moved: TranslatedGroups,
    *,
    every: bool,
    final: bool = False,
) -> Offsets:
    """Translate what groups have committed on the cluster that they leave.

    ``final``: no offset may be about to change by a transaction that is open. The others: see ``to_move``.

    Raises:
        MirrorError: An offset is not ``final``.
    """
    await clusters.read_maps()
    names = to_move(clusters, groups, moved, every=every)
    committed = await clusters.committed(clusters.origin, names, stable=final)
    if clusters.kind == "failover":
        await _add_empty_partitions(clusters, committed)
    await clusters.prepare_maps()
    for group, offsets in committed.items():
        offsets.update(_unread_of_routes(clusters, moved.get(group, ()), offsets))
    remotes = {
        partition: clusters.remote_partitions(partition) for offsets in committed.values() for partition in offsets
    }
    if clusters.kind == "failback" and every and not clusters.is_reversed:
        committed = {group: offsets for group, offsets in committed.items() if any(map(clusters.is_remote, offsets))}
    logs = await clusters.logs(clusters.destination, {remote.remote for found in remotes.values() for remote in found})
    await clusters.refresh(remotes)
    # Of the topics that were merged into one, not all need have as many partitions.
    remotes = {
        partition: tuple(remote for remote in found if len(found) == 1 or not remote.back or remote.remote in logs)
        for partition, found in remotes.items()
    }
    rows = [
        (group, partition, offset, remote)
        for group, offsets in committed.items()
        for partition, offset in sorted(offsets.items())
        for remote in remotes[partition] or (None,)
    ]
    asked = {(remote, offset.offset): None for _, _, offset, remote in rows if remote and remote.remote in logs}
    translations = dict(zip(asked, await translate_many(list(asked)), strict=True))
    translated = [
        TranslatedOffset(
            group=group,
            origin=partition,
            origin_offset=offset.offset,
            destination=remote.remote if remote else None,
            translation=_bounded(remote, offset.offset, translations, logs, merged=_is_merged(remotes[partition])),
            metadata=offset.metadata,
            back=clusters.is_remote(partition),
        )
        for group, partition, offset, remote in rows
    ]
    translated += await _uncommitted(clusters, groups, translated, logs)
    merged = await answered(
        clusters.origin, merge_translated(translated, logs, clusters.origin, clusters.isolation_level)
    )
    found: Offsets = defaultdict(list)
    for offset in merged:
        found[offset.group].append(offset)
    # A group of other topics is not this flow's business.
    return {group: offsets for group, offsets in found.items() if any(offset.destination for offset in offsets)}


def _bounded(
    remote: RemotePartition | None,
    offset: int,
    translations: Mapping[tuple[RemotePartition, int], Translation],
    logs: Mapping[TopicPartition, ReadableBounds],
    *,
    merged: bool,
) -> Translation:
    """``merged``: the remote partition is one of those that were merged into the group's."""
    if remote is None:
        return Translation(offset=None, reason=NOT_COPIED)
    if remote.remote not in logs:
        return Translation(offset=None, reason=NOT_THERE)
    found = translations[remote, offset]
    outdated = found.retry and found.offset is None
    end = remote.copied_before(offset) if merged and found.offset is None and not outdated else None
    if end is not None:
        # Between the end of this topic's copy and the group's offset are records of the other topics.
        found = Translation(offset=end, exact=False, reason=found.reason)
    return within_log(found, logs[remote.remote])


def _is_merged(remotes: Sequence[RemotePartition]) -> bool:
    """Whether these are the topics that were merged into one."""
    return len(remotes) > 1 and remotes[0].back


async def _add_empty_partitions(
    clusters: FailoverClusters, committed: Mapping[str, dict[TopicPartition, CommittedOffset]]
) -> None:
    """Add the partitions of a group's topics in which it has committed nothing, and that are empty: at their start."""
    topics = {partition.topic for offsets in committed.values() for partition in offsets}
    metadata = (await clusters.origin.refresh(topics)).topics
    missing: dict[str, list[TopicPartition]] = defaultdict(list)
    for group, offsets in committed.items():
        for topic in {partition.topic for partition in offsets}:
            numbers = metadata[topic].partitions if topic in metadata else ()
            every = (TopicPartition(topic, number) for number in numbers)
            missing[group] += [partition for partition in every if partition not in offsets]
    logs = await clusters.logs(
        clusters.origin, {partition for partitions in missing.values() for partition in partitions}
    )
    for group, partitions in missing.items():
        for partition in partitions:
            log = logs.get(partition)
            if log is not None and log.start == log.end:
                committed[group][partition] = CommittedOffset(log.start)


def _unread_of_routes(
    clusters: FailoverClusters, moved: Sequence[TranslatedOffset], committed: Collection[TopicPartition]
) -> dict[TopicPartition, CommittedOffset]:
    """Where a failover has put a group in topics that records were routed to, if it has no offset there any more.

    For all that is known the group has read nothing there: it must not come back to behind that.
    """
    return {
        offset.destination: CommittedOffset(offset.offset)
        for offset in moved
        if offset.destination is not None and offset.offset is not None
        if clusters.is_routed(offset.destination.topic) and offset.destination not in committed
    }


async def _uncommitted(
    clusters: FailoverClusters,
    groups: Mapping[str, ListedGroup],
    translated: Sequence[TranslatedOffset],
    logs: Mapping[TopicPartition, ReadableBounds],
) -> list[TranslatedOffset]:
    """Where groups may yet have to read merged topics in which they have committed nothing."""
    topics: dict[GroupRemote, set[str]] = defaultdict(set)
    for offset in translated:
        remote = offset.destination
        if remote is not None and not offset.back and clusters.maps_of(remote.topic).rules.merges(remote.topic):
            topics[offset.group, remote].add(offset.origin.topic)
    merged_from = {remote: clusters.maps_of(remote.topic).merged_from(remote) for _, remote in topics}
    described = {
        group: groups[group].kind
        for (group, remote), own in topics.items()
        if group in groups and any(partition.topic not in own for partition in merged_from[remote])
    }
    if not described:
        return []
    unsubscribed = unsubscribed_by(await clusters.checkpoints())
    subscriptions = await clusters.subscriptions(described)
    found = []
    for topic in uncommitted_topics(topics, merged_from, subscriptions, unsubscribed):
        maps = clusters.maps_of(topic.remote.topic)
        ((first, translation),) = (await first_translations([topic.source], maps, clusters.origin)).values()
        bounded = Translation(offset=None)
        if topic.remote in logs:
            bounded = within(translation, logs[topic.remote])
        translation = Translation(offset=bounded.offset, exact=False, reason=topic.why)
        found.append(replace(assumed_offset(topic, first, translation), origin_offset=first if first >= 0 else None))
    return found


async def without_source(clusters: FailoverClusters) -> Offsets:
    """Where groups go on by their last checkpoints, and by the map where it is newer: what the target itself knows."""
    await clusters.read_maps(both=False)
    checkpoints = await clusters.checkpoints()
    topics = {remote.topic for by_partition in checkpoints.values() for remote in by_partition}
    metadata = (await clusters.destination.refresh(topics)).topics
    remotes = {TopicPartition(topic, number) for topic in topics for number in metadata[topic].partitions}
    logs = await clusters.logs(clusters.destination, remotes)
    found: Offsets = {}
    for group, by_partition in checkpoints.items():
        own_topics = {remote.topic for remote in by_partition}
        for remote in sorted(remote for remote in remotes if remote.topic in own_topics):
            sources = {
                topic
                for other, checkpoint in by_partition.items()
                if other.topic == remote.topic
                for topic in checkpoint.sources
            }
            maps = clusters.maps_of(remote.topic)
            origin = TopicPartition(min(sources), remote.partition) if sources else maps.source_of(remote)
            if origin is None:
                continue
            checkpoint = by_partition[remote].checkpoint if remote in by_partition else None
            # An offset of several merged topics is no one topic's; where both sides write, one map is not enough.
            alone = len(sources) < 2 and not maps.rules.merges(remote.topic)
            alone = alone and not clusters.ahead.both_sides_write(origin.topic, remote.topic)
            by_map = _exact_offset(maps, origin, checkpoint.upstream_offset) if checkpoint and alone else None
            translation = Translation(offset=None, reason=NOT_THERE)
            if remote in logs:
                translation = by_checkpoint(checkpoint.downstream_offset if checkpoint else None, by_map, logs[remote])
            found.setdefault(group, []).append(
                TranslatedOffset(
                    group=group,
                    origin=origin,
                    origin_offset=checkpoint.upstream_offset if checkpoint else None,
                    destination=remote,
                    translation=translation,
                    metadata=checkpoint.metadata if checkpoint else "",
                )
            )
    return found


def _exact_offset(maps: FlowMaps, origin: TopicPartition, offset: int) -> int | None:
    found = maps.own.store.find(origin)
    if found is None or found.segments.empty:
        return None
    target = found.segments.to_target(offset)
    return target.offset if isinstance(target, ExactOffset) else None
