"""Groups that nobody has looked up: who reads or commits what the flow carries holds a plan up, nobody else does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror_ray.failover import active_groups
from mirror_ray.failover.active_groups import groups_at_work, groups_that_went_on
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.plan import Kind
from mirror_ray.groups.translated_offset import TranslatedOffset
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.subscription import Subscription
from tests.support.factories import translated_offset

#: Of the flow, and of no flow.
ORDERS, BILLS, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("other", 0)
READS, READS_OTHER = Subscription(frozenset({"orders"})), Subscription(frozenset({"other"}))


def listed(group: str, state: str = "Empty", kind: str = "classic") -> ListedGroup:
    """A group on the origin."""
    return ListedGroup(group=group, kind=kind, protocol_type="consumer", state=state, broker=1)


@dataclass
class FakeClusters:
    """The origin of a failover that carries ``orders``; ``members``: what groups read, where they tell."""

    stand: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    members: Mapping[str, Subscription | None] = field(default_factory=dict)
    others: Mapping[str, ListedGroup] = field(default_factory=dict)
    kind: Kind = "failover"
    asked: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        topics = {"orders": None, "other": None}

        async def refresh(_: object) -> Any:
            return SimpleNamespace(topics=topics)

        self.origin = SimpleNamespace(refresh=refresh, settings=SimpleNamespace(alias="A"))

    async def read_maps(self) -> None:
        """They are read."""

    async def prepare_maps(self) -> None:
        """No topic was renamed."""

    def remote_partitions(self, partition: TopicPartition) -> tuple[str, ...]:
        return ("there",) if partition.topic == "orders" else ()

    async def groups(self, on: object) -> Mapping[str, ListedGroup]:
        states = {name: listed(name, "Stable" if name in self.members else "Empty") for name in self.stand}
        return {**states, **{name: listed(name, "Stable") for name in self.members}, **self.others}

    async def committed(self, on: object, groups: Collection[str], *, stable: bool = False) -> dict[str, Any]:
        self.asked["committed"] += 1
        return {
            name: {partition: CommittedOffset(offset) for partition, offset in self.stand.get(name, {}).items()}
            for name in groups
        }

    async def subscriptions(self, kinds: Mapping[str, str]) -> dict[str, Subscription]:
        self.asked["subscriptions"] += 1
        return {name: said for name in kinds if (said := self.members.get(name)) is not None}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does not tell is not waited for; who has places is whoever has committed in the flow's topics."""

    async def with_source(sides: Any, groups: Mapping[str, object], _moved: object, *, every: bool) -> Any:
        return {name: [] for name in groups if any(partition.topic == "orders" for partition in sides.stand[name])}

    monkeypatch.setattr(active_groups, "_DESCRIBED_WITHIN_S", 0.0)
    monkeypatch.setattr(active_groups, "with_source", with_source)


def place(offset: int | None = 5, origin: TopicPartition = ORDERS) -> TranslatedOffset:
    """Of the group ``g``."""
    return translated_offset(origin, offset, origin, 1)


async def went_on(
    fake: FakeClusters, *places: TranslatedOffset, moved: Collection[str] = (), skip: bool = False
) -> list[str]:
    """Of a plan whose only group was ``g``."""
    known = {"g": list(places)} if places else {}
    before: dict[str, list[TranslatedOffset]] = {name: [] for name in moved}
    return await groups_that_went_on(cast("FailoverClusters", fake), known, before, every=False, skip_active=skip)


async def test_nobody_has_done_anything() -> None:
    """Neither the group of the plan, nor those of other topics."""
    fake = FakeClusters({"g": {ORDERS: 5}, "stranger": {OTHER: 9}, "silent": {}}, {"at-other": READS_OTHER})
    assert await went_on(fake, place()) == []


async def test_a_group_that_has_come_since() -> None:
    """It has committed in a topic of the flow; at work or not, and whatever the plan knew of others."""
    assert await went_on(FakeClusters({"g": {ORDERS: 5}, "new": {ORDERS: 0}}), place()) == ["new"]
    assert await went_on(FakeClusters({"new": {OTHER: 3, BILLS: 1}})) == ["new"]
    assert await went_on(FakeClusters({"new": {ORDERS: 7}}, {"new": READS_OTHER})) == ["new"]
    # Who is at work is left where it is, if so said.
    assert await went_on(FakeClusters({"new": {ORDERS: 7}}, {"new": READS}), skip=True) == []
    assert await went_on(FakeClusters({"new": {ORDERS: 7}}), skip=True) == ["new"]


async def test_a_first_commit_in_a_partition_without_a_place() -> None:
    """In the flow's topics, and not in others; also where the place was known without an offset."""
    assert await went_on(FakeClusters({"g": {ORDERS: 5, BILLS: 500}}), place()) == ["g"]
    assert await went_on(FakeClusters({"g": {ORDERS: 5, OTHER: 500}}), place()) == []
    assert await went_on(FakeClusters({"g": {ORDERS: 5, BILLS: 1}}), place(), place(None, BILLS)) == ["g"]
    assert await went_on(FakeClusters({"g": {ORDERS: 5}}), place(), place(None, BILLS)) == []


async def test_members_that_have_committed_nothing_yet() -> None:
    """Who reads a topic of the flow is at work; by a pattern, too."""
    by_pattern = Subscription(frozenset(), frozenset({"ord.*"}))
    fake = FakeClusters({}, {"reads": READS, "by-pattern": by_pattern, "other": READS_OTHER})
    assert await went_on(fake) == ["by-pattern", "reads"]
    assert await went_on(fake, skip=True) == []


async def test_members_that_do_not_tell() -> None:
    """Who has committed in other topics alone reads those; who has committed nothing may read any."""
    fake = FakeClusters({"elsewhere": {OTHER: 1}, "nowhere": {}}, {"elsewhere": None, "nowhere": None})
    groups = dict(await fake.groups(None))
    assert await groups_at_work(cast("FailoverClusters", fake), groups, every=False) == {"nowhere"}


async def test_what_commits_no_offsets_is_not_asked() -> None:
    """Share groups, and the workers of Connect."""
    share = listed("share", "Stable", "share")
    worker = ListedGroup(group="w", kind="classic", protocol_type="connect", state="Stable", broker=1)
    fake = FakeClusters(others={"share": share, "w": worker})
    assert await went_on(fake) == []
    assert not fake.asked["subscriptions"]


async def test_a_failback_brings_back_whom_a_failover_has_moved() -> None:
    """Others stay where they are, whatever they do there."""
    fake = FakeClusters({"new": {ORDERS: 3}, "moved": {ORDERS: 3}}, kind="failback")
    assert await went_on(fake, moved=["moved"]) == ["moved"]


async def test_any_number_of_groups_is_asked_at_once() -> None:
    """Offsets of those that are known, of those that are not, and members: a question each."""
    stand = {f"g{n}": {OTHER: 1} for n in range(5000)}
    fake = FakeClusters(stand, {f"m{n}": READS_OTHER for n in range(5000)})
    assert await went_on(fake, place()) == []
    assert fake.asked == {"committed": 2, "subscriptions": 1}
