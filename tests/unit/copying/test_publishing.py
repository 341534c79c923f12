"""Publishing statistics into a topic that can't always be written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import pytest

from mirror_ray.copying import publishing
from mirror_ray.copying.outgoing import Budget
from mirror_ray.copying.partition import PartitionCopy
from mirror_ray.copying.publishing import Publishing, now_ms
from mirror_ray.copying.recovery import TargetLog
from mirror_ray.copying.statistics import Tally
from mirror_ray.kafka.idempotent_writer import IdempotentWriter
from mirror_ray.kafka.internal_writer import InternalRecord
from mirror_ray.model.anchor import Anchor
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName, FlowPartition, TopicId, TopicPartition
from mirror_ray.records.statistics import decode_statistics
from tests.support.waiting import wait_until_async

HOUR_MS = 3_600_000


class Writer:
    """A topic that refuses while ``problem`` is set."""

    topic = "mm2-ray-stats.A.internal"

    def __init__(self) -> None:
        self.problem: str | None = None
        self.given: list[list[InternalRecord]] = []
        self.records: list[InternalRecord] = []

    async def append_once(self, records: Sequence[InternalRecord]) -> None:
        await asyncio.sleep(0)
        self.given.append(list(records))
        if self.problem is not None:
            raise MirrorError(self.problem)
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
        self.copies: list[PartitionCopy] = []
        self.publishing = Publishing(
            "A->B",
            "r-0",
            cast(IdempotentWriter, self.writer),
            lambda: self.copies,
            interval_ms=interval_ms,
            on_event=lambda level, text: self.events.append(f"{level}: {text}"),
        )
        self._interval_ms = interval_ms

    def copy(self, partition: int) -> PartitionCopy:
        """One more, which was established just now."""
        assignment = Assignment(
            partition=FlowPartition(FlowName("A", "B"), "t", partition),
            source_topic_id=TopicId("s"),
            target=TopicPartition("A.t", partition),
            target_topic_id=TopicId("t"),
            producer_id=1,
            producer_epoch=0,
            anchor=Anchor(0, 0),
            epoch=1,
            max_message_bytes=1 << 20,
        )
        copy = PartitionCopy(assignment, Budget(1 << 20), 1 << 16, tally=Tally(self._interval_ms, now_ms))
        copy.established(TargetLog(end=0))
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
    monkeypatch.setattr(publishing, "_FIRST_PAUSE_S", 0.001)
    async with _scene() as scene:
        scene.writer.problem = "write to topic mm2-ray-stats.A.internal: refused"
        for number in range(3):
            await scene.publishing.flush([scene.copy(number)])
        scene.publishing.leave(scene.copy(3))
        await _until(scene, given=6)
        assert [len(each) for each in scene.writer.given] == [1] * len(scene.writer.given)
        assert scene.events == [f"warning: flow A->B: statistics are not published: {scene.writer.problem}"]
        scene.writer.problem = None
        await _until(scene, records=4)
        assert scene.writer.told == [0, 1, 2, 3]
        assert scene.events[1:] == ["info: flow A->B: topic mm2-ray-stats.A.internal can be written again"]


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is given up, but for what may be there already."""
    monkeypatch.setattr(publishing, "_WAITING_RECORDS", 5)
    monkeypatch.setattr(publishing, "_BATCH_RECORDS", 2)
    async with _scene() as scene:
        scene.writer.problem = "refused"
        await scene.publishing.flush([scene.copy(number) for number in range(4)])
        await scene.publishing.flush([scene.copy(number) for number in range(4, 20)])
        scene.writer.problem = None
        await scene.publishing.flush([])
        assert scene.writer.told == [0, 1, 15, 16, 17, 18, 19]
        assert max(len(each) for each in scene.writer.given) == 2
