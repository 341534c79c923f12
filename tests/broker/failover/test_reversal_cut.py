"""Where a flow was left is found though nobody has noted it, and what runs meanwhile is what the states say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.config.settings import MirrorSettings, OffsetSettings, TopicSettings
from mirror_ray.failover.plan import FailoverOptions, FailoverStep
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.model.errors import ConfigError
from mirror_ray.reversal.flow_states import BothStates
from mirror_ray.state import schema
from tests.broker.failover.test_kills import KilledError
from tests.broker.failover.test_reversal import move, read, scene, write
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import Names, caught_up, new_names, numbered, often, order
from tests.support.groups import commit, process
from tests.support.kafka import create_topic, produce, produce_transactions
from tests.support.local import LocalSystem, aside
from tests.support.systems import settings_of
from tests.support.unrecorded import carry_out

pytestmark = pytest.mark.timeout(300)


async def forget_positions(system: LocalSystem, names: Names) -> None:
    """As replicators leave the state that were killed before they could report anything."""
    settings = system.settings
    flow = settings.flow(names.flow)
    back = flow.model_copy(update={"name": names.flow.back})
    async with BothStates(settings, flow, back, UNRECORDED) as states:
        await states.flow.claim()
        documents: dict[str, Any] = {}
        for partition, record in states.flow.records.partitions.items():
            early = replace(record.at(record.origin), settled=False)
            documents |= schema.PARTITION.documents(partition, early)
        await states.flow.write(documents)


@pytest.mark.parametrize("mode", ["translate", "preserve"])
@pytest.mark.parametrize("transactions", [False, True])
async def test_a_cut_that_nobody_has_noted(
    clusters: Clusters, make_topic: TopicMaker, mode: Any, *, transactions: bool
) -> None:
    """What the flow had written on the target is found again on the source, and nothing has diverged."""
    a, b = clusters
    async with scene(clusters, make_topic, offsets=OffsetSettings(mode=mode)) as (system, names):
        topic = names.topic
        if transactions:
            some = [(numbered(6, 900_000), False), (numbered(20, 200), True), (numbered(2, 900_100), False)]
            await aside(lambda: produce_transactions(a.confluent_config(), topic, some, transactional_id=topic))
        else:
            await write(a, topic, 20, 200)
        await move(system, names, "failover")
        await system.coordinator.down(20.0)
        await forget_positions(system, names)
        await write(b, topic, 40, 220)
        async with LocalSystem(system.settings, groups=True) as again:
            await move(again, names, "failback")
            assert sorted(map(int, await aside(lambda: process(a, names.group, topic)))) == [*range(60, 260)]
            await write(a, topic, 10, 260)
            await caught_up(again, 2)

            async def equal() -> bool:
                return await read(a, topic) == await read(b, topic)

            await again.wait(equal, "both sides are equal")


async def test_only_one_direction_runs_whatever_is_applied(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Somebody applies the configuration again while the flow is reversed: nothing is copied, and the plan goes on."""
    a, b = clusters
    async with scene(clusters, make_topic) as (system, names):
        await move(system, names, "failover")
        await write(b, names.topic, 40, 200)

        def kill(_: Any, result: Any) -> None:
            if result.step == FailoverStep.REVERSE:
                raise KilledError

        with pytest.raises(KilledError):
            await carry_out(system.settings, order(names.flow, "failback"), system.coordinator, kill)
        with pytest.raises(ConfigError, match="is reversed"):
            await carry_out(await system.coordinator.configuration(), order(names.flow), system.coordinator)
        await system.coordinator.apply(system.settings)

        async def refused() -> bool:
            status = await system.coordinator.status()
            return any("is reversed" in problem for flow in status.flows for problem in flow.problems)

        await system.wait(refused, "the flow says why it does not run")
        report = await carry_out(system.settings, order(names.flow, "failback"), system.coordinator)
        assert report.plan.finished, report.plan.results
        assert sorted(map(int, await aside(lambda: process(a, names.group, names.topic)))) == [*range(60, 240)]


async def test_somebody_writes_on_the_source_meanwhile(clusters: Clusters, make_topic: TopicMaker) -> None:
    """The flow back stops there, and the failback says so."""
    a, b = clusters
    async with scene(clusters, make_topic) as (system, names):
        await move(system, names, "failover")

        def disturb(_: Any, result: Any) -> None:
            if result.step == FailoverStep.REVERSE:
                produce(a.confluent_config(), names.topic, numbered(4, 7000))
                produce(b.confluent_config(), names.topic, numbered(40, 200))

        report = await carry_out(system.settings, order(names.flow, "failback"), system.coordinator, disturb)
        result = report.plan.results[FailoverStep.CATCH_UP]
        assert result.outcome == "blocked", result
        assert "target_foreign" in result.summary, result


def mapped(clusters: Clusters, names: Names, remote: str) -> MirrorSettings:
    """One flow whose topic has another name on the target, by a map."""
    pair = {names.flow.source: clusters.a, names.flow.target: clusters.b}
    topics = TopicSettings(include=(names.topic,), map={names.topic: remote}, refresh_interval_s=1.0)
    return settings_of(pair, str(names.flow), topics=topics, groups=often(f"{names.group}.*"))


async def test_topics_that_a_map_names(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Producers write on in the topic that the map names; it comes back into the topic that it came from."""
    a, b = clusters
    names = new_names(make_topic(a, 2))
    remote = f"dr-{names.topic}"
    await aside(lambda: produce(a.confluent_config(), names.topic, numbered(200)))
    await aside(lambda: commit(a, names.group, {(names.topic, 0): 30, (names.topic, 1): 30}))
    async with LocalSystem(mapped(clusters, names, remote), groups=True) as system:
        await caught_up(system, 2)
        written, processed = 200, []
        for _ in range(2):
            await move(system, names, "failover")
            await write(b, remote, 40, written)
            processed += await aside(lambda: process(b, names.group, remote, 50))
            await move(system, names, "failback")
            await write(a, names.topic, 10, written + 40)
            processed += await aside(lambda: process(a, names.group, names.topic, 50))
            written += 50
        processed += await aside(lambda: process(a, names.group, names.topic))
        assert sorted(map(int, processed)) == [*range(60, written)]
        await caught_up(system, 2)
        assert await read(a, names.topic) == await read(b, remote)


async def test_topics_and_partitions_that_are_new_on_the_target(clusters: Clusters, make_topic: TopicMaker) -> None:
    """A new topic comes along where that is asked for, and its copy goes on in the other direction."""
    a, b = clusters
    async with scene(clusters, make_topic) as (system, names):
        new = f"{names.topic}-new"
        await move(system, names, "failover")
        await aside(lambda: create_topic(b.confluent_config(), new, 2))
        await write(b, new, 40, 0)
        settings = with_topics(system.settings, f"{names.topic}.*")
        await system.coordinator.apply(settings)
        asked = order(names.flow, "failback", options=FailoverOptions(new_topics=(f"{names.topic}-n.*",)))
        report = await carry_out(settings, asked, system.coordinator)
        assert report.plan.finished, report.plan.results
        assert await read(a, new) == await read(b, new)
        await write(a, new, 10, 40)
        await caught_up(system, 4)

        async def equal() -> bool:
            return await read(a, new) == await read(b, new)

        await system.wait(equal, "the new topic goes on")


def with_topics(settings: MirrorSettings, pattern: str) -> MirrorSettings:
    """The settings with another pattern of topics."""
    flows = tuple(
        flow.model_copy(update={"topics": flow.topics.model_copy(update={"include": (pattern,)})})
        for flow in settings.flows
    )
    return settings.model_copy(update={"flows": flows})
