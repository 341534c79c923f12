"""Groups of renamed and of merged topics fail over and come back between real brokers."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import ExitStack
from functools import partial

import pytest
from confluent_kafka import TopicPartition

from mirror_ray.config.settings import MirrorSettings, RenamePattern, TopicSettings
from mirror_ray.failover.plan import FailoverOptions, FailoverStep
from mirror_ray.model.names import FlowName
from tests.support.clusters import Clusters
from tests.support.failover import caught_up, often, order
from tests.support.groups import commit, committed, member, process
from tests.support.kafka import Message, create_topic, produce
from tests.support.local import LocalSystem, aside
from tests.support.reading import end_offsets, read_placed
from tests.support.systems import settings_of
from tests.support.unrecorded import carry_out

pytestmark = pytest.mark.timeout(300)

RECORDS = 120


class Scene:
    """Two topics of two and one partitions that are merged, and one that is renamed; with a group in both kinds."""

    def __init__(self, clusters: Clusters) -> None:
        unique = uuid.uuid4().hex[:8]
        self.flow = FlowName(f"A{unique}", f"B{unique}")
        self.orders, self.returns, self.legacy = (f"{unique}-{name}" for name in ("orders", "returns", "legacy"))
        self.merged, self.renamed = f"{unique}-sales", f"{unique}-new"
        self.both, self.plain = f"g-{unique}-both", f"g-{unique}-plain"
        self.a, self.b = clusters.a, clusters.b
        for topic, partitions in ((self.orders, 2), (self.returns, 1), (self.legacy, 2)):
            create_topic(self.a.confluent_config(), topic, partitions)
            messages = [Message(f"{topic} {n}".encode(), partition=n % partitions) for n in range(RECORDS)]
            produce(self.a.confluent_config(), topic, messages)
        commit(self.a, self.both, {(self.orders, 0): 40, (self.orders, 1): 10, (self.returns, 0): 70})
        commit(self.a, self.plain, {(self.legacy, 0): 13, (self.legacy, 1): 17})

    def settings(self) -> MirrorSettings:
        """The flow, of these topics and groups alone."""
        topics = TopicSettings(
            include=(self.orders, self.returns, self.legacy),
            refresh_interval_s=1.0,
            map={self.orders: self.merged, self.returns: self.merged},
            rename=(RenamePattern(match="(.*)-legacy", to="$1-new"),),
        )
        groups = often(self.both, self.plain)
        clusters = {self.flow.source: self.a, self.flow.target: self.b}
        return settings_of(clusters, str(self.flow), topics=topics, groups=groups)

    def unread(self) -> dict[str, list[bytes]]:
        """What the groups have not processed when they stop."""
        records = {
            topic: [[f"{topic} {n}".encode() for n in range(p, RECORDS, count)] for p in range(count)]
            for topic, count in ((self.orders, 2), (self.returns, 1), (self.legacy, 2))
        }
        orders, (returns,), legacy = (records[topic] for topic in (self.orders, self.returns, self.legacy))
        return {self.both: orders[0][40:] + orders[1][10:] + returns[70:], self.plain: legacy[0][13:] + legacy[1][17:]}


class OneOfTwo(Scene):
    """Groups that have committed in one of the two merged topics alone: in each partition of it."""

    def __init__(self, clusters: Clusters) -> None:
        super().__init__(clusters)
        unique = uuid.uuid4().hex[:8]
        #: By their members they read both, by their members this one, and by nobody's word.
        self.slow, self.one, self.silent = (f"g-{unique}-{name}" for name in ("slow", "one", "silent"))
        self.committed = {(self.orders, 0): RECORDS // 2 + 2, (self.orders, 1): RECORDS // 2 + 2}
        commit(self.a, self.silent, self.committed)

    def write_on(self) -> None:
        """Records of the topic in which the groups have committed, which come behind all others."""
        config = self.a.confluent_config()
        produce(config, self.orders, [Message(b"more %d" % n, partition=p) for n in range(5) for p in range(2)])

    def settings(self) -> MirrorSettings:
        """With these groups."""
        settings = super().settings()
        (flow,) = settings.flows
        groups = flow.groups.model_copy(update={"include": (self.slow, self.one, self.silent)})
        return settings.model_copy(update={"flows": (flow.model_copy(update={"groups": groups}),)})

    async def is_copied(self) -> bool:
        """Whether all records of both topics are there."""
        ends = await aside(lambda: end_offsets(self.b.confluent_config(), self.merged))
        return sum(ends.values()) == 2 * RECORDS + 10

    def join(self, stack: ExitStack) -> None:
        """Members of two of the groups, by the old and by the new protocol, which commit in one topic."""
        for group, topics, protocol in (
            (self.slow, (self.orders, self.returns), "consumer"),
            (self.one, (self.orders,), "classic"),
        ):
            consumer = stack.enter_context(member(self.a, group, *topics, protocol=protocol))
            offsets = [TopicPartition(*place, offset) for place, offset in self.committed.items()]
            consumer.commit(offsets=offsets, asynchronous=False)

    def places(self) -> tuple[dict[int, int], dict[int, int]]:
        """Of the first record that the groups have not read of either topic, and of the one that they have read."""
        own, least = {}, {}
        for number, placed in read_placed(self.b.confluent_config(), self.merged).items():
            own[number] = next(at for at, record in placed if record.value == b"more 2")
            others = [at for at, record in placed if (record.value or b"").startswith(self.returns.encode())]
            least[number] = min([own[number], *others])
        return least, own


async def test_there_and_back(clusters: Clusters) -> None:
    """A renamed topic's group does every record once; a merged one's leaves none out on either way."""
    scene = await aside(lambda: Scene(clusters))
    unread, config = scene.unread(), scene.settings()
    async with LocalSystem(config, groups=True) as system:
        await caught_up(system, 5)
        report = await carry_out(config, order(scene.flow), system.coordinator)
        assert report.plan.finished, report.plan.results
        assert report.plan.results[FailoverStep.VERIFY].figures["different"] == []
        there = {
            scene.plain: await aside(lambda: process(scene.b, scene.plain, scene.renamed, 50)),
            scene.both: await aside(lambda: process(scene.b, scene.both, scene.merged, 60)),
        }
        back = await carry_out(config, order(scene.flow, "failback"), system.coordinator)
        assert back.plan.finished, back.plan.results
        assert back.plan.results[FailoverStep.VERIFY].figures["different"] == []
    again = await aside(lambda: process(scene.a, scene.plain, scene.legacy))
    assert sorted(there[scene.plain] + again) == sorted(unread[scene.plain])
    again = await aside(lambda: process(scene.a, scene.both, scene.orders))
    again += await aside(lambda: process(scene.a, scene.both, scene.returns, partitions=1))
    # What was read twice was read twice on the target: on the way back each topic has a place of its own.
    assert set(unread[scene.both]) <= set(there[scene.both] + again)
    assert not set(again) & set(there[scene.both])


async def test_a_group_that_has_committed_in_one_of_them(clusters: Clusters) -> None:
    """It is put past records of the other one only if its members were seen not to read that."""
    scene = await aside(lambda: OneOfTwo(clusters))
    config = scene.settings()
    with ExitStack() as members:
        async with LocalSystem(config, groups=True) as system:
            await caught_up(system, 5)
            await aside(scene.write_on)
            await system.wait(scene.is_copied, "all of the merged topics is copied")
            least, own = await aside(scene.places)
            assert least[0] < own[0]
            await aside(lambda: scene.join(members))
            wanted = {scene.slow: least, scene.one: own, scene.silent: least}

            async def stand() -> bool:
                found = [await aside(partial(committed, scene.b, group, scene.merged, 2)) for group in wanted]
                return found == list(wanted.values())

            await system.wait(stand, f"groups stand at {wanted}")
            shown = {status.group: status.partitions[0] for status in await system.coordinator.groups(None)}
            assert [shown[group].exact for group in wanted] == [False, True, False]
            assert f"it reads {scene.returns}" in (shown[scene.slow].reason or "")
            assert "no members" in (shown[scene.silent].reason or "")
            # They stop, and what was seen of them counts, also after a restart.
            await aside(members.close)
        async with LocalSystem(config, groups=True) as system:
            await caught_up(system, 5)
            await asyncio.sleep(1.0)
            assert await stand()
            report = await carry_out(config, order(scene.flow), system.coordinator)
            assert report.plan.finished, report.plan.results
            assert await stand()


async def test_the_source_is_gone(clusters: Clusters) -> None:
    """By checkpoints alone, groups go on where they were last seen, which for merged topics is the earlier place."""
    scene = await aside(lambda: Scene(clusters))
    unread, config = scene.unread(), scene.settings()
    async with LocalSystem(config, groups=True) as system:
        await caught_up(system, 5)

        async def synced() -> bool:
            both = await aside(lambda: committed(scene.b, scene.both, scene.merged, 2))
            plain = await aside(lambda: committed(scene.b, scene.plain, scene.renamed, 2))
            return min(both.values()) >= 0 and plain == {0: 13, 1: 17}

        await system.wait(synced, "groups are carried over")
    report = await carry_out(config, order(scene.flow, options=FailoverOptions(source_is_gone=True)), None)
    assert report.plan.finished, report.plan.results
    origins = {place.origin.topic for place in report.offsets[scene.plain]}
    assert origins == {scene.legacy}
    plain = await aside(lambda: process(scene.b, scene.plain, scene.renamed))
    assert sorted(plain) == sorted(unread[scene.plain])
    assert set(unread[scene.both]) <= set(await aside(lambda: process(scene.b, scene.both, scene.merged)))
