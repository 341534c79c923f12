"""Groups that stand before the takeover: placed by MM2's pairs, never ahead of what they have read."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.offsets.gap_scan import others_wrote
from mirror_ray.offsets.map import OffsetMapStore, SegmentGap
from mirror_ray.offsets.translation import Translation, answer
from mirror_ray.records.mm2_records import OffsetSyncRecord
from mirror_ray.records.segment_block import decode_block, encode_key, encode_value
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.takeover.mm2_offset_syncs import ascending_pairs, blocks
from tests.support.mm2_syncs import emitted

SOURCE = TopicPartition("t", 0)


def record_at(source_offset: int, target_offset: int) -> PartitionRecord:
    """What a takeover writes."""
    return PartitionRecord(
        source_topic_id=TopicId("s"),
        target_topic="A.t",
        target_topic_id=TopicId("t"),
        source_offset=source_offset,
        target_offset=target_offset,
    )


def syncs_of(pairs: Sequence[tuple[int, int]]) -> list[OffsetSyncRecord]:
    """As they are in MM2's topic."""
    return [OffsetSyncRecord(partition=SOURCE, upstream_offset=here, downstream_offset=there) for here, there in pairs]


def book_after(record: PartitionRecord, pairs: list[tuple[int, int]], copied: int) -> OffsetMapStore:
    """The flow's map when it has copied some records since."""
    store = OffsetMapStore()
    for block in blocks(SOURCE, record, pairs, 0):
        store.apply(decode_block(encode_key(block.key), encode_value(block)))
    begin = Segment(record.source_offset, record.target_offset, 0, record.target_offset)
    grown = [begin] if not copied else [begin._replace(length=copied)]
    store.apply(
        SegmentBlock(
            source=SOURCE,
            source_topic_id=record.source_topic_id,
            target_topic_id=record.target_topic_id,
            epoch=1,
            segments=tuple(grown),
            source_next=record.source_offset + copied,
        )
    )
    return store


def place_of(store: OffsetMapStore, offset: int) -> Translation | int:
    """The answer; or the lower bound, where it lies between two pairs, which must be told without reading."""
    offset_map = store.find(SOURCE)
    assert offset_map is not None
    found = answer(offset_map.segments, offset, back=False)
    if isinstance(found, SegmentGap):
        assert others_wrote(found) is not None
        return found.after.target
    return found


def test_between_pairs() -> None:
    """MM2's pairs are exact themselves; between them the one before holds; from the takeover on all is exact."""
    store = book_after(record_at(1000, 1005), [(100, 100), (300, 302)], 50)
    assert place_of(store, 100) == Translation(offset=100)
    assert place_of(store, 300) == Translation(offset=302)
    assert place_of(store, 250) == 101
    assert place_of(store, 999) == 303
    assert place_of(store, 99) == 0
    assert place_of(store, 1000) == Translation(offset=1005)
    assert place_of(store, 1020) == Translation(offset=1025)


def test_without_pairs() -> None:
    """Where MM2 told of none, a group before the takeover reads the remote partition from its start."""
    store = book_after(record_at(1000, 1000), [], 50)
    assert place_of(store, 999) == 0
    assert place_of(store, 1000) == Translation(offset=1000)


def test_the_chain() -> None:
    """Where MM2 copied again, the newer pairs count; none from behind the takeover, or before an older one."""
    syncs = syncs_of([(0, 0), (100, 100), (200, 200), (150, 260), (250, 360), (900, 300), (400, 500)])
    assert ascending_pairs(syncs, OffsetPair(0, 0), OffsetPair(400, 510)) == [
        (0, 0),
        (100, 100),
        (150, 260),
        (250, 360),
    ]
    assert ascending_pairs(syncs, OffsetPair(120, 120), OffsetPair(401, 501)) == [(150, 260), (250, 360), (400, 500)]


def test_many_pairs() -> None:
    """They are thinned, in several blocks, and the newest are all there."""
    pairs = [(10 * n, 10 * n + 3) for n in range(5000)]
    published = list(blocks(SOURCE, record_at(60_000, 60_003), pairs, 4))
    assert 3 < len(published) < 20
    assert all(block.epoch == 4 for block in published)
    sources = [segment.source for block in published for segment in block.segments]
    assert sources[0] == 0
    assert sources[-101:] == [*range(49_000, 50_000, 10), 60_000]


@given(st.data())
def test_never_ahead(data: st.DataObject) -> None:
    """Whatever MM2 did: holes in the source, runs copied again, pairs lost, markers on the target."""
    steps = data.draw(st.lists(st.integers(1, 4), min_size=3, max_size=40))
    offsets = [sum(steps[: n + 1]) for n in range(len(steps))]
    lives = data.draw(st.lists(st.tuples(st.integers(0, len(offsets) - 1), st.integers(0, len(offsets))), max_size=3))
    target: list[int | None] = []
    pairs: list[OffsetSyncRecord] = []
    top = 0
    for first, last in [*lives, (0 if not lives else min(top for top, _ in lives), len(offsets))]:
        copied = []
        for offset in offsets[min(first, top) : last]:
            if data.draw(st.integers(0, 9)) == 0:
                target.append(None)
            copied.append((offset, len(target)))
            target.append(offset)
        top = max(top, last)
        pairs += emitted(SOURCE, copied, lag_max=data.draw(st.integers(1, 5)))
    kept = [sync for sync in pairs if data.draw(st.booleans())]
    record = record_at(offsets[-1] + 1, len(target))
    store = book_after(record, ascending_pairs(kept, OffsetPair(0, 0), record.pair), 5)
    for offset in range(offsets[-1] + 2):
        place = place_of(store, offset)
        there = place if isinstance(place, int) else place.offset
        assert there is not None
        wanted = {later for later in offsets if later >= offset}
        assert wanted <= set(target[there:])
