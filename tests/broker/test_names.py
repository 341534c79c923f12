"""Maps and rename patterns on real clusters: what falls together is refused, and nothing goes round."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient

from mirror_ray.config.flow_rules import config_filter
from mirror_ray.config.settings import MirrorSettings, RenamePattern, TopicSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.observe.status import TopicStatus
from mirror_ray.topics.cluster_snapshot import take_snapshot
from mirror_ray.topics.comparison import compare_topic
from mirror_ray.topics.planning import make_plan
from tests.support.clusters import Clusters
from tests.support.kafka import Message, create_topic, produce
from tests.support.local import LocalSystem, aside
from tests.support.reading import assert_equal_copies, end_offsets
from tests.support.systems import settings_of, topics_with

#: A loop would show within a few discoveries.
ROUNDS_S = 3.0


def mark() -> str:
    """A part of all topic names of a test."""
    return f"t{uuid.uuid4().hex[:8]}"


async def test_maps_in_both_directions(clusters: Clusters) -> None:
    """The same map on both sides: each has its own and the other's, nothing more, while records keep coming."""
    name = mark()
    topics = TopicSettings(include=(f".*{name}.*",), refresh_interval_s=0.5, map={name: f"dr-{name}"})
    for number, cluster in enumerate(clusters):
        await aside(lambda cluster=cluster: create_topic(cluster.confluent_config(), name, 1))  # type: ignore[misc]
        messages = [Message(b"%d of %d" % (n, number)) for n in range(50)]
        await aside(lambda c=cluster, m=messages: produce(c.confluent_config(), name, m))  # type: ignore[misc]
    config = settings_of({"A": clusters.a, "B": clusters.b}, "A->B", "B->A", topics=topics)
    async with LocalSystem(config) as system:
        for flow in ("A->B", "B->A"):
            await system.caught_up(name, 50, flow)
        await asyncio.sleep(ROUNDS_S)
        for source, target in (clusters, tuple(reversed(clusters))):
            assert await aside(lambda c=target: topics_with(c, name)) == {name, f"dr-{name}"}  # type: ignore[misc]
            await aside(lambda s=source, t=target: equal(s, t, name))  # type: ignore[misc]


def equal(source: DevCluster, target: DevCluster, name: str) -> None:
    """Assert that the copy under the map's name is the topic."""
    assert_equal_copies(source.confluent_config(), target.confluent_config(), name, f"dr-{name}")


def settings(clusters: Clusters, name: str, *shared: str) -> MirrorSettings:
    """A pattern that makes ``NAME-one`` of both ``NAME-a`` and ``NAME-b``, and an internal topic of ``NAME-c``."""
    topics = TopicSettings(
        include=(f"{name}-.*",),
        refresh_interval_s=0.5,
        rename=(RenamePattern(match="(.*)-(?:a|b)", to="$1-one"), RenamePattern(match="(.*)-c(_*)", to="${2}$1")),
        shared_remote=shared,
    )
    return settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topics)


def fill(clusters: Clusters, topic: str, partitions: int) -> None:
    """Ten records in each partition."""
    create_topic(clusters.a.confluent_config(), topic, partitions)
    messages = [Message(f"{topic} {n}".encode(), partition=n % partitions) for n in range(10 * partitions)]
    produce(clusters.a.confluent_config(), topic, messages)


async def test_who_comes_later_gives_way_until_it_is_declared(clusters: Clusters) -> None:
    """``plan`` and ``up`` say why; the topic that is copied goes on; in the end both are."""
    name = mark()
    first, second, internal = f"{name}-a", f"{name}-b", f"{name}-c__"
    await aside(lambda: fill(clusters, first, 1))
    config = settings(clusters, name)
    async with LocalSystem(config) as system:
        await system.caught_up(first, 10)
        await aside(lambda: fill(clusters, second, 3))
        await aside(lambda: fill(clusters, internal, 1))

        async def told() -> bool:
            return len(_refused(await system.coordinator.topics("A->B"))) == 2

        await system.wait(told, "two topics are refused")
        refused = _refused(await system.coordinator.topics("A->B"))
        assert "shared.remote.topics" in refused[second]
        assert f"__{name} is an internal topic" in refused[internal]
        await aside(lambda: produce(clusters.a.confluent_config(), first, [Message(b"goes on")]))
        await system.caught_up(first, 11)
        (planned,) = (await aside(lambda: make_plan(config))).flows
        assert sorted(text.partition(":")[0] for text in planned.refused) == [second, internal]
    declared = settings(clusters, name, f"{name}-one")
    async with LocalSystem(declared) as system:

        async def copied() -> bool:
            lines = [line for line in await system.coordinator.partitions("A->B") if line.state == "copying"]
            return len(lines) == 4 and all(line.lag_records == 0 for line in lines)

        await system.wait(copied, "both are copied")
        pairs = (await take_snapshot(declared, declared.flows[0], [first, second], {})).pairs
    assert await aside(lambda: end_offsets(clusters.b.confluent_config(), f"{name}-one")) == {0: 21, 1: 10, 2: 10}
    configs = config_filter(declared.flows[0])
    assert [compare_topic(pair, configs, synced=True).drift for pair in pairs] == [(), ()]
    assert f"__{name}" not in AdminClient(dict(clusters.b.confluent_config())).list_topics(timeout=30).topics


def _refused(topics: Iterable[TopicStatus]) -> dict[str, str]:
    return {topic.topic: topic.reason or "" for topic in topics if topic.state == "refused"}
