"""Publishing statistics into a topic that can't always be written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import pytest

from mirror_ray.kafka.internal_topic_writer import IdempotentTopicWriter, KeyedRecord
from mirror_ray.model.errors import KafkaProtocolError, MirrorError
from mirror_ray.records.statistics import decode_statistics
from mirror_ray.replication import statistics_publisher, supervision
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.statistics import StatisticsTally
from mirror_ray.replication.statistics_publisher import StatisticsPublisher, now_ms
from mirror_ray.replication.target_log import TargetLog
from tests.support.factories import assignment, establish, replication
from tests.support.waiting import wait_until_async

HOUR_MS = 3_600_000


class Writer:
    """A topic that refuses while ``problem`` is set."""

    topic = "mm2-ray-stats.A.internal"

    def __init__(self) -> None:
        self.problem: str | None = None
        self.broken: Exception | None = None
        #: The largest batch that it takes, and a partition whose records are too large by themselves.
        self.most = 1000
        self.large = -1
        self.given: list[list[KeyedRecord]] = []
        self.records: list[KeyedRecord] = []

    async def append_once(self, records: Sequence[KeyedRecord]) -> None:
        await asyncio.sleep(0)
        self.given.append(list(records))
        if self.problem is not None:
            raise MirrorError(self.problem)
        if self.broken is not None:
            raise self.broken
        told = {decode_statistics(record.value).partition for record in records}
        if len(records) > self.most or self.large in told:
            raise KafkaProtocolError(10, "MESSAGE_TOO_LARGE", "write")
        self.records += records

    @property
    def told(self) -> list[int]:
        """The partitions told of."""
        return [decode_statistics(record.value).partition for record in self.records]


class Scene:
    """Copies, and what is published of them."""

    def __init__(self, interval_ms: int) -> None:
        self.writer = Writer()
        self.events: list[str] = []
        self.copies: list[PartitionReplication] = []
        self.publishing = StatisticsPublisher(
            "A->B",
            "r-0",
            cast(IdempotentTopicWriter, self.writer),
            lambda: self.copies,
            interval_ms=interval_ms,
            on_event=lambda level, text: self.events.append(f"{level}: {text}"),
        )
        self._interval_ms = interval_ms

    def copy(self, partition: int) -> PartitionReplication:
        """One more, which was established just now."""
        tally = StatisticsTally(self._interval_ms, now_ms)
        copy = replication(assignment(partition=partition), tally=tally)
        establish(copy, TargetLog(end=0))
        self.copies.append(copy)
        return copy


@asynccontextmanager
async def _scene(interval_ms: int = HOUR_MS) -> AsyncIterator[Scene]:
    scene = Scene(interval_ms)
    try:
        yield scene
    finally:
        await scene.publishing.close()


async def _until(scene: Scene, *, given: int = 0, records: int = 0) -> None:
    async def there() -> bool:
        return len(scene.writer.given) >= given and len(scene.writer.records) >= records

    await wait_until_async(there, 10, f"{given} batches given, {records} records written")


async def test_each_interval_is_published() -> None:
    """Of all copies, also while some of them go away."""
    async with _scene(interval_ms=20) as scene:
        for number in range(250):
            scene.copy(number)
        await _until(scene, records=250)
        assert sorted(scene.writer.told) == list(range(250))
        assert not scene.events


async def test_what_goes_away_is_published_at_once() -> None:
    """Those released before they are given back; one that was taken away soon after. Nothing of them twice."""
    async with _scene() as scene:
        copies = [scene.copy(number) for number in range(3)]
        await scene.publishing.flush(copies[:2])
        assert scene.writer.told == [0, 1]
        scene.publishing.leave(copies[0])
        scene.publishing.leave(copies[2])
        await _until(scene, records=3)
        await scene.publishing.flush(copies)
        assert scene.writer.told == [0, 1, 2]


async def test_a_topic_that_refuses_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said once, and once that it works again; what was refused is given again as it was, before anything new."""
    monkeypatch.setattr(supervision, "_FIRST_PAUSE_S", 0.001)
    async with _scene() as scene:
        scene.writer.problem = "write to topic mm2-ray-stats.A.internal: refused"
        for number in range(3):
            await scene.publishing.flush([scene.copy(number)])
        scene.publishing.leave(scene.copy(3))
        await _until(scene, given=6)
        assert [len(records) for records in scene.writer.given] == [1] * len(scene.writer.given)
        assert scene.events == [f"warning: flow A->B: statistics are not published: {scene.writer.problem}"]
        scene.writer.problem = None
        await _until(scene, records=4)
        assert scene.writer.told == [0, 1, 2, 3]
        assert scene.events[1:] == ["info: flow A->B: topic mm2-ray-stats.A.internal can be written again"]


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is given up, but for what may be there already."""
    monkeypatch.setattr(statistics_publisher, "_WAITING_RECORDS", 5)
    monkeypatch.setattr(statistics_publisher, "_BATCH_RECORDS", 2)
    async with _scene() as scene:
        scene.writer.problem = "refused"
        await scene.publishing.flush([scene.copy(number) for number in range(4)])
        await scene.publishing.flush([scene.copy(number) for number in range(4, 20)])
        scene.writer.problem = None
        await scene.publishing.flush([])
        assert scene.writer.told == [0, 1, 15, 16, 17, 18, 19]
        assert max(len(records) for records in scene.writer.given) == 2


async def test_what_is_too_large_is_split() -> None:
    """Down to what the topic takes, in order; a record that is too large by itself is given up, and it is said."""
    async with _scene() as scene:
        scene.writer.most, scene.writer.large = 3, 17
        await scene.publishing.flush([scene.copy(number) for number in range(20)])
        assert scene.writer.told == [number for number in range(20) if number != 17]
        assert len(scene.events) == 1
        assert "max.message.bytes" in scene.events[0]
        scene.writer.given.clear()
        await scene.publishing.flush([scene.copy(number) for number in range(20, 24)])
        assert max(map(len, scene.writer.given)) <= 3
        assert scene.writer.told[-4:] == [20, 21, 22, 23]


async def test_the_unforeseen_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one copy, or in writing: it is said once, and the rest is published."""
    async with _scene(interval_ms=20) as scene:
        scene.writer.broken = ValueError("no such thing")
        scene.copy(0)
        await _until(scene, given=1)
        scene.writer.broken = None
        ill, _ = scene.copy(1), scene.copy(2)
        monkeypatch.setattr(ill, "tally", _IllTally())
        await _until(scene, records=1)
        scene.copy(3)
        await _until(scene, records=2)
        assert scene.writer.told == [2, 3]
        assert len(scene.events) == 1
        assert "incomplete" in scene.events[0]


class _IllTally:
    """One that can't be asked."""

    def take(self, *, ended: bool = False) -> list[object]:
        raise ValueError(f"it broke, {ended}")


async def test_what_comes_at_the_very_end_is_published() -> None:
    """A copy that leaves just before everything is closed."""
    async with _scene() as scene:
        copy = scene.copy(0)
        await scene.publishing.flush([])
        scene.publishing.leave(copy)
    assert scene.writer.told == [0]
