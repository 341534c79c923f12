"""Topics that are merged with those that a group reads, and in which it has committed nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.translated_offsets import GroupPlacement
from mirror_ray.groups.merged_groups import first_places
from mirror_ray.groups.merged_topics import GroupThere, UncommittedTopic, unread
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import LogBounds, within


async def unread_places(
    sides: FailoverClusters,
    groups: Mapping[str, ListedGroup],
    places: Sequence[GroupPlacement],
    logs: Mapping[TopicPartition, LogBounds],
) -> dict[GroupPlacement, str]:
    """Where groups may yet have to read such topics from, and why; see ``offsets.merged.unread``.

    Args:
        sides: Both sides.
        groups: On the side that they leave.
        places: Of what they have committed.
        logs: Of the destination.

    Raises:
        ClusterUnreachableError: A cluster does not answer.
        OSError, MirrorError: A group or the checkpoints can't be asked now.
    """
    topics = _topics(sides, places)
    merged_from = {remote: sides.maps_of(remote.topic).merged_from(remote) for _, remote in topics}
    described = {
        group: groups[group].kind
        for (group, remote), own in topics.items()
        if group in groups and any(each.topic not in own for each in merged_from[remote])
    }
    if not described:
        return {}
    said = await sides.said()
    unsubscribed = {
        (group, remote): each.unsubscribed for group, every in said.items() for remote, each in every.items()
    }
    subscriptions = await sides.subscriptions(described)
    found: dict[GroupPlacement, str] = {}
    for each in unread(topics, merged_from, subscriptions, unsubscribed):
        found[await _place(sides, each, logs)] = each.why
    return found


def _topics(sides: FailoverClusters, places: Sequence[GroupPlacement]) -> dict[GroupThere, set[str]]:
    """The topics in which each group has committed, of those that are merged."""
    found: dict[GroupThere, set[str]] = {}
    for place in places:
        remote = place.destination
        if remote is None or sides.is_remote(place.origin):
            continue
        if sides.maps_of(remote.topic).rules.merges(remote.topic):
            found.setdefault((place.group, remote), set()).add(place.origin.topic)
    return found


async def _place(
    sides: FailoverClusters, left: UncommittedTopic, logs: Mapping[TopicPartition, LogBounds]
) -> GroupPlacement:
    group, remote = left.there
    (found,) = (await first_places([left.source], sides.maps_of(remote.topic), sides.origin)).values()
    first, place = found
    place = within(place, logs[remote]) if remote in logs else replace(place, offset=None)
    return GroupPlacement(
        group=group,
        origin=left.source,
        origin_offset=first if first >= 0 else None,
        destination=remote,
        offset=place.offset,
        exact=False,
        reason=left.why,
    )
