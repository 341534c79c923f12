"""What is committed, what is left and what is refused: every offset has its outcome, whatever becomes of the others."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.failover import bulk_translation
from mirror_ray.failover.bulk_translation import BulkOrder
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.commit_offsets import commit, not_before_it_left
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.groups import cluster_groups
from mirror_ray.groups.cluster_groups import ClusterGroups
from mirror_ray.groups.commit_rules import ACTIVE
from mirror_ray.groups.translated_offset import TranslatedOffset
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import ErrorInfo, error_info
from mirror_ray.kafka.group_coordinators import COORDINATOR_LOAD_IN_PROGRESS
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.filters import GroupFilter
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.rules import ReplicationRules
from tests.support.factories import translated_offset
from tests.support.unrecorded import translate_in_bulk as carry_out
from tests.unit.kafka.group_brokers import Fetched, FetchedState, GroupBrokers

REMOTE, OTHER = TopicPartition("A.orders", 0), TopicPartition("A.bills", 0)
REFUSED = error_info(30)


def settings() -> MirrorSettings:
    """Of A->B; nobody is connected to."""
    clusters = {alias: ClusterSettings(alias=alias, bootstrap_servers=("nowhere:1",)) for alias in "AB"}
    return MirrorSettings(clusters=clusters, flows=(FlowSettings(name=FlowName("A", "B"), enabled=True),))


def listed(group: str, kind: str, state: str = "Empty") -> ListedGroup:
    """A group on the destination."""
    return ListedGroup(group=group, kind=kind, protocol_type="", state=state, broker=1)


@dataclass
class FakeClusters:
    """Both clusters of a failover; ``errors``: how the destination answers commits."""

    there: Mapping[str, ListedGroup] = field(default_factory=dict)
    errors: Mapping[tuple[str, TopicPartition], ErrorInfo] = field(default_factory=dict)
    stands: Mapping[str, Mapping[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    committed_now: list[str] = field(default_factory=list)

    kind = "failover"
    source = target = destination = SimpleNamespace(settings=SimpleNamespace(alias="B"))
    flow = ahead = FlowSettings(name=FlowName("A", "B"), enabled=True)
    back = None
    rules = replication_rules(ahead)

    def rules_of(self, remote: str) -> ReplicationRules:
        return self.rules

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def problem(self, text: str) -> None:
        """See ``FailoverClusters``."""

    async def groups(self, on: object) -> Mapping[str, ListedGroup]:
        return self.there

    async def committed(self, on: object, groups: Collection[str]) -> dict[str, Any]:
        return {group: dict(offsets) for group, offsets in self.stands.items() if group in groups}

    async def checkpoints(self) -> dict[str, Any]:
        return {}

    async def append_checkpoints(self, checkpoints: object) -> None:
        """See ``FailoverClusters``."""

    async def commit(self, commits: Mapping[str, Mapping[TopicPartition, Any]]) -> dict[str, dict[TopicPartition, Any]]:
        self.committed_now += commits
        return {
            group: {partition: self.errors.get((group, partition)) for partition in every}
            for group, every in commits.items()
        }


def translated(group: str, remote: TopicPartition = REMOTE) -> TranslatedOffset:
    """Of one group."""
    origin = TopicPartition(remote.topic.removeprefix("A."), remote.partition)
    return translated_offset(origin, 9, remote, 7, group=group)


async def committed(fake: FakeClusters, *offsets: TranslatedOffset) -> Any:
    """What comes of these."""
    by_group: dict[str, list[TranslatedOffset]] = {}
    for offset in offsets:
        by_group.setdefault(offset.group, []).append(offset)
    return await commit(cast("FailoverClusters", fake), by_group, {}, FailoverOptions(), dry=False)


async def test_what_is_refused_does_not_hide_the_others() -> None:
    """By group and partition."""
    fake = FakeClusters(errors={("g1", OTHER): REFUSED, ("g2", REMOTE): error_info(25)})
    result = await committed(fake, translated("g1"), translated("g1", OTHER), translated("g2"), translated("g3"))
    assert (result.committed, result.active, result.refused) == (2, ["g2"], {("g1", OTHER): REFUSED})


@pytest.mark.parametrize("force", [False, True])
async def test_who_was_moved_by_an_earlier_try_is_moved_on_and_never_back(force: bool) -> None:
    """Not even by force; at work it is left alone, and named where it would have to go on."""
    stands = {"ahead": 9, "behind": 5, "works": 8, "works-behind": 5, "left": 9}
    fake = FakeClusters(
        {name: listed(name, "consumer", "Stable" if "works" in name else "Empty") for name in stands},
        stands={name: {REMOTE: CommittedOffset(offset)} for name, offset in stands.items()},
    )
    offsets = {name: [translated(name)] for name in (*stands, "nowhere")}
    options = FailoverOptions(force=force)
    result = await commit(cast("FailoverClusters", fake), offsets, {}, options, dry=False, still_due=["left"])
    assert (result.active, result.at_work) == ([], ["works-behind"])
    assert sorted(fake.committed_now) == (["behind", "left", "nowhere"] if force else ["nowhere"])
    assert sorted(kept.group for kept in result.kept) == ([] if force else ["behind", "left"])


async def test_a_share_group_is_left_alone() -> None:
    """Also an empty one: nobody commits for it, and its name is taken."""
    fake = FakeClusters({"g1": listed("g1", "share"), "g2": listed("g2", "consumer")})
    result = await committed(fake, translated("g1"), translated("g2"))
    assert (result.active, result.committed, fake.committed_now) == (["g1"], 1, ["g2"])


async def test_each_row_has_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that is refused the error, of a share group that it is left."""
    fake = FakeClusters({"share": listed("share", "share")}, {("no", REMOTE): REFUSED})
    rows = [translated(group) for group in ("no", "share", "yes")]

    async def translate(*_: object, **_known: object) -> list[TranslatedOffset]:
        return rows

    monkeypatch.setattr(bulk_translation, "FailoverClusters", lambda *_, **__: fake)
    monkeypatch.setattr(bulk_translation, "translate_all", translate)
    order = BulkOrder(flow=FlowName("A", "B"), commit=True)
    done = await carry_out(settings(), order, cast("Any", lambda *_: None))
    assert [(row.outcome, row.refused) for row in done] == [
        (f"refused: {REFUSED.name}", REFUSED.name),
        (f"left: {ACTIVE}", None),
        ("committed", None),
    ]


async def test_any_number_of_groups_is_asked_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each within the patience."""
    names = [f"g{number}" for number in range(25)]
    state = {name: FetchedState({"orders": {0: Fetched(number)}}) for number, name in enumerate(names)}
    brokers = GroupBrokers(dict.fromkeys(names, 1), state)
    monkeypatch.setattr(cluster_groups, "_GROUPS_AT_ONCE", 10)
    at_once: list[int] = []

    async def answered(_cluster: ClusterConnections, asked: Any) -> Any:
        before = len(brokers.asked)
        found = await asked
        at_once.append(len(brokers.asked) - before)
        return found

    monkeypatch.setattr(cluster_groups, "answered", answered)
    source = SimpleNamespace(settings=SimpleNamespace(alias="A"))
    groups = ClusterGroups(cast("ClusterConnections", source), GroupFilter((".*",), ()))
    monkeypatch.setattr(groups, "_coordinators", brokers.coordinators_of())
    found = await groups.committed(names)
    assert {group: offsets[TopicPartition("orders", 0)].offset for group, offsets in found.items()} == {
        name: number for number, name in enumerate(names)
    }
    assert at_once == [10, 10, 5]


async def test_a_coordinator_that_loads_is_waited_for() -> None:
    """As one does after its broker's start, for seconds where groups are many."""
    since_s = time.monotonic()
    brokers = GroupBrokers({"g": 1}, {"g": FetchedState({"orders": {0: Fetched(7)}})})
    brokers.trouble = lambda *_: COORDINATOR_LOAD_IN_PROGRESS if time.monotonic() - since_s < 2.5 else 0
    groups = ClusterGroups(brokers.coordinators_of().cluster, GroupFilter((".*",), ()))
    assert (await groups.committed(["g"]))["g"][TopicPartition("orders", 0)].offset == 7


def test_a_group_that_comes_back_from_a_merged_topic() -> None:
    """Where it began before its own place in one of the topics, it is not set behind what it had read when it left."""

    def place(origin: str, destination: str, offset: int, *, exact: bool = True, stood: int = 0) -> TranslatedOffset:
        return translated_offset(TopicPartition(origin, 0), stood, TopicPartition(destination, 0), offset, exact=exact)

    moved = [place("a", "all", 30, stood=7), place("b", "all", 30, exact=False, stood=20)]
    back = [place("all", "a", 9), place("all", "b", 12), place("A.c", "c", 1)]
    found = not_before_it_left(back, moved)
    assert [target.offset for target in found] == [9, 20, 1]
    assert [target.offset for target in not_before_it_left(back, [])] == [9, 12, 1]
