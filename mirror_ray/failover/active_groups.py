"""Who works on the side that is left: groups that have members there, and groups that have committed since."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final

from mirror_ray.failover.clusters import WITHOUT_MEMBERS, FailoverClusters, answered
from mirror_ray.failover.left_behind import has_gone_on
from mirror_ray.failover.translate_offsets import to_move, with_source
from mirror_ray.failover.translated_offsets import GroupPlacement
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.subscription import Subscription

#: A group says what its members read once they have joined, which takes them some seconds.
_TOLD_WITHIN_S: Final = 5.0
_ASK_AGAIN_S: Final = 0.3
#: The kind of groups that never says so (KIP-1071).
_STREAMS: Final = "streams"


def with_members(groups: Mapping[str, ListedGroup]) -> dict[str, ListedGroup]:
    """Those of these groups that have some."""
    return {name: each for name, each in groups.items() if each.state not in WITHOUT_MEMBERS}


async def groups_that_went_on(
    sides: FailoverClusters,
    places: Mapping[str, Sequence[GroupPlacement]],
    moved: Mapping[str, list[GroupPlacement]],
    *,
    every: bool,
    skip_active: bool,
) -> list[str]:
    """Groups that have done something on the origin since their places were looked up, or may do so now.

    Groups without places count, too: those that have committed meanwhile, and those whose members may yet do so.

    Args:
        sides: Both sides.
        places: Where groups go on.
        moved: See ``locating.with_source``.
        every: See there.
        skip_active: Those that have members are left where they are.

    Raises:
        OSError, MirrorError: The origin can't be asked, or an offset is in a transaction that is open.
    """
    listed = await sides.groups(sides.origin)
    working = with_members(listed)
    idle = [name for name in places if name in listed and name not in working]
    others = {name: each for name, each in to_move(sides, listed, moved, every=every).items() if name not in places}
    await _prepare(sides)
    found = await _of_known(sides, idle, places)
    if skip_active:
        return sorted(found | await _come_since(sides, _without(others, working), moved, every=every))
    found |= places.keys() & working.keys()
    found |= await _come_since(sides, others, moved, every=every)
    found |= await groups_at_work(sides, _without(with_members(others), found), every=every)
    return sorted(found)


async def _of_known(
    sides: FailoverClusters, idle: Sequence[str], places: Mapping[str, Sequence[GroupPlacement]]
) -> set[str]:
    committed = await sides.committed(sides.origin, idle, stable=True)
    carried = _carried(sides, committed)
    return {name for name, offsets in committed.items() if has_gone_on(places[name], offsets, carried)}


async def _come_since(
    sides: FailoverClusters,
    others: Mapping[str, ListedGroup],
    moved: Mapping[str, list[GroupPlacement]],
    *,
    every: bool,
) -> set[str]:
    """Groups without places that would have some if they were looked up now."""
    committed = await sides.committed(sides.origin, list(others))
    carried = _carried(sides, committed)
    new = {name: others[name] for name, offsets in committed.items() if not carried.isdisjoint(offsets)}
    return set(await with_source(sides, new, moved, every=every)) if new else set()


def _carried(
    sides: FailoverClusters, committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]]
) -> set[TopicPartition]:
    """The partitions that the flow carries groups in."""
    partitions = {partition for offsets in committed.values() for partition in offsets}
    return {partition for partition in partitions if sides.remote_partitions(partition)}


async def groups_at_work(sides: FailoverClusters, groups: Mapping[str, ListedGroup], *, every: bool) -> set[str]:
    """Those of these groups whose members read what the flow carries, though they have committed nothing there yet.

    One whose members don't tell (some join for ever, streams groups never do) is taken for one unless it has committed
    in other topics.

    Args:
        sides: Both sides.
        groups: Have members on the origin.
        every: See ``locating.with_source``.

    Raises:
        OSError, MirrorError: The origin can't be asked.
    """
    if not groups:
        return set()
    await _prepare(sides)
    topics = await _topics(sides, every=every)
    told: dict[str, Subscription] = {}
    silent = dict(groups)
    deadline_s = time.monotonic() + _TOLD_WITHIN_S
    while True:
        told |= await sides.subscriptions({name: each.kind for name, each in silent.items()})
        silent = _without(silent, told)
        if all(each.kind == _STREAMS for each in silent.values()) or time.monotonic() >= deadline_s:
            break
        await asyncio.sleep(_ASK_AGAIN_S)
        # Some may have left instead of joining.
        working = with_members(await sides.groups(sides.origin))
        silent = {name: each for name, each in silent.items() if name in working}
    found = {name for name, subscription in told.items() if _reads(subscription, topics)}
    if silent:
        committed = await sides.committed(sides.origin, list(silent))
        found |= {name for name in silent if not committed.get(name)}
    return found


def _reads(subscription: Subscription, topics: frozenset[str]) -> bool:
    if not subscription.patterns:
        return not topics.isdisjoint(subscription.topics)
    return any(map(subscription.covers, topics))


async def _topics(sides: FailoverClusters, *, every: bool) -> frozenset[str]:
    """The topics on the origin that the flow carries groups in."""
    topics = (await answered(sides.origin, sides.origin.refresh(None))).topics
    partitions = (TopicPartition(topic, 0) for topic in topics)
    back = sides.kind == "failback" and every
    found = (each for each in partitions if sides.remote_partitions(each))
    return frozenset(each.topic for each in found if not back or sides.is_remote(each))


async def _prepare(sides: FailoverClusters) -> None:
    """So that routes can be asked for."""
    await sides.maps_are_read()
    for maps in (sides.maps, *sides.routed.values()):
        await maps.prepare()


def _without(groups: Mapping[str, ListedGroup], names: Mapping[str, object] | set[str]) -> dict[str, ListedGroup]:
    return {name: each for name, each in groups.items() if name not in names}
