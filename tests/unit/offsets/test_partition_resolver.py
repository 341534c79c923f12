"""Which way a source partition's offsets go, where a map or a pattern names topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from mirror_ray.config.settings import FlowSettings, RenamePattern, TopicSettings, with_all_names
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.offsets.partition_resolver import PartitionResolver, ResolvedPartition

NAMES = TopicSettings(map={"a": "all", "b": "all", "c": "dr-c"}, rename=(RenamePattern(match="x-(.*)", to="y-$1"),))


class Target:
    """A cluster that knows its topics once it was asked for all of them."""

    def __init__(self, *topics: str) -> None:
        self.asked = 0
        self.metadata = SimpleNamespace(topics={})
        self._topics = topics

    async def refresh(self, topics: object) -> None:
        assert topics is None
        self.asked += 1
        self.metadata.topics = dict.fromkeys(self._topics)
        self.metadata.partition = lambda partition: partition if partition.partition < 4 else None


def ways(name: str, target: Target, *on_source: str) -> PartitionResolver:
    """Of one of the flows A->B, which gives names, and B->A."""
    flows = with_all_names(
        [
            FlowSettings(name=FlowName("A", "B"), enabled=True, topics=NAMES),
            FlowSettings(name=FlowName("B", "A"), enabled=True),
        ]
    )
    flow = next(candidate for candidate in flows if str(candidate.name) == name)
    return PartitionResolver(flow, cast("ClusterConnections", Target(*on_source)), cast("ClusterConnections", target))


def way(topic: str, *, back: bool, key: str | None = None) -> ResolvedPartition:
    """Of partition 3."""
    return ResolvedPartition(remote=TopicPartition(topic, 3), back=back, key=TopicPartition(key or topic, 3))


def found(ways: PartitionResolver, topic: str) -> tuple[Any, ...]:
    """Of partition 3."""
    return ways.find_all(TopicPartition(topic, 3))


async def test_the_way_there() -> None:
    """Under the names that are given."""
    there = ways("A->B", target := Target("all"))
    await there.prepare()
    assert target.asked == 0
    assert found(there, "a") == (way("all", back=False, key="a"),)
    assert found(there, "x-1") == (way("y-1", back=False, key="x-1"),)
    assert found(there, "d") == (way("A.d", back=False, key="d"),)
    assert found(there, "B.d") == (way("d", back=True),)


async def test_what_is_merged() -> None:
    """As the source's topics were last seen."""
    there = ways("A->B", Target(), "a", "b", "c", "d", "x-1")
    merged = TopicPartition("all", 3)
    assert there.merged_from(merged) == []
    await there.prepare()
    assert there.merged_from(merged) == [TopicPartition("a", 3), TopicPartition("b", 3)]
    assert there.merged_from(TopicPartition("all", 4)) == there.merged_from(TopicPartition("dr-c", 3)) == []


async def test_the_way_back() -> None:
    """By the map; for a pattern once the topics that there are were seen; to several where they were merged."""
    back = ways("B->A", target := Target("x-1", "x-2", "a"))
    assert found(back, "dr-c") == (way("c", back=True),)
    assert found(back, "y-1") == ()
    await back.prepare()
    await back.prepare()
    assert target.asked == 1
    assert found(back, "y-1") == (way("x-1", back=True),)
    assert found(back, "all") == (way("a", back=True), way("b", back=True))
    assert len(found(back, "all")) == 2
    assert found(back, "own") == (way("B.own", back=False, key="own"),)
