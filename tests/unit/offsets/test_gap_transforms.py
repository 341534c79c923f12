"""Gaps of a map whose records went through transforms: read by the right ones, or told as not exact."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.offsets.gap_scan import GapReader, GapTransforms
from mirror_ray.offsets.map import CountedPair, ExactOffset, OffsetMapStore, PartitionOffsetMap, SegmentGap, SegmentMap
from mirror_ray.records.batch import iter_batches
from mirror_ray.records.segment_block import decode_block, encode_key, encode_value
from mirror_ray.transforms.loading import TransformChains
from tests.support.batches import batch
from tests.support.transforms import THIRD, of_the_third, suffix, transforms

SOURCE = TopicPartition("orders", 0)
STEPS = transforms(THIRD).steps
IDENTITY = TransformChains(STEPS).identity("orders")


def _block(first: int, epoch: int, applied: str, number: int = 0, since: int = 0) -> SegmentBlock:
    return SegmentBlock(
        source=SOURCE,
        source_topic_id=TopicId("s"),
        target_topic_id=TopicId("t"),
        epoch=epoch,
        segments=(Segment(first, number, 0, number),),
        source_next=first,
        transforms=applied,
        transforms_since=since if applied else 0,
    )


def _offset_map(*blocks: SegmentBlock) -> PartitionOffsetMap:
    store = OffsetMapStore()
    for block in blocks:
        assert decode_block(encode_key(block.key), encode_value(block)) == block
        store.apply(block)
    offset_map = store.find(SOURCE)
    assert offset_map is not None
    return offset_map


def _read(offset_map: PartitionOffsetMap, gap: SegmentGap, steps: Sequence[object] = STEPS) -> SegmentMap | str:
    applied = GapTransforms(lambda: TransformChains(steps), lambda text: None)  # type: ignore[arg-type]
    reader = GapReader(gap, read_committed=True, copied=applied.selector(SOURCE, offset_map.transforms, gap))
    data = batch(100, [(n, b"%d" % (100 + n)) for n in range(60)])
    reader.take(iter_batches(memoryview(bytearray(data))), [])
    return reader.finish()


KEPT = [offset for offset in range(100, 160) if of_the_third(b"%d" % offset)]
GAP = SegmentGap(CountedPair(100, 7, 7), CountedPair(160, 7 + len(KEPT), 7 + len(KEPT)))


def test_every_place_in_a_gap_is_known_by_the_transforms() -> None:
    """Of a record that was left out, the next one's."""
    found = _read(_offset_map(_block(90, 1, IDENTITY)), GAP)
    assert isinstance(found, SegmentMap)
    for offset in range(KEPT[-1] + 1):
        wanted = 7 + sum(kept < offset for kept in KEPT)
        assert found.to_target(offset) == ExactOffset(wanted) or offset < 100


@pytest.mark.parametrize(
    ("blocks", "steps"),
    [
        ([_block(90, 1, IDENTITY)], transforms(suffix()).steps),
        ([_block(90, 1, IDENTITY)], ()),
        ([_block(90, 1, IDENTITY)], transforms(("tests.support.transforms:Missing", {})).steps),
        ([_block(90, 1, ""), _block(120, 2, IDENTITY, 9, since=120)], STEPS),
        ([_block(90, 1, IDENTITY), _block(120, 2, "", 9)], STEPS),
    ],
    ids=["others", "none", "not there", "since later", "not any more"],
)
def test_other_transforms_than_made_the_records_tell_nothing(
    blocks: Sequence[SegmentBlock], steps: Sequence[object]
) -> None:
    """Then all records are counted, which does not come out: the place is not exact, and never a wrong one."""
    assert _read(_offset_map(*blocks), GAP, steps) == (
        f"of {len(KEPT)} records that were copied between source offsets 100 and 160, 60 are there: transforms left "
        "some out"
    )


def test_what_nobody_told_before_is_read_all_the_same() -> None:
    """Replicators that were killed before they told anything: the next one says since when the transforms hold."""
    assert isinstance(_read(_offset_map(_block(160, 3, IDENTITY, 9)), GAP), SegmentMap)
    assert isinstance(_read(_offset_map(_block(160, 3, IDENTITY, 9, since=101)), GAP), str)
