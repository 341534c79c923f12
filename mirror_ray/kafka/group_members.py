"""What the members of groups read: DescribeGroups, and ConsumerGroupDescribe for groups of KIP-848."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.group_coordinators import GroupCoordinators, GroupError
from mirror_ray.model.subscription import Subscription

_CLASSIC_KEY, _CLASSIC_VERSIONS = 15, (5, 6)
_CONSUMER_KEY, _CONSUMER_VERSIONS = 69, (0, 1)
_GROUPS_PER_REQUEST: Final = 100
#: While members join, brokers don't say what they have subscribed to.
_STABLE: Final = "Stable"
#: The kind of groups of KIP-848; others are described as classic ones.
_CONSUMER: Final = "consumer"
_UNREADABLE = (struct.error, UnicodeDecodeError, IndexError)

_Told = dict[str, Subscription | GroupError | None]


async def describe_members(coordinators: GroupCoordinators, kinds: Mapping[str, str]) -> dict[str, Subscription]:
    """What the members of groups read, of each group that has members and says so now.

    A classic group says so while it is stable; a streams group (KIP-1071) never does. ``kinds``: as ``ListedGroup`` has
    them.

    Raises:
        ClusterUnreachableError: No broker answers.
        KafkaProtocolError: A coordinator speaks no version that we know.
    """
    told: _Told = {}
    newer = [group for group, kind in kinds.items() if kind == _CONSUMER]
    older = [group for group, kind in kinds.items() if kind != _CONSUMER]
    for groups, ask in ((older, _ask_classic), (newer, _ask_consumer)):
        if groups:
            told |= await coordinators.ask(groups, ask)
    return {group: found for group, found in told.items() if isinstance(found, Subscription)}


async def _ask_classic(connection: Connection, groups: Sequence[str], answers: _Told) -> None:
    version = connection.best_version(_CLASSIC_KEY, *_CLASSIC_VERSIONS)
    module: Any = load_entity_module("describe_groups", version, EntityType.request)
    for asked in _batches(groups):
        request = module.DescribeGroupsRequest(groups=asked, include_authorized_operations=False)
        _take(await connection.request(request), _of_classic, answers)


async def _ask_consumer(connection: Connection, groups: Sequence[str], answers: _Told) -> None:
    version = connection.best_version(_CONSUMER_KEY, *_CONSUMER_VERSIONS)
    module: Any = load_entity_module("consumer_group_describe", version, EntityType.request)
    for asked in _batches(groups):
        request = module.ConsumerGroupDescribeRequest(group_ids=asked, include_authorized_operations=False)
        _take(await connection.request(request), _of_consumer, answers)


def _batches(groups: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for at in range(0, len(groups), _GROUPS_PER_REQUEST):
        yield tuple(groups[at : at + _GROUPS_PER_REQUEST])


def _take(answer: Any, read: Callable[[Any], Subscription | None], answers: _Told) -> None:
    for found in answer.groups:
        code = int(found.error_code)
        answers[found.group_id] = GroupError(error_info(code)) if code else read(found)


def _of_classic(group: Any) -> Subscription | None:
    if group.group_state != _STABLE or group.protocol_type != "consumer" or not group.members:
        return None
    topics: set[str] = set()
    for member in group.members:
        try:
            topics |= topics_in(bytes(member.member_metadata))
            topics |= topics_in(bytes(member.member_assignment), partitions=True)
        except _UNREADABLE:
            return None
    return Subscription(frozenset(topics))


def _of_consumer(group: Any) -> Subscription | None:
    if not group.members:
        return None
    topics: set[str] = set()
    patterns: set[str] = set()
    for member in group.members:
        topics |= set(member.subscribed_topic_names)
        for assignment in (member.assignment, member.target_assignment):
            topics |= {each.topic_name for each in assignment.topic_partitions}
        if member.subscribed_topic_regex:
            patterns.add(member.subscribed_topic_regex)
    return Subscription(frozenset(topics), frozenset(patterns))


def topics_in(data: bytes, *, partitions: bool = False) -> set[str]:
    """The topics of a classic member's subscription (ConsumerProtocolSubscription), or of its assignment.

    ``partitions``: each topic's partitions follow it, as in an assignment; which may be empty.

    Raises:
        struct.error, UnicodeDecodeError, IndexError: It is none.
    """
    if partitions and not data:
        return set()
    _, count = struct.unpack_from(">hi", data)
    at, topics = 6, set[str]()
    for _ in range(count):
        (size,) = struct.unpack_from(">h", data, at)
        at += 2 + size
        if at > len(data):
            raise IndexError(at)
        topics.add(str(data[at - size : at], "utf-8"))
        if partitions:
            (numbers,) = struct.unpack_from(">i", data, at)
            at += 4 + 4 * numbers
    return topics
