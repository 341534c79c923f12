"""The groups of a cluster, of every kind (ListGroups), and the topics that their members read.

DescribeGroups, and ConsumerGroupDescribe for groups of KIP-848.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.kafka.cluster import CONTROL, ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.group_coordinators import GroupCoordinators, GroupError
from mirror_ray.model.subscription import Subscription

_LIST_GROUPS_KEY, _LIST_GROUPS_VERSIONS = 16, (0, 5)
_DESCRIBE_GROUPS_KEY, _DESCRIBE_GROUPS_VERSIONS = 15, (5, 6)
_CONSUMER_GROUP_DESCRIBE_KEY, _CONSUMER_GROUP_DESCRIBE_VERSIONS = 69, (0, 1)
#: A broker that does not answer within this is listed as such.
_PATIENCE_S: Final = 5.0
_GROUPS_PER_REQUEST: Final = 100

#: Kinds whose members commit offsets that OffsetFetch and OffsetCommit show and set; "" where brokers do not say.
_KINDS_WITH_OFFSETS: Final = frozenset({"", "classic", "consumer", "streams"})
_PROTOCOLS_WITH_OFFSETS: Final = frozenset({"", "consumer", "streams"})
#: The kind of groups of KIP-848; others are described as classic ones.
_CONSUMER: Final = "consumer"
#: While members join, brokers don't tell their subscriptions.
_STABLE: Final = "Stable"
_UNREADABLE = (struct.error, UnicodeDecodeError, IndexError)

_Subscriptions = dict[str, Subscription | GroupError | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group in an answer to ListGroups."""

    group: str
    #: ``classic``, ``consumer`` (KIP-848), ``share`` (KIP-932), ``streams`` (KIP-1071); "" before Kafka 3.8.
    kind: str
    #: ``consumer``, ``share``, ``streams``, ``connect``; "" for a group that never had a member.
    protocol_type: str
    #: ``Empty``, ``Stable``, ``PreparingRebalance`` and other states of Kafka's; "" before Kafka 2.6.
    state: str
    #: Its group coordinator's broker id.
    broker: int

    @property
    def why_without_offsets(self) -> str | None:
        """Why there are no committed offsets to mirror, in words; None where there are.

        Streams groups have some: as with consumers, OffsetFetch reads them and OffsetCommit sets them.
        """
        if self.kind == "share":
            return (
                "a share group (KIP-932) commits no offsets: its start offsets and acknowledgements are kept elsewhere"
            )
        if self.kind not in _KINDS_WITH_OFFSETS or self.protocol_type not in _PROTOCOLS_WITH_OFFSETS:
            return f"not a group of consumers: type {self.kind or 'unknown'}, protocol {self.protocol_type!r}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """The groups of all brokers that answered."""

    groups: dict[str, ListedGroup]
    #: Groups of the listing before this one that are not among them, and yet may exist: as they were listed last.
    unknown: dict[str, ListedGroup] = field(default_factory=dict)
    #: Why a broker did not answer; it may have groups that were never listed.
    silent: dict[int, str] = field(default_factory=dict)


async def list_groups(coordinators: GroupCoordinators, before: GroupListing | None = None) -> GroupListing:
    """The groups of all brokers; without DESCRIBE on the cluster, those that we may describe.

    A group of ``before`` has ceased to exist, and its group coordinator is forgotten, only if the broker that listed it
    then still is its group coordinator, has answered, and did not list it now. Else it is unknown, until a later
    listing settles it.
    """
    cluster = coordinators.cluster
    brokers = (await cluster.refresh(())).brokers
    answers = await asyncio.gather(*(_list_broker(cluster, broker) for broker in brokers))
    groups: dict[str, ListedGroup] = {}
    silent: dict[int, str] = {}
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, str):
            silent[broker] = answer
        else:
            groups |= answer
    known = {} if before is None else before.groups | before.unknown
    missing = {group: listed for group, listed in known.items() if group not in groups}
    unknown = await _unknown(coordinators, missing, brokers.keys() - silent.keys())
    coordinators.forget(missing.keys() - unknown.keys())
    return GroupListing(groups=groups, unknown=unknown, silent=silent)


async def _list_broker(cluster: ClusterConnections, broker: int) -> dict[str, ListedGroup] | str:
    """The broker's groups, or why it does not list them."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            connection = await cluster.connect(broker, CONTROL)
            version = connection.best_version(_LIST_GROUPS_KEY, *_LIST_GROUPS_VERSIONS)
            module: Any = load_entity_module("list_groups", version, EntityType.request)
            answer = await connection.request(module.ListGroupsRequest())
    except ConnectionError as error:
        return str(error)
    except TimeoutError:
        return f"no answer within {_PATIENCE_S:g} s"
    if code := int(answer.error_code):
        return error_info(code).name
    return {group.group_id: _listed(group, broker) for group in answer.groups}


def _listed(group: Any, broker: int) -> ListedGroup:
    return ListedGroup(
        group=group.group_id,
        kind=getattr(group, "group_type", "").lower(),
        protocol_type=group.protocol_type,
        state=getattr(group, "group_state", ""),
        broker=broker,
    )


async def _unknown(
    coordinators: GroupCoordinators, missing: Mapping[str, ListedGroup], answered: set[int]
) -> dict[str, ListedGroup]:
    unknown: dict[str, ListedGroup] = {}
    for group, found in (await coordinators.find(missing, fresh=True)).items():
        last = missing[group]
        if not isinstance(found, int):
            unknown[group] = last
        elif found != last.broker or found not in answered:
            # It has moved, perhaps while the brokers were asked: the next listing has it.
            unknown[group] = replace(last, broker=found)
    return unknown


async def describe_members(coordinators: GroupCoordinators, kinds: Mapping[str, str]) -> dict[str, Subscription]:
    """The subscriptions of groups, of each group that has members and shows them now.

    A classic group shows them while it is stable; a streams group (KIP-1071) never does. ``kinds`` as in
    ``ListedGroup``, by group.

    Raises:
        KafkaProtocolError: A group coordinator speaks no version that we know.
    """
    answers: _Subscriptions = {}
    consumer = [group for group, kind in kinds.items() if kind == _CONSUMER]
    classic = [group for group, kind in kinds.items() if kind != _CONSUMER]
    for groups, describe in ((classic, _describe_classic), (consumer, _describe_consumer)):
        if groups:
            answers |= await coordinators.ask(groups, describe)
    return {group: answer for group, answer in answers.items() if isinstance(answer, Subscription)}


async def _describe_classic(connection: Connection, groups: Sequence[str], answers: _Subscriptions) -> None:
    version = connection.best_version(_DESCRIBE_GROUPS_KEY, *_DESCRIBE_GROUPS_VERSIONS)
    module: Any = load_entity_module("describe_groups", version, EntityType.request)
    for names in _chunks(groups):
        request = module.DescribeGroupsRequest(groups=names, include_authorized_operations=False)
        _take(await connection.request(request), _classic_subscription, answers)


async def _describe_consumer(connection: Connection, groups: Sequence[str], answers: _Subscriptions) -> None:
    version = connection.best_version(_CONSUMER_GROUP_DESCRIBE_KEY, *_CONSUMER_GROUP_DESCRIBE_VERSIONS)
    module: Any = load_entity_module("consumer_group_describe", version, EntityType.request)
    for names in _chunks(groups):
        request = module.ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False)
        _take(await connection.request(request), _consumer_subscription, answers)


def _chunks(groups: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for at in range(0, len(groups), _GROUPS_PER_REQUEST):
        yield tuple(groups[at : at + _GROUPS_PER_REQUEST])


def _take(answer: Any, read: Callable[[Any], Subscription | None], answers: _Subscriptions) -> None:
    for group in answer.groups:
        code = int(group.error_code)
        answers[group.group_id] = GroupError(error_info(code)) if code else read(group)


def _classic_subscription(group: Any) -> Subscription | None:
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


def _consumer_subscription(group: Any) -> Subscription | None:
    if not group.members:
        return None
    topics: set[str] = set()
    patterns: set[str] = set()
    for member in group.members:
        topics |= set(member.subscribed_topic_names)
        for assignment in (member.assignment, member.target_assignment):
            topics |= {topic.topic_name for topic in assignment.topic_partitions}
        if member.subscribed_topic_regex:
            patterns.add(member.subscribed_topic_regex)
    return Subscription(frozenset(topics), frozenset(patterns))


def topics_in(data: bytes, *, partitions: bool = False) -> set[str]:
    """The topics of a classic member's subscription (ConsumerProtocolSubscription), or of its assignment.

    ``partitions``: each topic's follow it, as in an assignment, which may be empty.

    Raises:
        struct.error, UnicodeDecodeError, IndexError: The bytes are something else.
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
