"""What an executor makes of blocks and positions in their order: the places, as the store of the checkpoint actor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.offsets.map import OffsetMapStore, SegmentGap
from mirror_ray.offsets.translation import NO_MAP, MapAnswer, OffsetQuery, answer
from mirror_ray.records.segment_block import encode_key, encode_value
from mirror_ray.spark.translation import _answer_in_order, _read_answer

TOPICS = TopicId("s"), TopicId("t")
#: Of one partition: holes and records behind each; and whether its replicator crashed before it told a run.
RUNS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5), st.booleans()), min_size=1, max_size=40)


def copied(source: TopicPartition, runs: Sequence[tuple[int, int, bool]]) -> tuple[list[SegmentBlock], dict[int, int]]:
    """Blocks of up to three segments, and every record's place."""
    blocks: list[SegmentBlock] = []
    truth: dict[int, int] = {}
    published: list[Segment] = [Segment(0, 0, 0, 0)]
    offset = number = 0
    for hole, count, is_published in runs:
        offset += hole
        if is_published:
            published.append(Segment(offset, number, count, number))
        truth |= {offset + step: number + step for step in range(count)}
        offset, number = offset + count, number + count
        if len(published) == 3:
            blocks.append(block(source, published, offset))
            published = []
    blocks.append(block(source, [*published, Segment(offset, number, 0, number)], offset))
    return blocks, truth


def block(source: TopicPartition, segments: Sequence[Segment], source_next: int) -> SegmentBlock:
    """A block of these."""
    return SegmentBlock(
        source=source,
        source_topic_id=TOPICS[0],
        target_topic_id=TOPICS[1],
        epoch=1,
        segments=tuple(segments),
        source_next=source_next,
    )


def rows_of(back: bool, blocks: Sequence[SegmentBlock], place: TopicPartition, asked: Sequence[int]) -> list[Any]:
    """As they come out of the sort."""
    records = [(bytearray(encode_key(block.key)), bytearray(encode_value(block))) for block in blocks]
    published = [(back, *place, 0, number, *record) for number, record in enumerate(records)]
    return published + [(back, *place, 1, offset, None, None) for offset in sorted(asked)]


def answers(rows: list[Any]) -> dict[OffsetQuery, MapAnswer]:
    """As the driver reads them."""
    return dict(_read_answer(cast("Row", row)) for row in _answer_in_order(rows))


@given(st.lists(RUNS, min_size=1, max_size=3), st.booleans())
def test_places_are_the_books(partitions: list[list[tuple[int, int, bool]]], back: bool) -> None:
    """One partition after the other, both ways; what is exact is the record, and a smaller store knows no better."""
    rows: list[Any] = []
    expected: dict[OffsetQuery, MapAnswer] = {}
    for number, runs in enumerate(partitions):
        place = TopicPartition("orders", number)
        blocks, truth = copied(place, runs)
        asked = range(blocks[-1].source_next + 3)
        rows += rows_of(back, blocks, place, asked)
        store, small = OffsetMapStore(), OffsetMapStore(limit=8)
        for block in blocks:
            store.apply(block)
            small.apply(block)
        page, less = store.find(place), small.find(place)
        assert page is not None
        assert less is not None
        for offset in asked:
            found = answer(page.segments, offset, back=back)
            expected[OffsetQuery(back, place, offset)] = MapAnswer(TOPICS, found, page.segments.tail)
            forgetful = answer(less.segments, offset, back=back)
            assert isinstance(forgetful, SegmentGap) or forgetful == found
            if not back and not isinstance(found, SegmentGap) and found.exact and found.offset is not None:
                following = min((known for known in truth if known >= offset), default=None)
                assert found.offset == (len(truth) if following is None else truth[following])
    assert answers(rows) == expected


def test_a_partition_without_blocks_has_no_map() -> None:
    """Also behind one that has some."""
    known, unknown = TopicPartition("orders", 0), TopicPartition("orders", 1)
    blocks, _ = copied(known, [(0, 5, True)])
    found = answers([*rows_of(False, blocks, known, [3]), *rows_of(False, [], unknown, [3])])
    assert found[OffsetQuery(False, unknown, 3)] == NO_MAP
    assert found[OffsetQuery(False, known, 3)].topic_ids == TOPICS


def test_a_block_that_does_not_parse_is_passed_over() -> None:
    """As the checkpoint actor does."""
    place = TopicPartition("orders", 0)
    blocks, _ = copied(place, [(0, 5, True)])
    rows = rows_of(False, blocks, place, [3])
    rows.insert(1, (False, *place, 0, 1, bytearray(b"?"), bytearray(b"")))
    assert answers(rows) == answers(rows_of(False, blocks, place, [3]))
