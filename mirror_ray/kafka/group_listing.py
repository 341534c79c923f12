"""Which groups a cluster has, of what kind, and which of them nobody can tell about at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.kafka.cluster import CONTROL, ClusterConnections
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.group_coordinators import GroupCoordinators

_LIST_GROUPS_KEY, _LIST_GROUPS_VERSIONS = 16, (0, 5)
#: A broker that does not answer within this is listed as such.
_PATIENCE_S = 5.0

#: Kinds whose members commit offsets that OffsetFetch and OffsetCommit show and set; "" where brokers do not say.
_KINDS_WITH_OFFSETS = frozenset({"", "classic", "consumer", "streams"})
_PROTOCOLS_WITH_OFFSETS = frozenset({"", "consumer", "streams"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as ListGroups tells of it."""

    group: str
    #: ``classic``, ``consumer`` (KIP-848), ``share`` (KIP-932), ``streams`` (KIP-1071); "" before Kafka 3.8.
    kind: str
    #: ``consumer``, ``share``, ``streams``, ``connect``; "" where nobody ever was a member.
    protocol_type: str
    #: As Kafka says it: ``Empty``, ``Stable``, ``PreparingRebalance``; "" before Kafka 2.6.
    state: str
    #: Its coordinator's broker id.
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
    """All groups that the brokers told of."""

    groups: dict[str, ListedGroup]
    #: Groups of the listing before this one that are not among them, and yet may exist: as they were last seen.
    unknown: dict[str, ListedGroup] = field(default_factory=dict)
    #: Why a broker did not tell; there may be groups of its own that were never listed.
    silent: dict[int, str] = field(default_factory=dict)


async def list_groups(coordinators: GroupCoordinators, before: GroupListing | None = None) -> GroupListing:
    """The groups of all brokers (ListGroups), of every kind; without DESCRIBE on the cluster, those one may describe.

    A group of ``before`` is gone, and its coordinator forgotten, only if the broker that listed it then still is its
    coordinator, has answered, and did not list it now. Else it is unknown, until a later listing tells.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    cluster = coordinators.cluster
    brokers = (await cluster.refresh(())).brokers
    told = await asyncio.gather(*(_ask_broker(cluster, broker) for broker in brokers))
    groups: dict[str, ListedGroup] = {}
    silent: dict[int, str] = {}
    for broker, answer in zip(brokers, told, strict=True):
        if isinstance(answer, str):
            silent[broker] = answer
        else:
            groups |= answer
    missing = {} if before is None else _without(before.groups | before.unknown, groups)
    unknown = await _unknown(coordinators, missing, brokers.keys() - silent.keys())
    coordinators.forget(missing.keys() - unknown.keys())
    return GroupListing(groups=groups, unknown=unknown, silent=silent)


async def _ask_broker(cluster: ClusterConnections, broker: int) -> dict[str, ListedGroup] | str:
    """Its groups, or why it does not tell them."""
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
    return {each.group_id: _listed(each, broker) for each in answer.groups}


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
            # It has moved, perhaps while the brokers were asked: the next listing tells.
            unknown[group] = replace(last, broker=found)
    return unknown


def _without(groups: Mapping[str, ListedGroup], others: Mapping[str, ListedGroup]) -> dict[str, ListedGroup]:
    return {group: listed for group, listed in groups.items() if group not in others}
