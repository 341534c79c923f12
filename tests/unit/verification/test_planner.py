"""Plans from what two clusters, the map and the state say: nothing that was not compared is taken for equal."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION
from mirror_ray.kafka.leader_requests import EARLIEST, OffsetAnswer
from mirror_ray.kafka.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName, TopicId, TopicPartition
from mirror_ray.model.segment import Segment
from mirror_ray.offsets.map import CountedPair, SegmentGap
from mirror_ray.offsets.translation import answer_from
from mirror_ray.offsets.translator import Translator, read_gap
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import PARTITION
from mirror_ray.transforms.loading import TransformChains
from mirror_ray.verification import cluster_queries, copy_state, planner
from mirror_ray.verification.cluster_queries import ComparePolicy
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.planner import VerifyPlanner, VerifyRequest
from mirror_ray.verification.ranges import ComparedRange
from tests.support.offset_maps import offset_map_store

SOURCE, STATE = TopicPartition("orders", 0), "mm2-ray-state.A.internal"
Ends = tuple[int, int, int]
_FIRST = ComparedRange(0, 40, 0, 40)


class LogCluster:
    """Topics of one partition, with their log's start, end, and end for consumers."""

    def __init__(self, alias: str, logs: Mapping[str, Ends]) -> None:
        self.settings = SimpleNamespace(alias=alias)
        self.logs = dict(logs)
        #: What was asked for, and how, in each request for offsets.
        self.asked: list[tuple[frozenset[int], str]] = []
        partition = PartitionMetadata(partition=0, leader=1, leader_epoch=0, replicas=(1,), isr=(1,), error_code=0)
        self.metadata = ClusterMetadata(
            cluster_id=alias,
            brokers={},
            controller_id=1,
            topics={name: _topic(name, 0, {0: partition}) for name in logs},
        )

    async def refresh(self, topics: Collection[str] | None) -> ClusterMetadata:
        missing = {name: _topic(name, UNKNOWN_TOPIC_OR_PARTITION, {}) for name in topics or ()}
        return ClusterMetadata(cluster_id="", brokers={}, controller_id=1, topics={**missing, **self.metadata.topics})

    async def list_offsets(self, wanted: Mapping[TopicPartition, int], isolation: str) -> dict[TopicPartition, Any]:
        self.asked.append((frozenset(wanted.values()), isolation))
        return {at: OffsetAnswer(self._offset(at, which, isolation), 0) for at, which in wanted.items()}

    def _offset(self, partition: TopicPartition, which: int, isolation: str) -> int:
        if which >= 0:
            return which
        return self.logs[partition.topic][0 if which == EARLIEST else 2 if isolation == "read_committed" else 1]


def _topic(name: str, error_code: int, partitions: dict[int, PartitionMetadata]) -> TopicMetadata:
    topic_id = TopicId(f"id of {name}")
    return TopicMetadata(name=name, topic_id=topic_id, is_internal=False, error_code=error_code, partitions=partitions)


def _record(**fields: Any) -> PartitionRecord:
    known: dict[str, Any] = {
        "source_topic_id": "id of orders",
        "target_topic": "A.orders",
        "target_topic_id": "id of A.orders",
        "source_offset": 1000,
        "target_offset": 1000,
        "origin_source_offset": 0,
        "origin_target_offset": 0,
    }
    return PartitionRecord(**(known | fields))


def _plan(
    monkeypatch: pytest.MonkeyPatch,
    source: Ends,
    target: Ends,
    *,
    record: PartitionRecord | None = None,
    segments: Iterable[Segment] = (),
    wanted: VerifyRequest | None = None,
) -> CompareJob:
    """The job of the one partition."""
    clusters = LogCluster("A", {"orders": source}), LogCluster("B", {"A.orders": target, STATE: (0, 0, 0)})
    return _plan_of(monkeypatch, clusters, record, segments, wanted)[0]


def _plan_of(
    monkeypatch: pytest.MonkeyPatch,
    clusters: tuple[LogCluster, LogCluster],
    record: PartitionRecord | None = None,
    segments: Iterable[Segment] = (),
    wanted: VerifyRequest | None = None,
) -> list[CompareJob]:
    async def policies(_: object, topics: Collection[str]) -> dict[str, ComparePolicy]:
        return dict.fromkeys(topics, ComparePolicy(compacted=False, append_time=False))

    async def read(*_: object) -> str:
        return "the source was cleaned"

    documents = PARTITION.documents(SOURCE, record) if record is not None else {}
    monkeypatch.setattr(planner, "query_policies", policies)
    monkeypatch.setattr(copy_state, "read_state", lambda *_: documents)
    monkeypatch.setattr(planner, "_RETRY_INTERVAL_S", 0.0)
    monkeypatch.setattr(cluster_queries, "_RETRY_INTERVAL_S", 0.0)
    book = offset_map_store(SOURCE, segments, ids=("id of orders", "id of A.orders"))

    async def run() -> list[CompareJob]:
        own_map: Any = SimpleNamespace(store=book, translator=Translator(partial(answer_from, book), read))
        flow = FlowSettings(name=FlowName("A", "B"), enabled=True)
        planner = VerifyPlanner(flow, *clusters, own_map, TransformChains(()))  # type: ignore[arg-type]
        return await planner.plan(wanted or VerifyRequest())

    return asyncio.run(run())


@pytest.mark.parametrize("segments", [(), (Segment(0, 0, 1000, 0),)])
def test_a_target_that_lost_everything(monkeypatch: pytest.MonkeyPatch, segments: tuple[Segment, ...]) -> None:
    """All of the source is compared with nothing."""
    job = _plan(monkeypatch, (0, 1000, 1000), (0, 0, 0), record=_record(), segments=segments)
    assert job.reason is None
    assert job.chosen_ranges == [ComparedRange(0, 1000, 0, 0)]


def test_a_source_that_lost_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a state, and as an empty topic of another id behind a target that is not empty."""
    job = _plan(monkeypatch, (0, 0, 0), (0, 1000, 1000), record=_record())
    assert "the source ends at 0" in str(job.reason)
    anew = _plan(monkeypatch, (0, 0, 0), (0, 1000, 1000), record=_record(source_topic_id="another"))
    assert "was created anew" in str(anew.reason)
    never = _plan(monkeypatch, (0, 0, 0), (0, 1000, 1000))
    assert never.reason == "nothing was copied of it yet"


def test_an_empty_partition_is_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing on both sides; records of others in a shared topic are theirs."""
    assert _plan(monkeypatch, (0, 0, 0), (0, 0, 0)).verdict().outcome == "equal"
    shared = _record(shared=True, source_offset=0, target_offset=50)
    assert _plan(monkeypatch, (0, 0, 0), (0, 50, 50), record=shared).verdict().outcome == "equal"


def test_a_shared_copy_that_the_map_does_not_tell_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention may have emptied the source since: that it is not known is said."""
    job = _plan(monkeypatch, (0, 10, 10), (0, 50, 50), record=_record(shared=True))
    assert "which offsets belong together is not known" in str(job.reason)
    lost = _plan(monkeypatch, (0, 0, 0), (0, 50, 50), record=_record(shared=True))
    assert "which offsets belong together is not known" in str(lost.reason)


def test_what_was_copied_behind_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is ahead of the segments topic."""
    record, segments = _record(source_offset=5000, target_offset=5000), (Segment(0, 0, 1000, 0),)
    logs = (0, 5000, 5000), (0, 5000, 5000)
    job = _plan(monkeypatch, *logs, record=record, segments=segments, wanted=VerifyRequest(since_ms=3000))
    assert "covers source offsets up to 1000" in str(job.reason)
    at_head = _plan(monkeypatch, *logs, record=record, segments=segments, wanted=VerifyRequest(since_ms=1000))
    assert at_head.chosen_ranges == [ComparedRange(1000, 5000, 1000, 5000)]


@pytest.mark.parametrize(("stable", "ranges"), [(100, [_FIRST, ComparedRange(40, 80, 60, 100)]), (50, [_FIRST])])
def test_a_shared_topic_with_an_open_transaction(
    monkeypatch: pytest.MonkeyPatch, stable: int, ranges: list[ComparedRange]
) -> None:
    """What it hides is no difference, and what is left out is said."""
    segments = (Segment(0, 0, 40, 0), Segment(40, 60, 40, 40))
    record = _record(source_offset=80, target_offset=100, shared=True)
    job = _plan(monkeypatch, (0, 80, 80), (0, 100, stable), record=record, segments=segments)
    assert job.chosen_ranges == ranges
    assert len(job.notes) == (stable < 100)
    hidden = _plan(monkeypatch, (0, 80, 80), (0, 100, 0), record=record, segments=segments)
    assert "another writer's open transaction" in str(hidden.reason)


def test_a_shared_topic_that_lost_its_end_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of the records that are left are ours is not to be told."""
    segments = (Segment(0, 0, 80, 0),)
    job = _plan(monkeypatch, (0, 80, 80), (0, 50, 50), record=_record(shared=True), segments=segments)
    assert "a log lost its end" in str(job.reason)


def test_logs_that_seem_short_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader does not show at once all that was committed."""
    source = LogCluster("A", {"orders": (0, 1000, 1000)})
    target = LogCluster("B", {"A.orders": (0, 900, 900), STATE: (0, 0, 0)})
    answers = target.list_offsets

    async def grown(wanted: Mapping[TopicPartition, int], isolation: str) -> dict[TopicPartition, Any]:
        if len(target.asked) > 6:
            target.logs["A.orders"] = (0, 1000, 1000)
        return await answers(wanted, isolation)

    monkeypatch.setattr(target, "list_offsets", grown)
    (job,) = _plan_of(monkeypatch, (source, target), _record())
    assert (job.notes, job.chosen_ranges) == ((), [ComparedRange(0, 1000, 0, 1000)])


def test_a_flow_of_which_no_topic_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error: a missing right is no proof of anything."""
    with pytest.raises(ConfigError, match=r"nothing to verify.*DESCRIBE"):
        _plan_of(monkeypatch, (LogCluster("A", {}), LogCluster("B", {})))


def test_a_source_that_ends_in_a_gap_of_the_map_is_not_waited_for() -> None:
    """Its reading would never end."""
    gap = SegmentGap(CountedPair(10, 10, 10), CountedPair(30, 20, 20))
    cluster: Any = LogCluster("A", {"orders": (0, 20, 20)})
    with pytest.raises(MirrorError, match="orders-0 ends at 20, and was copied up to 30"):
        asyncio.run(read_gap(cluster, SOURCE, TopicId("id of orders"), gap, read_committed=True))
