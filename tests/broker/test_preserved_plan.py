"""What preserving offsets costs, by ``plan`` on real clusters, and the bound above which nothing is begun."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from mirror_ray.config.settings import MirrorSettings, OffsetSettings, TopicSettings
from mirror_ray.kafka.state_topic import read_state
from mirror_ray.model.names import TopicPartition
from mirror_ray.state.schema import decode, state_topic
from mirror_ray.topics.plan import FlowPlan
from mirror_ray.topics.planning import make_plan
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import Message, alter_topic, exists, produce, sample_messages
from tests.support.kinds import CLEANED_AT_ONCE
from tests.support.local import LocalSystem, aside
from tests.support.prefixes import begin_at, fill_log
from tests.support.reading import end_offsets, read_placed
from tests.support.systems import settings_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

MOST = 1_999_999


def settings(clusters: Clusters, topic: str, most: int = MOST) -> MirrorSettings:
    """A flow of one topic whose offsets are preserved, unless more than ``most`` have to be filled."""
    topics = TopicSettings(include=(topic,), refresh_interval_s=0.5)
    offsets = OffsetSettings(mode="preserve", prefix_max=most)
    return settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topics, offsets=offsets)


async def test_a_long_prefix_is_in_the_plan_and_is_not_begun(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Both partitions count; raised to the number that is named, the bound lets the topic begin."""
    topic = make_topic(clusters.a, 2)
    remote, source = f"A.{topic}", clusters.a.confluent_config()
    for number in range(2):
        await begin_at(clusters.a, TopicPartition(topic, number), 1_000_000)
    produce(source, topic, sample_messages(20, partitions=2))
    plan = await planned(settings(clusters, topic))
    (cost,) = plan.preserved
    assert (cost.partitions, cost.prefix_offsets, cost.longest_prefix, cost.runs) == (2, 2_000_000, 1_000_000, None)
    (refused,) = plan.refused
    assert "offsets.prefix.max to 2000000 or more" in refused
    async with LocalSystem(settings(clusters, topic)) as system:

        async def told() -> bool:
            states = [row.state for row in await system.coordinator.topics() if row.topic == topic]
            events = [event.text for event in await system.coordinator.events(50) if event.subject == topic]
            return states == ["refused"] and any(refused in text for text in events)

        await system.wait(told, f"{topic} is refused, and an event says so")
        # It is looked at again meanwhile.
        await asyncio.sleep(1.5)
        assert await aside(lambda: end_offsets(clusters.b.confluent_config(), remote)) == {0: 0, 1: 0}
        await system.coordinator.apply(settings(clusters, topic, 2_000_000))
        await system.caught_up(topic, 1_000_010)

        async def same() -> bool:
            there = await aside(lambda: read_placed(clusters.b.confluent_config(), remote))
            return there == await aside(lambda: read_placed(source, topic))

        await system.wait(same, f"{remote} has the same records at the same offsets")
    plan = await planned(settings(clusters, topic))
    assert (plan.preserved, plan.refused) == ((), ())


async def test_a_prefix_that_was_begun_is_ours(clusters: Clusters, make_topic: TopicMaker) -> None:
    """The plan counts what is missing of it; what somebody else has written is refused as ever."""
    topic = make_topic(clusters.a)
    remote = TopicPartition(f"A.{topic}", 0)
    await begin_at(clusters.a, TopicPartition(topic, 0), 2_000_000)
    async with LocalSystem(settings(clusters, topic)) as system:

        async def created() -> bool:
            return await aside(lambda: exists(clusters.b.confluent_config(), remote.topic))

        await system.wait(created, f"{remote} is there")
    (target,) = (one for one in settings(clusters, topic).clusters.values() if one.alias == "B")
    flow = decode(await aside(lambda: read_state(target, state_topic("A")))).flow
    assert flow is not None
    await fill_log(clusters.b, remote, 500_000, (flow.producer_id, flow.producer_epoch))
    plan = await planned(settings(clusters, topic))
    assert plan.refused == ()
    assert [cost.prefix_offsets for cost in plan.preserved] == [1_500_000]
    await aside(lambda: produce(clusters.b.confluent_config(), remote.topic, sample_messages(1)))
    plan = await planned(settings(clusters, topic))
    assert f"remote topic {remote.topic} is not empty" in plan.refused[0]


async def test_gaps_of_a_compacted_topic_are_estimated(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Of a log that is cleaned at one end and not at the other, to a tenth."""
    topic = make_topic(clusters.a, topic_config=CLEANED_AT_ONCE)
    config = clusters.a.confluent_config()
    values = [Message(b"x" * 100, b"same" if n % 2 else b"key %d" % n) for n in range(8_000)]
    produce(config, topic, values, batch_num_messages=100)
    await asyncio.sleep(0.5)
    produce(config, topic, [Message(b"last", b"last")])
    await aside(lambda: wait_until(lambda: len(read_placed(config, topic)[0]) < 4_100, 60, "the topic is cleaned"))
    alter_topic(config, topic, {"min.cleanable.dirty.ratio": "1.0", "max.compaction.lag.ms": str(2**63 - 1)})
    produce(config, topic, [Message(b"x" * 100, b"new %d" % n) for n in range(8_000)])
    offsets = [offset for offset, _ in read_placed(config, topic)[0]]
    runs = 1 + sum(offset > before + 1 for before, offset in pairwise(offsets))
    (cost,) = (await planned(settings(clusters, topic))).preserved
    assert cost.runs == cost.longest_runs
    assert cost.runs == pytest.approx(runs, rel=0.1)
    assert runs > 3_500


async def planned(wanted: MirrorSettings) -> FlowPlan:
    """The plan of the one flow."""
    (plan,) = (await aside(lambda: make_plan(wanted))).flows
    return plan
