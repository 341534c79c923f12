"""A gap read from the source: every place in it is the very one, or none is said."""

from __future__ import annotations

from mirror_ray.offsets.gap_scan import GapReader
from mirror_ray.offsets.map import CountedPair, ExactOffset, SegmentGap, SegmentMap
from mirror_ray.records.batch import RecordBatch, iter_batches
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode
from tests.support import batches

AFTER, BEFORE = CountedPair(100, 50, 50), CountedPair(130, 60, 60)


def batch(offsets: range) -> RecordBatch:
    """Records at these offsets."""
    return encode([DecodedRecord(offset, 1, record_tail(None, b"%d" % offset, ())) for offset in offsets], "none")


def read(*batches: range) -> SegmentMap | str:
    """What is said of a gap with these records."""
    reader = GapReader(SegmentGap(AFTER, BEFORE), read_committed=True)
    reader.take([batch(numbers) for numbers in batches], ())
    return reader.finish()


def test_every_place_in_a_gap_is_known() -> None:
    """Also before its first record, where a marker or an aborted transaction lies, between and behind."""
    found = read(range(95, 98), range(105, 110), range(115, 120), range(130, 133))
    assert isinstance(found, SegmentMap)
    assert [found.to_target(offset) for offset in (100, 104, 105, 109, 110, 115, 119)] == [
        ExactOffset(offset) for offset in (50, 50, 50, 54, 55, 55, 59)
    ]


def test_a_cleaned_source_says_nothing() -> None:
    """It holds fewer records than were copied."""
    assert read(range(105, 110)) == (
        "of 10 records that were copied between source offsets 100 and 130, 5 are there: the source was cleaned"
    )


def test_where_others_wrote_between_nothing_is_said() -> None:
    """There are as many records as were copied, but not where each of them is."""
    reader = GapReader(SegmentGap(AFTER, CountedPair(130, 70, 60)), read_committed=True)
    reader.take([batch(range(105, 115))], ())
    assert reader.finish() == "others wrote between target offsets 50 and 70"


def test_aborted_records_are_not_in_it() -> None:
    """They were not copied; who reads all has them."""
    data = batches.batch(100, [(n, b"aborted") for n in range(5)], producer_id=7, attributes=0x10)
    data += batches.marker(105, 7, commit=False) + batches.batch(110, [(n, b"copied") for n in range(10)])
    for read_committed in (True, False):
        reader = GapReader(SegmentGap(AFTER, BEFORE), read_committed=read_committed)
        reader.take(iter_batches(memoryview(bytearray(data))), [(7, 100)])
        assert isinstance(reader.finish(), SegmentMap) == read_committed


def test_the_record_at_its_end_is_not_in_it() -> None:
    """Of a batch that reaches over the end, and has holes."""
    kept = [(0, b"before"), *((delta, b"inside") for delta in range(20, 30)), (50, b"at its end"), (51, b"behind")]
    reader = GapReader(SegmentGap(AFTER, BEFORE), read_committed=True)
    reader.take(iter_batches(memoryview(bytearray(batches.batch(80, kept)))), ())
    assert isinstance(reader.finish(), SegmentMap)
