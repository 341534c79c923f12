"""Which groups there are, and which of those that are not listed are gone."""

from __future__ import annotations

import pytest

from mirror_ray.kafka.group_listing import ListedGroup, list_groups
from tests.unit.kafka.group_brokers import FetchedState, GroupBrokers

LOADING = 14


@pytest.fixture
def brokers() -> GroupBrokers:
    """Two brokers with two groups each."""
    owners = {"a": 1, "b": 1, "c": 2, "d": 2}
    return GroupBrokers(coordinators=owners, offsets=dict.fromkeys(owners, FetchedState()))


async def test_groups_of_all_brokers_are_listed(brokers: GroupBrokers) -> None:
    """With kind, protocol, state and coordinator."""
    listing = await list_groups(brokers.coordinators_of())
    assert set(listing.groups) == {"a", "b", "c", "d"}
    assert listing.groups["c"] == ListedGroup(
        group="c", kind="classic", protocol_type="consumer", state="Empty", broker=2
    )
    assert not listing.unknown
    assert not listing.silent


async def test_group_that_its_coordinator_no_longer_lists_is_gone(brokers: GroupBrokers) -> None:
    """It was deleted, or has expired."""
    coordinators = brokers.coordinators_of()
    first = await list_groups(coordinators)
    del brokers.offsets["a"]
    second = await list_groups(coordinators, first)
    assert set(second.groups) == {"b", "c", "d"}
    assert not second.unknown


async def test_groups_of_a_broker_that_does_not_answer_are_unknown(brokers: GroupBrokers) -> None:
    """Whether it refuses, loads, or is not in the metadata any more: as long as it does not tell."""
    coordinators = brokers.coordinators_of()
    listing = await list_groups(coordinators)
    brokers.silent = {2}
    listing = await list_groups(coordinators, listing)
    assert set(listing.groups) == {"a", "b"}
    assert set(listing.unknown) == {"c", "d"}
    assert "Connection refused" in listing.silent[2]

    brokers.brokers, brokers.silent = {1}, set()
    brokers.coordinators |= {"c": -1, "d": -1}
    listing = await list_groups(coordinators, listing)
    assert set(listing.unknown) == {"c", "d"}
    assert not listing.silent

    brokers.brokers = {1, 2}
    brokers.coordinators |= {"c": 2, "d": 2}
    brokers.trouble = lambda broker, _api, _group: LOADING if broker == 2 else 0
    listing = await list_groups(coordinators, listing)
    assert set(listing.unknown) == {"c", "d"}
    assert listing.silent == {2: "COORDINATOR_LOAD_IN_PROGRESS"}

    brokers.trouble = lambda _broker, _api, _group: 0
    del brokers.offsets["d"]
    listing = await list_groups(coordinators, listing)
    assert set(listing.groups) == {"a", "b", "c"}
    assert not listing.unknown


async def test_group_that_moves_while_all_are_asked_is_not_gone(brokers: GroupBrokers) -> None:
    """No broker listed it, and it has another coordinator now: only a later listing tells whether it is there."""
    coordinators = brokers.coordinators_of()
    first = await list_groups(coordinators)
    state = brokers.offsets.pop("a")
    brokers.coordinators["a"] = 2
    second = await list_groups(coordinators, first)
    assert second.unknown["a"].broker == 2
    brokers.offsets["a"] = state
    assert "a" in (await list_groups(coordinators, second)).groups
    del brokers.offsets["a"]
    assert not (await list_groups(coordinators, second)).unknown


@pytest.mark.parametrize(
    ("kind", "protocol_type", "reason"),
    [
        ("classic", "consumer", None),
        ("classic", "", None),
        ("", "consumer", None),
        ("consumer", "consumer", None),
        ("streams", "streams", None),
        ("share", "share", "share group"),
        ("classic", "connect", "not a group of consumers"),
        ("later", "later", "not a group of consumers"),
    ],
)
def test_groups_without_committed_offsets_say_why(kind: str, protocol_type: str, reason: str | None) -> None:
    """Share groups keep theirs elsewhere; Connect's workers have none."""
    group = ListedGroup(group="g", kind=kind, protocol_type=protocol_type, state="Empty", broker=1)
    assert (reason or "") in (group.why_without_offsets or "")
    assert (group.why_without_offsets is None) == (reason is None)
