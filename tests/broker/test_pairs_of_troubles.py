"""One trouble after another under a running system, on real clusters: what is noted of a log ends with that log."""

from __future__ import annotations

import pytest

from mirror_ray.coordinator.flow_state import FlowState
from tests.broker.test_troubles import arrived, create, cut_start, fill, held, remove, settings
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import Message, create_topic, produce
from tests.support.local import LocalSystem, aside

pytestmark = pytest.mark.timeout(300)


async def test_what_a_source_was_refused_of_is_not_left_out_of_the_next(
    clusters: Clusters, make_topic: TopicMaker
) -> None:
    """By policy a record is left out; by policy the topic that is created anew is copied, all of it."""
    topic = make_topic(clusters.a)
    remote = f"A.{topic}"
    await aside(
        lambda: create_topic(clusters.b.confluent_config(), remote, topic_config={"max.message.bytes": "20000"})
    )
    await fill(clusters.a, topic, 0, 500)
    await aside(lambda: produce(clusters.a.confluent_config(), topic, [Message(b"x" * 50_000, b"too large")]))
    before = await held(clusters.a, topic)
    async with LocalSystem(settings(clusters, topic, "skip")) as system:
        await system.caught_up(topic, 501)
        await remove(clusters.a, topic)
        await create(clusters.a, topic)
        await fill(clusters.a, topic, 1000, 1000)
        assert {kind for kind, _ in await system.answers(topic, 2)} == {"record_refused", "source_recreated"}
        await system.caught_up(topic, 1000)
    await arrived(clusters, topic, before[:500] + await held(clusters.a, topic))


async def test_strangers_that_were_accepted_in_a_remote_topic_are_told_in_the_next(
    clusters: Clusters, make_topic: TopicMaker
) -> None:
    """It was said of the topic that is gone."""
    topic = make_topic(clusters.a)
    remote = f"A.{topic}"
    await fill(clusters.a, topic, 0, 100)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.caught_up(topic, 100)
        await fill(clusters.b, remote, 9000, 400)
        await fill(clusters.a, topic, 100, 10)
        await system.troubled(topic, "target_foreign")
        await system.coordinator.resolve("A->B", topic, 0, "skip")
        await system.caught_up(topic, 110)
        await remove(clusters.b, remote)
        await system.troubled(topic, "target_missing")
        await system.coordinator.resolve("A->B", topic, None, "skip")
        await fill(clusters.a, topic, 110, 10)
        await system.caught_up(topic, 120)
    await fill(clusters.b, remote, 9000, 10)
    await fill(clusters.a, topic, 120, 10)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.troubled(topic, "target_foreign")


async def test_strangers_that_were_deleted_while_the_system_was_down(
    clusters: Clusters, make_topic: TopicMaker
) -> None:
    """As many records of the source are not passed over: the partition stops, and goes on when it is told to."""
    topic = make_topic(clusters.a)
    remote = f"A.{topic}"
    await fill(clusters.a, topic, 0, 100)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.caught_up(topic, 100)
    await fill(clusters.b, remote, 9000, 200)
    await cut_start(clusters.b, remote, 300)
    await fill(clusters.a, topic, 100, 300)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.troubled(topic, "target_foreign")
        await system.coordinator.resolve("A->B", topic, 0, "skip")
        await system.caught_up(topic, 400)
        (gap,) = await system.gaps(topic, 1)
        assert (gap.target_from, gap.target_to) == (100, 300)
    await arrived(clusters, topic, (await held(clusters.a, topic))[100:])


async def test_a_remote_topic_that_keeps_nothing(
    clusters: Clusters, make_topic: TopicMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is copied is removed at once, and whoever copies dies without saying how far it came: it is no trouble."""
    topic = make_topic(clusters.a)
    remote = f"A.{topic}"
    await fill(clusters.a, topic, 0, 100)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.caught_up(topic, 100)
        monkeypatch.setattr(FlowState, "flush", _nothing)
        await fill(clusters.a, topic, 100, 100)
        await system.caught_up(topic, 200)
    monkeypatch.undo()
    await cut_start(clusters.b, remote, 200)
    await fill(clusters.a, topic, 200, 100)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.caught_up(topic, 300)
        assert await system.gaps(topic, 0) == []
    await arrived(clusters, topic, (await held(clusters.a, topic))[200:])


async def _nothing(_ledger: FlowState) -> None:
    """Persists nothing, as whoever is killed before."""
