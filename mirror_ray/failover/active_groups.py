"""The groups that work on the cluster that is left: those with members there, and those that have committed since."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Final

from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.left_behind import has_gone_on
from mirror_ray.failover.translate_offsets import to_move, with_source
from mirror_ray.groups.cluster_groups import answered
from mirror_ray.groups.commit_rules import WITHOUT_MEMBERS
from mirror_ray.groups.translated_offset import TranslatedGroups
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.subscription import Subscription

#: A group says what its members read once they have joined, which takes them some seconds.
_DESCRIBED_WITHIN_S: Final = 5.0
_ASK_AGAIN_S: Final = 0.3
#: The kind of groups that never says so (KIP-1071).
_STREAMS: Final = "streams"


def with_members(groups: Mapping[str, ListedGroup]) -> dict[str, ListedGroup]:
    """Those of these groups that have members."""
    return {name: group for name, group in groups.items() if group.state not in WITHOUT_MEMBERS}


async def groups_that_went_on(
    clusters: FailoverClusters, offsets: TranslatedGroups, moved: TranslatedGroups, *, every: bool, skip_active: bool
) -> list[str]:
    """Groups that have done something on the origin since their offsets were translated, or may do so now.

    Groups without translated offsets count, too: those that have committed meanwhile, and those whose members may.

    Args:
        clusters: Both clusters.
        offsets: Where groups go on.
        moved: For a failback, what the failover has moved.
        every: A failback brings back every group that reads remote topics.
        skip_active: Groups that have members are left where they are.

    Raises:
        OSError, MirrorError: The origin can't be asked, or an offset is in a transaction that is open.
    """
    listed = await clusters.groups(clusters.origin)
    working = with_members(listed)
    idle = [name for name in offsets if name in listed and name not in working]
    others = _without(to_move(clusters, listed, moved, every=every), offsets)
    await _prepare(clusters)
    committed = await clusters.committed(clusters.origin, idle, stable=True)
    copied = _copied(clusters, committed)
    found = {name for name, of_group in committed.items() if has_gone_on(offsets[name], of_group, copied)}
    if skip_active:
        return sorted(found | await _new(clusters, _without(others, working), moved, every=every))
    found |= offsets.keys() & working.keys()
    found |= await _new(clusters, others, moved, every=every)
    found |= await groups_at_work(clusters, _without(with_members(others), found), every=every)
    return sorted(found)


async def _new(
    clusters: FailoverClusters, others: Mapping[str, ListedGroup], moved: TranslatedGroups, *, every: bool
) -> set[str]:
    """Groups without translated offsets that would have some now."""
    committed = await clusters.committed(clusters.origin, list(others))
    copied = _copied(clusters, committed)
    new = {name: others[name] for name, offsets in committed.items() if not copied.isdisjoint(offsets)}
    return set(await with_source(clusters, new, moved, every=every)) if new else set()


def _copied(
    clusters: FailoverClusters, committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]]
) -> set[TopicPartition]:
    """The partitions among those committed that the flow moves groups of."""
    partitions = {partition for offsets in committed.values() for partition in offsets}
    return {partition for partition in partitions if clusters.remote_partitions(partition)}


async def groups_at_work(clusters: FailoverClusters, groups: Mapping[str, ListedGroup], *, every: bool) -> set[str]:
    """Those of these groups whose members read what the flow copies, though they have committed nothing there yet.

    A group whose members don't say (some join for ever, streams groups never do) counts unless it has committed in
    other topics.

    Args:
        clusters: Both clusters.
        groups: Have members on the origin.
        every: A failback brings back every group that reads remote topics.
    """
    if not groups:
        return set()
    await _prepare(clusters)
    topics = await _topics(clusters, every=every)
    described: dict[str, Subscription] = {}
    silent = dict(groups)
    deadline_s = time.monotonic() + _DESCRIBED_WITHIN_S
    while True:
        described |= await clusters.subscriptions({name: group.kind for name, group in silent.items()})
        silent = _without(silent, described)
        if all(group.kind == _STREAMS for group in silent.values()) or time.monotonic() >= deadline_s:
            break
        await asyncio.sleep(_ASK_AGAIN_S)
        # Some may have left instead of joining.
        working = with_members(await clusters.groups(clusters.origin))
        silent = {name: group for name, group in silent.items() if name in working}
    found = {name for name, subscription in described.items() if _reads(subscription, topics)}
    if silent:
        committed = await clusters.committed(clusters.origin, list(silent))
        found |= {name for name in silent if not committed.get(name)}
    return found


def _reads(subscription: Subscription, topics: frozenset[str]) -> bool:
    if not subscription.patterns:
        return not topics.isdisjoint(subscription.topics)
    return any(map(subscription.covers, topics))


async def _topics(clusters: FailoverClusters, *, every: bool) -> frozenset[str]:
    """The topics on the origin that the flow moves groups of."""
    topics = (await answered(clusters.origin, clusters.origin.refresh(None))).topics
    partitions = (TopicPartition(topic, 0) for topic in topics)
    back = clusters.kind == "failback" and every
    found = (partition for partition in partitions if clusters.remote_partitions(partition))
    return frozenset(partition.topic for partition in found if not back or clusters.is_remote(partition))


async def _prepare(clusters: FailoverClusters) -> None:
    await clusters.read_maps()
    await clusters.prepare_maps()


def _without(groups: Mapping[str, ListedGroup], names: Collection[str]) -> dict[str, ListedGroup]:
    return {name: group for name, group in groups.items() if name not in names}
