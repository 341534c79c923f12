"""What is to be asked of a source for groups that have committed in some of the topics that are merged, not in all."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from mirror_ray.groups.merged_topics import GroupThere, UncommittedTopic, unread
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import describe_members
from mirror_ray.kafka.leader_requests import EARLIEST
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.subscription import Subscription
from mirror_ray.offsets.flow_maps import FlowTranslator

#: A group's members are asked about again after so long.
_ASK_AGAIN_S: Final = 10.0


class Subscriptions:
    """What the members of groups read."""

    def __init__(self, coordinators: GroupCoordinators) -> None:
        self._coordinators = coordinators
        self._known: dict[str, Subscription] = {}
        self._asked_s: dict[str, float] = {}

    async def look(self, kinds: Mapping[str, str]) -> Mapping[str, Subscription]:
        """Of these groups, of those whose members tell it; some seconds old at most. ``kinds``: see ``ListedGroup``.

        Raises:
            OSError, MirrorError: The source can't be used now.
        """
        now_s = time.monotonic()
        late = {group for group, asked_s in self._asked_s.items() if now_s - asked_s > _ASK_AGAIN_S}
        due = {group: kind for group, kind in kinds.items() if group in late or group not in self._asked_s}
        told = await describe_members(self._coordinators, due)
        self._known = {g: each for g, each in self._known.items() if g in kinds and g not in due} | told
        self._asked_s = {g: self._asked_s[g] for g in self._asked_s.keys() & kinds.keys()} | dict.fromkeys(due, now_s)
        return self._known


async def first_offsets(
    source: ClusterConnections, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Where the logs of partitions begin; one that can't be asked now is left out.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    if not partitions:
        return {}
    starts = await source.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted")
    return {each: answer.offset for each, answer in starts.items() if not answer.error_code}


class GroupReads(NamedTuple):
    """What is known of the topics that groups read; see ``offsets.merged.unread``."""

    subscriptions: Mapping[str, Subscription]
    unsubscribed: Mapping[GroupThere, Collection[str]]


#: Of no group anything is known.
NOT_KNOWN: Final = GroupReads({}, {})


async def first_unread(
    ways: FlowTranslator,
    source: ClusterConnections,
    committed: Mapping[GroupThere, Collection[str]],
    reads: GroupReads,
) -> dict[UncommittedTopic, int]:
    """What groups may yet have to read of topics that are merged, and where it begins.

    ``committed``: see ``offsets.merged.unread``.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    merged_from = {remote: ways.merged_from(remote) for _, remote in committed}
    left = list(unread(committed, merged_from, reads.subscriptions, reads.unsubscribed))
    starts = await first_offsets(source, {each.source for each in left})
    # What can't be asked begins at its first record, wherever that is now.
    return {each: starts.get(each.source, 0) for each in left}
