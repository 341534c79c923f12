"""The records of the segments topic."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.records.segment_block import decode_block, encode_key, encode_value

NUMBER = st.integers(-1, 2**63 - 1)
MADE_BY = st.one_of(st.just(("", 0)), st.tuples(st.text(min_size=1, max_size=20), NUMBER))
PLAIN = st.builds(
    SegmentBlock,
    source=st.builds(TopicPartition, st.text(max_size=20), st.integers(0, 2**31 - 1)),
    source_topic_id=st.text(max_size=22).map(TopicId),
    target_topic_id=st.text(max_size=22).map(TopicId),
    epoch=NUMBER,
    segments=st.lists(st.builds(Segment, NUMBER, NUMBER, NUMBER, NUMBER), min_size=1, max_size=9).map(tuple),
    source_next=NUMBER,
)
BLOCKS = st.builds(
    lambda block, made_by: replace(block, transforms=made_by[0], transforms_since=made_by[1]), PLAIN, MADE_BY
)


@given(block=BLOCKS)
def test_what_is_written_is_read(block: SegmentBlock) -> None:
    """Every block; a longer version of it has the same key."""
    assert decode_block(encode_key(block.key), encode_value(block)) == block


@given(block=BLOCKS, garbage=st.binary(max_size=60), at=st.integers(0, 200))
def test_bad_bytes_are_named(block: SegmentBlock, garbage: bytes, at: int) -> None:
    """Whatever is cut off or put in, there is a block or an error that says what is wrong."""
    value = encode_value(block)
    for key, bad in ((encode_key(block.key), value[:at] + garbage), (garbage, value), (None, value), (garbage, None)):
        with contextlib.suppress(CorruptRecordError):
            assert isinstance(decode_block(key, bad), SegmentBlock)


def test_an_empty_block_is_none() -> None:
    """It has no key."""
    block = SegmentBlock(
        source=TopicPartition("t", 0),
        source_topic_id=TopicId(""),
        target_topic_id=TopicId(""),
        epoch=1,
        segments=(Segment(5, 6, 7, 8),),
        source_next=12,
    )
    empty = encode_value(block)[:10] + bytes(4)
    with pytest.raises(CorruptRecordError, match="segment block of t-0"):
        decode_block(encode_key(block.key), empty)
