"""Where every group goes on: asked of the side that it leaves, or of what the target knows where that side is gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mirror_ray.failover.clusters import FailoverClusters, answered
from mirror_ray.failover.translated_offsets import NOT_COPIED, NOT_THERE, GroupPlacement, final_place, known_place
from mirror_ray.failover.uncommitted_topics import unread_places
from mirror_ray.groups.merged_groups import GroupPosition, merge_positions
from mirror_ray.groups.offset_state import GroupPartition
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.flow_maps import FlowMaps, RemotePartition
from mirror_ray.offsets.map import ExactOffset
from mirror_ray.offsets.translation import LogBounds, Translation

Places = dict[str, list[GroupPlacement]]


def to_move(
    sides: FailoverClusters,
    groups: Mapping[str, ListedGroup],
    moved: Mapping[str, list[GroupPlacement]],
    *,
    every: bool,
) -> dict[str, ListedGroup]:
    """Those of these groups that are moved, where they have committed what the flow carries; see ``with_source``."""
    found = {name: each for name, each in groups.items() if each.why_without_offsets is None}
    if sides.kind == "failback" and not every:
        found = {name: each for name, each in found.items() if name in moved}
    return found


async def with_source(
    sides: FailoverClusters,
    groups: Mapping[str, ListedGroup],
    moved: Mapping[str, list[GroupPlacement]],
    *,
    every: bool,
    final: bool = False,
) -> Places:
    """Translate what groups have committed on the side that they leave.

    Args:
        sides: Both sides.
        groups: On the side that they leave.
        moved: For a failback, what the failover has moved: other groups stay where they are, unless ``every``.
        every: See there.
        final: No offset may be about to change by a transaction that is open.

    Raises:
        ClusterUnreachableError: A cluster does not answer.
        MirrorError: An offset is not ``final``.
    """
    await sides.maps_are_read()
    names = to_move(sides, groups, moved, every=every)
    committed = await sides.committed(sides.origin, names, stable=final)
    if sides.kind == "failover":
        await _with_silent_partitions(sides, committed)
    for maps in (sides.maps, *sides.routed.values()):
        await maps.prepare()
    for group, offset in _unread_of_routes(sides, moved, committed):
        committed[group.group][group.partition] = offset
    routes = {each: sides.remote_partitions(each) for offsets in committed.values() for each in offsets}
    if sides.kind == "failback" and every:
        committed = {g: o for g, o in committed.items() if any(map(sides.is_remote, o))}
    logs = await sides.logs(sides.destination, {route.remote for each in routes.values() for route in each})
    await sides.look(routes)
    # Of the topics that were merged into one, not all need have as many partitions.
    routes = {
        each: tuple(r for r in found if len(found) == 1 or not r.back or r.remote in logs)
        for each, found in routes.items()
    }
    every_place = [
        await _located(GroupPartition(group, partition), offset, route, logs, merged=_is_merged(routes[partition]))
        for group, offsets in committed.items()
        for partition, offset in sorted(offsets.items())
        for route in routes[partition] or (None,)
    ]
    left = await unread_places(sides, groups, every_place, logs)
    found: Places = {}
    for place in await _merged(sides, [*every_place, *left], logs, left):
        found.setdefault(place.group, []).append(place)
    # A group of other topics is not this flow's business.
    return {group: places for group, places in found.items() if any(place.destination for place in places)}


async def without_source(sides: FailoverClusters) -> Places:
    """What the checkpoints and the map on the target say. Raises as ``with_source`` does."""
    await sides.maps_are_read(both=False)
    said = await sides.said()
    here = sides.destination
    topics = {each.topic for by_partition in said.values() for each in by_partition}
    metadata = (await here.refresh(topics)).topics
    partitions = {TopicPartition(topic, n) for topic in topics for n in metadata[topic].partitions}
    logs = await sides.logs(here, partitions)
    found: Places = {}
    for group, by_partition in said.items():
        mine = {each.topic for each in by_partition}
        for remote in sorted(each for each in partitions if each.topic in mine):
            last = by_partition.get(remote)
            topics_there = {
                topic
                for each, said_of in by_partition.items()
                if each.topic == remote.topic
                for topic in said_of.sources
            }
            maps = sides.maps_of(remote.topic)
            origin = maps.source_of(remote)
            if topics_there:
                origin = TopicPartition(min(topics_there), remote.partition)
            if origin is None:
                continue
            checkpoint = last.checkpoint if last else None
            # An offset that stands for several topics is no one topic's.
            alone = len(topics_there) < 2 and not maps.rules.merges(remote.topic)
            # Where both sides write, the map of the flow alone tells too little.
            alone &= not sides.carrying.both_sides_write(origin.topic, remote.topic)
            by_map = _exactly(maps, origin, checkpoint.upstream_offset) if checkpoint and alone else None
            place = Translation(offset=None, reason=NOT_THERE)
            if remote in logs:
                place = known_place(checkpoint.downstream_offset if checkpoint else None, by_map, logs[remote])
            found.setdefault(group, []).append(
                GroupPlacement(
                    group=group,
                    origin=origin,
                    origin_offset=checkpoint.upstream_offset if checkpoint else None,
                    destination=remote,
                    offset=place.offset,
                    exact=place.exact,
                    reason=place.reason,
                    metadata=checkpoint.metadata if checkpoint else "",
                )
            )
    return found


async def _with_silent_partitions(
    sides: FailoverClusters, committed: Mapping[str, dict[TopicPartition, CommittedOffset]]
) -> None:
    """A group that has committed nothing in a partition that is empty on the target stands at its start there."""
    topics = {each.topic for offsets in committed.values() for each in offsets}
    numbers: Mapping[str, Collection[int]] = {
        topic: found.partitions for topic, found in (await sides.origin.refresh(topics)).topics.items()
    }
    silent: dict[str, list[TopicPartition]] = defaultdict(list)
    for group, offsets in committed.items():
        for topic in {each.topic for each in offsets}:
            for number in numbers.get(topic, ()):
                each = TopicPartition(topic, number)
                if each not in offsets:
                    silent[group].append(each)
    starts = await sides.logs(sides.origin, {each for every in silent.values() for each in every})
    for group, every in silent.items():
        for each in every:
            log = starts.get(each)
            if log is not None and log.start == log.end:
                committed[group][each] = CommittedOffset(log.start)


def _is_merged(routes: Sequence[RemotePartition]) -> bool:
    """Whether they lead to each of the topics that were merged into one."""
    return len(routes) > 1 and routes[0].back


def _unread_of_routes(
    sides: FailoverClusters,
    moved: Mapping[str, list[GroupPlacement]],
    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
) -> list[tuple[GroupPartition, CommittedOffset]]:
    """Where a failover has put groups in topics that records were routed to, if they have no offset there any more.

    Such a group has read nothing there, for all that is known: it must not come back to behind that.
    """
    return [
        (GroupPartition(group, place.destination), CommittedOffset(place.offset))
        for group, offsets in committed.items()
        for place in moved.get(group, ())
        if place.destination is not None and place.offset is not None
        if sides.is_routed(place.destination.topic) and place.destination not in offsets
    ]


async def _merged(
    sides: FailoverClusters,
    places: Sequence[GroupPlacement],
    logs: Mapping[TopicPartition, LogBounds],
    left: Mapping[GroupPlacement, str],
) -> list[GroupPlacement]:
    """The places, where those of one group in one partition of the destination have one offset for all of them.

    ``left``: why some of them count that are not committed.
    """
    positions = [
        GroupPosition(
            group=each.group,
            source=each.origin,
            committed=each.origin_offset or 0,
            target=each.destination,
            back=sides.is_remote(each.origin),
            translation=Translation(offset=each.offset, exact=each.exact, reason=each.reason),
            assumed=left.get(each),
        )
        for each in places
    ]
    merged = await answered(sides.origin, merge_positions(positions, logs, sides.origin, sides.isolation_level))
    return [
        replace(each, offset=place.offset, exact=place.exact, reason=place.reason)
        for each, place in zip(places, merged, strict=True)
    ]


async def _located(
    key: GroupPartition,
    committed: CommittedOffset,
    route: RemotePartition | None,
    logs: Mapping[TopicPartition, LogBounds],
    *,
    merged: bool,
) -> GroupPlacement:
    """``merged``: the route is one of several, to the topics that were merged into the group's."""
    remote = route.remote if route is not None else None
    if route is None or remote is None:
        found = Translation(offset=None, reason=NOT_COPIED)
    elif remote not in logs:
        found = Translation(offset=None, reason=NOT_THERE)
    else:
        found = await route.translate(committed.offset)
        end = route.copied_before(committed.offset) if merged and found.offset is None else None
        if end is not None:
            # What stands between the end of this topic's copy and the group is of the other topics.
            found = Translation(offset=end, exact=False, reason=found.reason)
        found = final_place(found, logs[remote])
    return GroupPlacement(
        group=key.group,
        origin=key.partition,
        origin_offset=committed.offset,
        destination=remote,
        offset=found.offset,
        exact=found.exact,
        reason=found.reason,
        metadata=committed.metadata,
    )


def _exactly(maps: FlowMaps, origin: TopicPartition, offset: int) -> int | None:
    page = maps.own.store.find(origin)
    place = page.segments.to_target(offset) if page is not None and not page.segments.empty else None
    return place.offset if isinstance(place, ExactOffset) else None
