"""Logs that lose what they had acknowledged: a broker is killed and the end of a partition's file cut off."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from mirror_ray.config.settings import MirrorSettings, TopicSettings
from mirror_ray.devcluster import QUICK_START, DevCluster
from mirror_ray.devcluster.clusters import start_all
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import Record, delete_records, end_offsets, produce, read_all, sample_messages
from tests.support.local import LocalSystem, aside
from tests.support.systems import settings_of

pytestmark = pytest.mark.timeout(400)

_HEAD = struct.Struct(">qi")


@pytest.fixture(scope="module")
def mortal() -> Iterator[Clusters]:
    """Two clusters of these tests' own."""
    pair = Clusters(DevCluster("A", jvm_options=QUICK_START), DevCluster("B", jvm_options=QUICK_START))
    try:
        start_all(pair)
        yield pair
    finally:
        for cluster in pair:
            cluster.close()


def settings(clusters: Clusters, topic: str, policy: str) -> MirrorSettings:
    """A flow of one topic that answers all troubles by ``policy``."""
    topics = TopicSettings(include=(topic,), refresh_interval_s=0.5)
    return settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topics, trouble={"policy": policy})


def fill(cluster: DevCluster, topic: str, first: int, last: int) -> None:
    """Write numbered records in batches of ten or less."""
    for start in range(first, last, 10):
        produce(cluster.confluent_config(), topic, sample_messages(min(10, last - start), first=start))


def cut(cluster: DevCluster, topic: str, end: int) -> None:
    """Kill the broker, cut partition 0 off at ``end`` (a batch begins there), and start the broker again."""
    (broker,) = cluster.brokers
    broker.kill()
    path = broker.directory / "data" / f"{topic}-0" / "00000000000000000000.log"
    data, at = path.read_bytes(), 0
    while at < len(data):
        base, length = _HEAD.unpack_from(data, at)
        if base >= end:
            break
        at += _HEAD.size + length
    path.write_bytes(data[:at])
    broker.start()
    assert end_offsets(cluster.confluent_config(), topic) == {0: end}


def held(cluster: DevCluster, topic: str) -> list[Record]:
    """Every record of partition 0."""
    return read_all(cluster.confluent_config(), topic)[0]


@pytest.mark.parametrize("policy", ["skip", "resync"])
async def test_truncated_target(mortal: Clusters, make_topic: TopicMaker, policy: str) -> None:
    """Skip goes on behind what is left; resync finds the place by what is left, and copies the lost ones again."""
    topic = make_topic(mortal.a)
    fill(mortal.a, topic, 0, 200)
    async with LocalSystem(settings(mortal, topic, "stop")) as system:
        await system.caught_up(topic, 200)
        await aside(lambda: cut(mortal.b, f"A.{topic}", 150))
        await aside(lambda: fill(mortal.a, topic, 200, 300))
        line = await system.troubled(topic, "target_truncated")
        assert line.state == "stopped"
        await system.coordinator.resolve("A->B", topic, 0, "skip" if policy == "skip" else "resync")
        await system.caught_up(topic, 300)
        (gap,) = await system.gaps(topic, 1)
        assert (gap.policy, gap.target_from, gap.target_to) == (policy, 150, 200)
        assert not any("emptied" in event.text for event in await system.coordinator.events())
    everything = await aside(lambda: held(mortal.a, topic))
    wanted = everything if policy == "resync" else [*everything[:150], *everything[200:]]
    assert await aside(lambda: held(mortal.b, f"A.{topic}")) == wanted


async def test_truncated_target_whose_beginning_the_source_has_lost(mortal: Clusters, make_topic: TopicMaker) -> None:
    """The place can't be found from the first pair any more: resync empties the target, and copies what there is."""
    topic = make_topic(mortal.a)
    fill(mortal.a, topic, 0, 200)
    async with LocalSystem(settings(mortal, topic, "resync")) as system:
        await system.caught_up(topic, 200)

        def both() -> None:
            delete_records(mortal.a.confluent_config(), topic, 50)
            cut(mortal.b, f"A.{topic}", 150)

        await aside(both)
        await aside(lambda: fill(mortal.a, topic, 200, 300))
        assert await system.answers(topic) == [("target_truncated", "resync")]
        await system.caught_up(topic, 300)
        assert any("emptied" in event.text for event in await system.coordinator.events())
    assert await aside(lambda: held(mortal.b, f"A.{topic}")) == await aside(lambda: held(mortal.a, topic))


@pytest.mark.parametrize("policy", ["skip", "resync"])
async def test_truncated_source(mortal: Clusters, make_topic: TopicMaker, policy: str) -> None:
    """What was copied and is lost on the source stays on the target, or the target is made equal again."""
    topic = make_topic(mortal.a)
    fill(mortal.a, topic, 0, 200)
    before = held(mortal.a, topic)
    async with LocalSystem(settings(mortal, topic, policy)) as system:
        await system.caught_up(topic, 200)
        await aside(lambda: cut(mortal.a, topic, 150))
        await aside(lambda: fill(mortal.a, topic, 500, 600))
        assert await system.answers(topic) == [("source_truncated", policy)]
        await system.caught_up(topic, 250)
    after = await aside(lambda: held(mortal.a, topic))
    wanted = after if policy == "resync" else [*before, *after[150:]]
    assert await aside(lambda: held(mortal.b, f"A.{topic}")) == wanted


async def test_recount_after_a_crash(mortal: Clusters, make_topic: TopicMaker) -> None:
    """A target cut twice finds its place twice; in the end every record is there once."""
    topic = make_topic(mortal.a)
    fill(mortal.a, topic, 0, 100)
    async with LocalSystem(settings(mortal, topic, "resync")) as system:
        await system.caught_up(topic, 100)
        for turn, end in enumerate((50, 120)):
            await aside(lambda end=end: cut(mortal.b, f"A.{topic}", end))  # type: ignore[misc]
            await aside(lambda turn=turn: fill(mortal.a, topic, 100 * (turn + 1), 100 * (turn + 2)))  # type: ignore[misc]
            await system.caught_up(topic, 100 * (turn + 2))
        assert set(await system.answers(topic, 2)) == {("target_truncated", "resync")}
        assert not any("emptied" in event.text for event in await system.coordinator.events())
    assert await aside(lambda: held(mortal.b, f"A.{topic}")) == await aside(lambda: held(mortal.a, topic))
