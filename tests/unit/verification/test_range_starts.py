"""Comparing begins where positions are sure to belong together; what is left out by that is said."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.segment import Segment
from mirror_ray.offsets.map import SegmentGap, SegmentMap
from mirror_ray.offsets.translation import MapAnswer, answer_from
from mirror_ray.offsets.translator import Translator
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.verification import range_starts
from mirror_ray.verification.range_bounds import RangeStart, UnknownStart
from mirror_ray.verification.range_starts import find_range_start
from mirror_ray.verification.ranges import PositionPair
from tests.support.factories import partition_record
from tests.support.offset_maps import offset_map_store

SOURCE = TopicPartition("orders", 0)
RECORD = partition_record("orders", source_offset=1000, target_offset=900)


async def _cleaned(*_: object) -> str:
    return "the source was cleaned"


def _find(
    starts: tuple[int, int], reached: PositionPair, *segments: Segment, record: PartitionRecord | None = None
) -> RangeStart | UnknownStart:
    book = offset_map_store(SOURCE, segments)

    async def run() -> RangeStart | UnknownStart:
        translator = Translator(partial(answer_from, book), _cleaned)
        return await find_range_start(translator, SOURCE, book.find(SOURCE), record, starts=starts, reached=reached)

    return asyncio.run(run())


def test_it_begins_at_the_later_start() -> None:
    """At the pair of it, whichever side's it is."""
    segment = Segment(100, 50, 900, 0)
    assert _find((200, 50), PositionPair(1000, 950), segment) == RangeStart(PositionPair(200, 150))
    assert _find((200, 300), PositionPair(1000, 950), segment) == RangeStart(PositionPair(350, 300))


def test_nothing_is_left_where_a_log_begins_behind_what_was_copied() -> None:
    """With a map and without."""
    for segments in ((), (Segment(0, 0, 1000, 0),)):
        for starts in ((1000, 0), (0, 1000), (5000, 1000)):
            found = _find(starts, PositionPair(1000, 1000), *segments)
            assert isinstance(found, RangeStart)
            assert found.pair > PositionPair(1000, 1000)


@pytest.mark.parametrize("starts", [(1001, 0), (0, 1001), (4999, 4999)])
def test_what_the_map_does_not_tell_of_yet_is_not_passed_over(starts: tuple[int, int]) -> None:
    """A system's pair, and the state's, may be ahead of the segments topic."""
    found = _find(starts, PositionPair(5000, 5000), Segment(0, 0, 1000, 0))
    assert isinstance(found, UnknownStart)
    assert "covers source offsets up to 1000" in found.why


def test_at_the_head_of_the_map_the_pair_is_known() -> None:
    """What is behind it is compared."""
    assert _find((1000, 0), PositionPair(5000, 5000), Segment(0, 0, 1000, 0)) == RangeStart(PositionPair(1000, 1000))
    assert _find((0, 1000), PositionPair(5000, 5000), Segment(0, 0, 1000, 0)) == RangeStart(PositionPair(1000, 1000))


def test_markers_behind_the_head_are_nothing_to_compare() -> None:
    """The copy has passed them, and the target has not grown."""
    found = _find((1003, 0), PositionPair(1005, 1000), Segment(0, 0, 1000, 0))
    assert isinstance(found, RangeStart)
    assert found.pair > PositionPair(1005, 1000)


def test_what_was_never_copied_is_told() -> None:
    """The copy began later, or began anew in a new remote topic of which nothing was copied since."""
    assert _find((100, 0), PositionPair(1500, 500), Segment(1000, 0, 500, 0)) == RangeStart(
        PositionPair(1000, 0), None, (100, 1000)
    )
    empty = _find((100, 0), PositionPair(1000, 0), Segment(1000, 0, 0, 777))
    assert isinstance(empty, RangeStart)
    assert empty.not_copied == (100, 1000)


def test_what_the_map_has_forgotten_is_left_out_with_a_note() -> None:
    """The next pair that it knows; the source does not help."""
    found = _find((15, 0), PositionPair(50, 40), Segment(0, 0, 10, 0), Segment(30, 20, 20, 20))
    assert found == RangeStart(
        PositionPair(30, 20), "source offsets 15 to 30 were not compared: the source was cleaned"
    )


def test_without_a_map_the_origin_is_told_of() -> None:
    """It moves with nearly every answered trouble: what lies before it is said to be left out."""
    record = RECORD.with_origin(RECORD.pair)
    found = _find((0, 0), PositionPair(5000, 4900), record=record)
    assert isinstance(found, RangeStart)
    assert found.pair == PositionPair(1000, 900)
    assert "source offsets 0 to 1000 were not compared" in str(found.note)
    assert _find((1000, 900), PositionPair(5000, 4900), record=record) == RangeStart(PositionPair(1000, 900))
    assert isinstance(_find((1001, 0), PositionPair(5000, 4900), record=record), UnknownStart)
    assert isinstance(_find((0, 901), PositionPair(5000, 4900), record=record), UnknownStart)


def test_without_a_map_a_copy_into_an_empty_topic_began_at_its_origin() -> None:
    """Nothing was copied before."""
    record = replace(RECORD, target_offset=0)
    found = _find((10, 0), PositionPair(5000, 4000), record=record.with_origin(record.pair))
    assert found == RangeStart(PositionPair(1000, 0), None, (10, 1000))


def test_the_anchor_of_a_record_without_an_origin_is_no_beginning() -> None:
    """All that was copied lies before it."""
    assert _find((0, 0), PositionPair(1000, 900), record=RECORD) == RangeStart(PositionPair(0, 0))
    assert isinstance(_find((10, 0), PositionPair(1000, 900), record=RECORD), UnknownStart)


def test_it_is_not_waited_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that does not end: all questions about a partition together wait only so long."""
    monkeypatch.setattr(range_starts, "_TIMEOUT_S", 0.05)
    book = offset_map_store(SOURCE, (Segment(0, 0, 10, 0), Segment(30, 20, 20, 20)))

    async def never(source: TopicPartition, offset_map: MapAnswer, gap: SegmentGap) -> SegmentMap | str:
        await asyncio.Event().wait()
        raise AssertionError(source, offset_map, gap)

    async def run() -> RangeStart | UnknownStart:
        translator = Translator(partial(answer_from, book), never)
        try:
            return await find_range_start(
                translator, SOURCE, book.find(SOURCE), None, starts=(15, 0), reached=PositionPair(50, 40)
            )
        finally:
            await translator.close()

    found = asyncio.run(run())
    assert isinstance(found, RangeStart)
    assert found.pair == PositionPair(30, 20)
    assert "source offsets 15 to 30 were not compared" in str(found.note)
