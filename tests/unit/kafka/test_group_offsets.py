"""Reading and committing the offsets of many groups while their coordinators come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mirror_ray.kafka import group_offsets
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.group_coordinators import GroupError
from mirror_ray.kafka.group_offsets import ACTIVE, OffsetReader, send_commits
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.errors import KafkaProtocolError
from mirror_ray.model.names import TopicPartition
from tests.unit.kafka.group_brokers import COMMIT, FETCH, Fetched, FetchedState, GroupBrokers

ORDERS = TopicPartition("orders", 0)
GROUPS = [f"g{number}" for number in range(10)]

LOADING, NOT_AVAILABLE, NOT_COORDINATOR, NETWORK = 14, 15, 16, 13
NOT_AUTHORIZED = 30


def _at(offset: int) -> FetchedState:
    return FetchedState({"orders": {0: Fetched(offset)}})


@pytest.fixture
def brokers() -> GroupBrokers:
    """Two brokers that share ten groups, each at an offset of its own."""
    return GroupBrokers(
        coordinators={group: 1 + number % 2 for number, group in enumerate(GROUPS)},
        offsets={group: _at(100 + number) for number, group in enumerate(GROUPS)},
    )


@pytest.mark.parametrize("version", [6, 7, 8, 9])
@pytest.mark.parametrize("find_version", [3, 4])
async def test_only_what_has_changed_is_told_again(brokers: GroupBrokers, version: int, find_version: int) -> None:
    """The first round tells all, the next ones what differs from what was told last: also when it was deleted."""
    brokers.fetch_version, brokers.find_version = version, find_version
    reader = OffsetReader(brokers.coordinators_of())
    first = await reader.read(GROUPS)
    assert {group: found.offsets for group, found in first.changed.items()} == {
        group: {ORDERS: CommittedOffset(100 + number)} for number, group in enumerate(GROUPS)
    }
    again = await reader.read(GROUPS)
    assert (again.changed, again.unchanged, again.failed) == ({}, set(GROUPS), {})
    brokers.offsets["g3"] = _at(7)
    del brokers.offsets["g4"]
    third = await reader.read(GROUPS)
    assert {group: found.offsets for group, found in third.changed.items()} == {
        "g3": {ORDERS: CommittedOffset(7)},
        "g4": {},
    }


async def test_group_that_was_not_asked_for_is_told_anew(brokers: GroupBrokers) -> None:
    """A reader keeps nothing of groups that it is not asked for any more."""
    reader = OffsetReader(brokers.coordinators_of())
    await reader.read(GROUPS)
    await reader.read(GROUPS[1:])
    assert set((await reader.read(GROUPS)).changed) == {"g0"}


async def test_coordinator_that_moves_in_the_middle_is_followed(brokers: GroupBrokers) -> None:
    """Groups that a broker no longer coordinates are read from the one that does now, the others once only."""

    def move(_broker: int, _api: int, group: str) -> int:
        if group == "g4":
            brokers.coordinators |= {"g4": 2, "g6": 2}
        return 0

    reader = OffsetReader(brokers.coordinators_of())
    await reader.read(GROUPS)
    brokers.asked.clear()
    brokers.trouble = move
    assert (await reader.read(GROUPS)).unchanged == set(GROUPS)
    assert {group for (_, group), times in brokers.asked.items() if times > 1} == {"g4", "g6"}


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE, NOT_COORDINATOR])
async def test_passing_errors_are_waited_for(brokers: GroupBrokers, code: int) -> None:
    """A coordinator that loads is asked again until it has; what was read elsewhere is not read again."""
    left = 3

    def trouble(broker: int, _api: int, group: str) -> int:
        nonlocal left
        if broker == 1 and left:
            left -= group == "g8"
            return code
        return 0

    brokers.trouble = trouble
    done = await OffsetReader(brokers.coordinators_of()).read(GROUPS)
    assert set(done.changed) == set(GROUPS)
    assert brokers.asked[FETCH, "g0"] == 4
    assert brokers.asked[FETCH, "g1"] == 1


async def test_groups_behind_a_lost_connection_are_read_again(
    brokers: GroupBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before the connection was lost counts; the rest is asked for over a new one."""
    monkeypatch.setattr(group_offsets, "_GROUPS_PER_REQUEST", 1)
    brokers.trouble = _lost_once("g4")
    done = await OffsetReader(brokers.coordinators_of()).read(GROUPS)
    assert set(done.changed) == set(GROUPS)
    assert brokers.asked[FETCH, "g2"] == 1
    assert brokers.asked[FETCH, "g4"] == 2


async def test_groups_of_a_broker_that_is_away_fail_by_name(brokers: GroupBrokers) -> None:
    """The others are read; when it is back, its groups have not changed if they are as they were told last."""
    reader = OffsetReader(brokers.coordinators_of(patience_s=0))
    await reader.read(GROUPS)
    brokers.silent = {2}
    # An open connection would go on: it is one to a broker that has ended.
    brokers.trouble = lambda broker, _api, _group: _lost() if broker == 2 else 0
    done = await reader.read(GROUPS)
    assert done.unchanged == set(GROUPS[::2])
    assert set(done.failed) == set(GROUPS[1::2])
    assert all(error.error.code == NETWORK for error in done.failed.values())
    brokers.silent, brokers.trouble = set(), lambda _broker, _api, _group: 0
    assert (await reader.read(GROUPS)).unchanged == set(GROUPS)


def _lost() -> int:
    raise ConnectionError("reset by peer")


def _lost_once(where: str) -> Callable[[int, int, str], int]:
    """The connection on which this group is asked for first."""
    left = [where]

    def trouble(_broker: int, _api: int, group: str) -> int:
        if group in left:
            left.remove(group)
            _lost()
        return 0

    return trouble


async def test_refusals_are_named_and_not_repeated(brokers: GroupBrokers) -> None:
    """A group that one may not describe fails alone; a partition with an error has no offset and says why."""
    brokers.trouble = lambda _broker, _api, group: NOT_AUTHORIZED if group == "g0" else 0
    brokers.offsets["g1"] = FetchedState({"orders": {0: Fetched(5), 1: Fetched(-1, error_code=29)}})
    done = await OffsetReader(brokers.coordinators_of()).read(GROUPS)
    assert {group: str(error) for group, error in done.failed.items()} == {"g0": "GROUP_AUTHORIZATION_FAILED"}
    assert brokers.asked[FETCH, "g0"] == 1
    assert done.changed["g1"].offsets == {ORDERS: CommittedOffset(5)}
    assert done.changed["g1"].errors == {TopicPartition("orders", 1): error_info(29)}


async def test_group_that_is_forgotten_meanwhile_is_found_all_the_same(brokers: GroupBrokers) -> None:
    """A reading, a listing and a commit share the coordinators; none trips over what another one forgets."""
    coordinators = brokers.coordinators_of()
    await coordinators.find(GROUPS[:5])
    finding = asyncio.create_task(coordinators.find(GROUPS))
    brokers.found = lambda: coordinators.forget(GROUPS)
    assert await finding == brokers.coordinators


async def test_group_without_a_coordinator_fails_when_patience_is_over(brokers: GroupBrokers) -> None:
    """COORDINATOR_NOT_AVAILABLE of FindCoordinator, as while a partition of __consumer_offsets has no leader."""
    del brokers.coordinators["g0"]
    done = await OffsetReader(brokers.coordinators_of(patience_s=0.2)).read(GROUPS)
    assert done.failed == {"g0": GroupError(error_info(NOT_AVAILABLE))}
    assert len(done.changed) == len(GROUPS) - 1


async def test_round_that_is_cancelled_loses_no_change(brokers: GroupBrokers) -> None:
    """What was read and not told is told as changed by the next round."""
    reader = OffsetReader(brokers.coordinators_of())
    await reader.read(GROUPS)
    brokers.offsets["g1"] = _at(7)
    brokers.trouble = lambda _broker, _api, group: LOADING if group == "g0" else 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await reader.read(GROUPS)
    brokers.trouble = lambda _broker, _api, _group: 0
    assert set((await reader.read(GROUPS)).changed) == {"g1"}


async def test_broker_that_is_too_old_is_an_error(brokers: GroupBrokers) -> None:
    """Before Kafka 2.4 there is no way; the error names the request."""
    brokers.fetch_version = 5
    with pytest.raises(KafkaProtocolError, match="UNSUPPORTED_VERSION"):
        await OffsetReader(brokers.coordinators_of()).read(GROUPS)


async def test_commits_are_read_back(brokers: GroupBrokers) -> None:
    """Each partition of each group is answered for, and a reader sees what was committed."""
    coordinators = brokers.coordinators_of()
    commits = {group: {ORDERS: (number, "by us")} for number, group in enumerate(GROUPS)}
    assert await send_commits(coordinators, commits) == {group: {ORDERS: None} for group in GROUPS}
    read = await OffsetReader(coordinators).read(GROUPS)
    assert read.changed["g3"].offsets == {ORDERS: CommittedOffset(3, -1, "by us")}


async def test_large_commit_goes_in_parts(brokers: GroupBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts of it are answered for; one without partitions is done at once."""
    monkeypatch.setattr(group_offsets, "_PARTITIONS_PER_COMMIT", 3)
    offsets = {TopicPartition("orders", number): (number, "") for number in range(8)}
    answers = await send_commits(brokers.coordinators_of(), {"g0": offsets, "g1": {}})
    assert answers == {"g0": dict.fromkeys(offsets), "g1": {}}
    assert brokers.asked[COMMIT, "g0"] == 3


async def test_active_groups_are_refused_by_the_broker(brokers: GroupBrokers) -> None:
    """UNKNOWN_MEMBER_ID is how a group with members answers; it is not repeated."""
    brokers.trouble = lambda _broker, _api, group: ACTIVE.code if group == "g0" else 0
    answers = await send_commits(brokers.coordinators_of(), {group: {ORDERS: (1, "")} for group in GROUPS})
    assert answers["g0"] == {ORDERS: ACTIVE}
    assert answers["g1"] == {ORDERS: None}
    assert brokers.asked[COMMIT, "g0"] == 1


async def test_commit_follows_its_coordinator(brokers: GroupBrokers) -> None:
    """NOT_COORDINATOR says that nothing was written: it is sent again, to the one that is."""
    coordinators = brokers.coordinators_of()
    await coordinators.find(GROUPS)
    brokers.coordinators["g0"] = 2
    assert await send_commits(coordinators, {"g0": {ORDERS: (1, "")}}) == {"g0": {ORDERS: None}}


async def test_commit_is_repeated_although_a_topic_is_missing(brokers: GroupBrokers) -> None:
    """Brokers refuse an unknown topic themselves; the rest may wait for a coordinator that loads."""
    left = 2

    def load(_broker: int, _api: int, _group: str) -> int:
        nonlocal left
        left -= 1
        return LOADING if left >= 0 else 0

    brokers.missing, brokers.trouble = {"nowhere"}, load
    nowhere = TopicPartition("nowhere", 0)
    answers = await send_commits(brokers.coordinators_of(), {"g0": {ORDERS: (1, ""), nowhere: (1, "")}})
    assert answers == {"g0": {ORDERS: None, nowhere: error_info(3)}}


async def test_commit_of_unknown_outcome_is_not_repeated(
    brokers: GroupBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was under way when the connection was lost may be done; what was not sent yet goes over a new one."""
    monkeypatch.setattr(group_offsets, "_COMMITS_UNDER_WAY", 1)
    brokers.trouble = _lost_once("g2")
    answers = await send_commits(brokers.coordinators_of(), {group: {ORDERS: (1, "")} for group in GROUPS})
    assert answers == {group: {ORDERS: error_info(NETWORK) if group == "g2" else None} for group in GROUPS}
    assert brokers.asked[COMMIT, "g2"] == 1
