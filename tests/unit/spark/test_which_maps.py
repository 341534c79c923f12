"""Which segments topics the executors read: those that are there, and no error is taken for one that is missing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import LEADER_NOT_AVAILABLE, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from mirror_ray.kafka.leader_requests import OffsetAnswer
from mirror_ray.model.errors import KafkaProtocolError
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.offsets.translation import NO_MAP, OffsetQuery
from mirror_ray.spark import translation
from mirror_ray.spark.translation import SparkMaps

HERE, BACK = OffsetQuery(False, TopicPartition("orders", 0), 5), OffsetQuery(True, TopicPartition("bills", 0), 7)


@dataclass
class OneTopic:
    """A cluster that knows one topic; or says the error for it."""

    alias: str
    error_code: int = 0

    def __post_init__(self) -> None:
        self.settings = SimpleNamespace(alias=self.alias)

    async def refresh(self, topics: Collection[str]) -> SimpleNamespace:
        partitions = {} if self.error_code else {0: SimpleNamespace(leader=1)}
        found = {name: SimpleNamespace(error_code=self.error_code, partitions=partitions) for name in topics}
        self.metadata = SimpleNamespace(
            topics=found, partition=lambda partition: found[partition.topic].partitions.get(0)
        )
        return self.metadata

    async def list_offsets(self, wanted: Collection[TopicPartition], isolation: str) -> dict[TopicPartition, Any]:
        return dict.fromkeys(wanted, OffsetAnswer(3, 0))


@dataclass(frozen=True)
class Blocks:
    """In the place of a data frame: of which topics."""

    of: tuple[str, ...]

    def union(self, other: Blocks) -> Blocks:
        return Blocks(self.of + other.of)


@dataclass
class Read:
    """What was read, and a Spark that answers nothing."""

    topics: list[str] = field(default_factory=list)
    sparkContext = SimpleNamespace(defaultParallelism=1)  # noqa: N815 - as Spark calls it

    def createDataFrame(self, rows: object, schema: str) -> object:  # noqa: N802 - as Spark calls it
        return rows

    def answer_queries(self, blocks: Blocks, asked: object) -> SimpleNamespace:
        self.topics = sorted(blocks.of)
        return SimpleNamespace(collect=list)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Read:
    """In the place of a session."""
    fake = Read()
    monkeypatch.setattr(translation, "read_ranges", lambda _spark, _settings, ranges, **_: next(iter(ranges)).topic)
    monkeypatch.setattr(translation, "blocks_of", lambda topic, **_: Blocks((topic,)))
    monkeypatch.setattr(translation, "answer_queries", fake.answer_queries)
    return fake


def maps(spark: Read, of_own: int, of_back: int) -> SparkMaps:
    """Of A->B; with what the clusters say of its topics."""
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True)
    source, target = OneTopic("A", of_back), OneTopic("B", of_own)
    return SparkMaps(cast("Any", spark), flow, cast("ClusterConnections", source), cast("ClusterConnections", target))


@pytest.mark.parametrize(
    ("of_own", "of_back", "read"),
    [
        (0, 0, [segments_topic("A"), segments_topic("B")]),
        (0, UNKNOWN_TOPIC_OR_PARTITION, [segments_topic("A")]),
        (UNKNOWN_TOPIC_OR_PARTITION, 0, [segments_topic("B")]),
    ],
)
async def test_each_map_that_is_there_is_read(spark: Read, of_own: int, of_back: int, read: list[str]) -> None:
    """Where no flow leads back, the flow's own counts all the same."""
    await maps(spark, of_own, of_back)([HERE, BACK])
    assert spark.topics == sorted(read)


async def test_without_any_map_nothing_was_copied(spark: Read) -> None:
    """No job is run for that."""
    missing = maps(spark, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION)
    assert await missing([HERE, BACK]) == {HERE: NO_MAP, BACK: NO_MAP}
    assert spark.topics == []


@pytest.mark.parametrize("code", [TOPIC_AUTHORIZATION_FAILED, LEADER_NOT_AVAILABLE])
async def test_a_map_that_may_be_there_is_not_left_out(spark: Read, code: int) -> None:
    """A right that is missing, or a moment without a leader."""
    with pytest.raises(KafkaProtocolError, match=segments_topic("A")):
        await maps(spark, code, 0)([HERE, BACK])
