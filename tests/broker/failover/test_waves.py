"""One application at a time: a wave moves some groups and topics, the others stay, and one wave comes back alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mirror_ray.config.settings import MirrorSettings, PolicySettings, TopicSettings
from mirror_ray.failover.plan import FailoverOptions, FailoverStep
from mirror_ray.failover.run import FailoverReport, read_history
from mirror_ray.failover.waves import away
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.policy import DEFAULT_POLICY_CLASS, IDENTITY_POLICY_CLASS
from tests.support.clusters import Clusters
from tests.support.failover import Names, caught_up, new_names, numbered, often, order
from tests.support.groups import commit, committed, process
from tests.support.kafka import create_topic, produce
from tests.support.local import LocalSystem, aside
from tests.support.systems import settings_of
from tests.support.unrecorded import carry_out

pytestmark = pytest.mark.timeout(300)

APPS = ("billing", "mail", "search")
POLICIES = pytest.mark.parametrize("policy", [DEFAULT_POLICY_CLASS, IDENTITY_POLICY_CLASS])


class Scene:
    """Three applications: each has a topic that it writes, and a group that reads it and the topic of the next one."""

    def __init__(self, system: LocalSystem, names: Names, policy: str) -> None:
        self.system, self.names, self._identity = system, names, policy == IDENTITY_POLICY_CLASS

    def topic(self, app: str) -> str:
        return f"{self.names.topic}-{app}"

    def group(self, app: str) -> str:
        return f"{self.names.group}-{app}"

    def remote(self, app: str) -> str:
        return self.topic(app) if self._identity else f"{self.names.flow.source}.{self.topic(app)}"

    def wave(self, *apps: str) -> FailoverOptions:
        return FailoverOptions(groups=tuple(map(self.group, apps)), topics=tuple(map(self.topic, apps)))

    async def run(self, kind: Any, options: FailoverOptions, **more: Any) -> FailoverReport:
        asked = order(self.names.flow, kind, options=options, **more)
        return await carry_out(self.system.settings, asked, self.system.coordinator)

    async def moved(self, kind: Any, options: FailoverOptions) -> FailoverReport:
        """Run it to its end."""
        report = await self.run(kind, options)
        assert report.plan.finished, report.plan.results
        return report

    async def become(self, wanted: dict[str, set[str]]) -> None:
        """Wait until the applications' partitions are in these states."""

        async def there() -> bool:
            return await self.states() == wanted

        await self.system.wait(there, f"they are {wanted}")

    async def states(self) -> dict[str, set[str]]:
        """By application, the states of its topic's partitions."""
        rows = await self.system.coordinator.partitions()
        return {app: {str(row.state) for row in rows if row.topic == self.topic(app)} for app in APPS}


@asynccontextmanager
async def applications(clusters: Clusters, policy: str) -> AsyncIterator[Scene]:
    """All of them on A, each group at 10 in every partition of 50."""
    names = new_names("")
    names = names._replace(topic=f"t{names.group}")
    pair = {names.flow.source: clusters.a, names.flow.target: clusters.b}
    settings: MirrorSettings = settings_of(
        pair,
        str(names.flow),
        topics=TopicSettings(include=(f"{names.topic}-.*",), refresh_interval_s=1.0),
        groups=often(f"{names.group}.*"),
        policy=PolicySettings(class_name=policy),
    )
    scene = Scene(LocalSystem(settings, groups=True), names, policy)

    def prepare() -> None:
        config = clusters.a.confluent_config()
        for app in APPS:
            create_topic(config, scene.topic(app), 2)
            produce(config, scene.topic(app), numbered(100), enable_idempotence=True)
        for app, other in zip(APPS, (*APPS[1:], APPS[0]), strict=True):
            # Waits until the group's coordinator has loaded its partition of the offsets topic.
            committed(clusters.a, scene.group(app), scene.topic(app), 2)
            start = {(scene.topic(read), number): 10 for read in (app, other) for number in (0, 1)}
            commit(clusters.a, scene.group(app), start)

    await aside(prepare)
    async with scene.system:
        await caught_up(scene.system, 6)
        yield scene


@POLICIES
async def test_one_application_after_the_other_and_one_comes_back(clusters: Clusters, policy: str) -> None:
    """What stays is copied on, is not touched by a wave, and is moved by a failover of the rest."""
    a, b = clusters
    async with applications(clusters, policy) as scene:
        report = await scene.moved("failover", scene.wave("billing"))
        check = report.plan.results[FailoverStep.CHECK]
        assert set(check.figures["groups"]) == {scene.group("billing")}
        assert check.figures["topics_that_stay"] == [scene.topic("mail")]
        assert check.figures["other_groups"] == {scene.topic("billing"): [scene.group("search")]}
        assert check.figures["producers"] == {scene.topic("billing"): 1}
        await scene.become({"billing": {"paused"}, "mail": {"copying"}, "search": {"copying"}})
        # Its group reads on in the other's topic, which is still copied.
        await aside(lambda: produce(a.confluent_config(), scene.topic("mail"), numbered(20, 100)))
        await caught_up(scene.system, 4)
        assert len(await aside(lambda: process(b, scene.group("billing"), scene.remote("mail"), partitions=2))) == 100
        second = await scene.moved("failover", scene.wave("mail"))
        plans = away(await read_history(scene.system.settings, scene.names.flow))
        assert [plan.id for plan in plans] == [report.plan.id, second.plan.id]
        assert list(second.offsets) == [scene.group("mail")]
        with pytest.raises(ConfigError, match=f"away are: {report.plan.id}, {second.plan.id}"):
            await scene.run("failback", FailoverOptions(wave="failover-1"))
        # The first one comes back alone.
        await scene.moved("failback", FailoverOptions(wave=report.plan.id))
        await scene.become({"billing": {"copying"}, "mail": {"paused"}, "search": {"copying"}})
        stands = await aside(lambda: committed(a, scene.group("billing"), scene.topic("mail"), 2))
        assert stands == {0: 60, 1: 60}
        stands = await aside(lambda: committed(a, scene.group("billing"), scene.topic("billing"), 2))
        assert stands == {0: 10, 1: 10}
        # The rest moves, and then all comes back.
        rest = await scene.moved("failover", FailoverOptions())
        assert set(rest.offsets) == {scene.group("billing"), scene.group("search")}
        await scene.moved("failback", FailoverOptions())
        await scene.become({app: {"copying"} for app in APPS})
        assert away(await read_history(scene.system.settings, scene.names.flow)) == []
        for app in APPS:
            assert await aside(lambda app=app: committed(a, scene.group(app), scene.topic(app), 2)) == {0: 10, 1: 10}  # type: ignore[misc]


async def test_a_wave_of_groups_alone_waits_for_their_places(clusters: Clusters) -> None:
    """Producers stay, and write on: nothing is paused, and the group goes on at its record."""
    a, b = clusters
    async with applications(clusters, DEFAULT_POLICY_CLASS) as scene:
        report = await scene.moved("failover", FailoverOptions(groups=(scene.group("search"),)))
        await scene.become({app: {"copying"} for app in APPS})
        assert list(report.offsets) == [scene.group("search")]
        await aside(lambda: produce(a.confluent_config(), scene.topic("search"), numbered(20, 100)))
        await caught_up(scene.system, 6)
        values = await aside(lambda: process(b, scene.group("search"), scene.remote("search")))
        assert sorted(map(int, values)) == [*range(20, 120)]
        # What it did there is not undone by the group sync, nor by the wave of another one.
        await scene.moved("failover", scene.wave("mail"))
        assert await aside(lambda: committed(b, scene.group("search"), scene.remote("search"), 2)) == {0: 60, 1: 60}


async def test_a_wave_whose_producers_have_written_does_not_come_back_alone(clusters: Clusters) -> None:
    """In topics that keep their names; the failback of all brings it back, with what was written."""
    a, b = clusters
    async with applications(clusters, IDENTITY_POLICY_CLASS) as scene:
        report = await scene.moved("failover", scene.wave("billing"))
        await aside(lambda: produce(b.confluent_config(), scene.topic("billing"), numbered(20, 100)))
        back = await scene.run("failback", FailoverOptions(wave=report.plan.id))
        assert "20 offsets" in back.plan.results[FailoverStep.PRODUCERS].summary
        done = await scene.run("failback", FailoverOptions(), restart=True)
        assert done.plan.finished, done.plan.results
        values = await aside(lambda: process(a, scene.group("billing"), scene.topic("billing")))
        assert sorted(map(int, values)) == [*range(20, 120)]


async def test_a_plan_of_other_groups_is_not_gone_on_with(clusters: Clusters) -> None:
    """Each wave is finished, or given up, before the next one begins; a source that is gone takes everybody along."""
    async with applications(clusters, DEFAULT_POLICY_CLASS) as scene:
        with pytest.raises(ConfigError, match="leave --groups and --topics out"):
            await scene.run("failover", FailoverOptions(groups=("x",), source_is_gone=True))
        dry = await scene.run("failover", scene.wave("mail"), dry=True)
        assert dry.plan.results[FailoverStep.STOP].figures == {"paused": [scene.topic("mail")]}
        await scene.become({app: {"copying"} for app in APPS})
