"""Places that the map has forgotten are found by reading the source, and nobody waits for that for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from mirror_ray.model.errors import ClusterUnreachableError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import Segment
from mirror_ray.offsets.map import OffsetMapStore, SegmentGap, SegmentMap
from mirror_ray.offsets.translation import MapAnswer, Translation, answer_from
from mirror_ray.offsets.translator import Translator
from tests.support.offset_maps import offset_map_store

SOURCE = TopicPartition("orders", 0)


def _store() -> OffsetMapStore:
    """Ten records, ten that nobody told of, from source offset 10 to 40, then ten again."""
    return offset_map_store(SOURCE, (Segment(0, 0, 10, 0), Segment(40, 20, 10, 20)), ids=("source", "target"))


class _Source:
    """Says what is in the gap as soon as it may."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.error: Exception | None = None
        self.asked = 0
        self.store = _store()

    async def read(self, source: TopicPartition, offset_map: MapAnswer, gap: SegmentGap) -> SegmentMap | str:
        self.asked += 1
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        segments = SegmentMap(100, gap.after)
        segments.add(Segment(30, 10, 10, 10), 40)
        return segments


@pytest.fixture
def source() -> _Source:
    """Silent so far."""
    return _Source()


@pytest.fixture
async def translator(source: _Source) -> AsyncIterator[Translator]:
    """Reads it."""
    made = Translator(partial(answer_from, source.store), source.read)
    yield made
    await made.close()


async def test_a_gap_is_read_once(source: _Source, translator: Translator) -> None:
    """Both ways, and for whoever asks at the same time."""
    source.answers.set()
    found = await asyncio.gather(*(translator.to_target(SOURCE, offset) for offset in (12, 33, 39)))
    assert found == [Translation(offset=offset) for offset in (10, 13, 19)]
    assert await translator.to_source(SOURCE, 13) == Translation(offset=33)
    assert source.asked == 1


async def test_a_slow_source_is_read_on_while_nobody_waits(source: _Source, translator: Translator) -> None:
    """Until then the answer is a place before it."""
    early = await translator.to_target(SOURCE, 33, wait_s=0)
    assert (early.offset, early.exact, early.retry) == (10, False, True)
    source.answers.set()
    assert await translator.to_target(SOURCE, 33) == Translation(offset=13)
    assert source.asked == 1


@pytest.mark.parametrize("error", [OSError("connection lost"), ClusterUnreachableError("no broker answers")])
async def test_a_source_that_fails_is_read_again(source: _Source, translator: Translator, error: Exception) -> None:
    """At the next question."""
    source.error = error
    source.answers.set()
    failed = await translator.to_target(SOURCE, 33)
    assert (failed.offset, failed.exact, failed.retry) == (10, False, True)
    assert str(error) in (failed.reason or "")
    source.error = None
    assert await translator.to_target(SOURCE, 33) == Translation(offset=13)


async def test_closing_ends_what_is_being_read(source: _Source, translator: Translator) -> None:
    """Whoever still waits is told so by a cancellation, as everything else that ends."""
    await translator.to_target(SOURCE, 33, wait_s=0)
    await translator.close()
    assert source.asked == 1
    assert len(asyncio.all_tasks()) == 1


async def test_another_topics_gap_is_another_one(source: _Source, translator: Translator) -> None:
    """Though it lies between the same segments."""
    source.answers.set()
    await translator.to_target(SOURCE, 33)
    offset_map = source.store.find(SOURCE)
    assert offset_map is not None
    offset_map.source_topic_id = TopicId("other")
    await translator.to_target(SOURCE, 33)
    assert source.asked == 2
