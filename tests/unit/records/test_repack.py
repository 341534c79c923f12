"""Records decoded and encoded anew."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError, RecordTooLargeError
from mirror_ray.records.batch import CODECS, Codec, ControlType, RecordBatch, needs_repack, verify
from mirror_ray.records.codecs import compress
from mirror_ray.records.decode import DecodedRecord, control_type, records_of
from mirror_ray.records.repack import compress_batch, repack
from mirror_ray.records.repacked_batch import RepackedBatch
from tests.support.factories import parsed
from tests.unit.records.strategies import Plain, batch_bytes, compressed_bytes, message, nullable, plain_records, varint

pytestmark = pytest.mark.usefixtures("either")

codecs = st.sampled_from(CODECS)
WIDE = 1 << 30


def source_batch(
    records: list[Plain], codec: Codec, attributes: int = 0, max_timestamp: int | None = None
) -> RecordBatch:
    """A batch of these records, as a source might hold it."""
    return parsed(compressed_bytes(records, codec, attributes=attributes, max_timestamp=max_timestamp))


def assert_holds(pieces: list[RepackedBatch], records: list[Plain]) -> None:
    """The pieces are valid batches, dense, with exactly these records in order, and their runs name the offsets."""
    copied = []
    for piece in pieces:
        batch = parsed(piece.batch.view)
        verify(batch)
        assert batch[1:] == piece.batch[1:]
        assert needs_repack(batch, batch.base_offset, WIDE) is None
        decoded = records_of(batch)
        assert [record.offset - batch.base_offset for record in decoded] == list(range(batch.count))
        assert batch.max_timestamp == max(record.timestamp for record in decoded)
        offsets = [start + i for start, length in piece.runs for i in range(length)]
        assert (offsets[0], offsets[-1], len(offsets)) == (piece.source_first, piece.source_last, batch.count)
        copied += [(offset, r.timestamp, *r.fields()) for offset, r in zip(offsets, decoded, strict=True)]
    assert copied == [(r.offset, r.timestamp, *r.body()) for r in records]


@given(plain_records(), codecs)
def test_records_read_back_as_they_were_written(records: list[Plain], codec: Codec) -> None:
    """Offsets, timestamps, keys, values and headers come out of a batch of any codec."""
    decoded = records_of(source_batch(records, codec))
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in decoded] == [
        (r.offset, r.timestamp, *r.body()) for r in records
    ]


@given(plain_records(), codecs, st.data())
def test_repack_keeps_every_record_from_the_offset_on(records: list[Plain], codec: Codec, data: st.DataObject) -> None:
    """Holes close, nothing else of a record changes, and the codec stays."""
    batch = source_batch(records, codec, attributes=0x70)
    from_offset = data.draw(st.integers(records[0].offset, records[-1].offset + 1))
    pieces = repack(batch, from_offset=from_offset, max_batch_bytes=WIDE)
    assert_holds(pieces, [record for record in records if record.offset >= from_offset])
    for piece in pieces:
        assert (piece.batch.codec, piece.batch.attributes & ~7) == (codec, 0)
        assert piece.next_source_offset == batch.next_offset


@given(plain_records(), codecs)
def test_repack_splits_what_is_too_large(records: list[Plain], codec: Codec) -> None:
    """Each piece is within the limit, in order, without loss, and they lead into one another."""
    batch = source_batch(records, codec)
    alone = [source_batch([record], codec).size_bytes for record in records]
    limit = max(alone) + 20
    pieces = repack(batch, from_offset=0, max_batch_bytes=limit)
    assert_holds(pieces, records)
    assert all(piece.batch.size_bytes <= limit for piece in pieces)
    for piece, following in pairwise(pieces):
        assert piece.source_last < piece.next_source_offset <= following.source_first
    assert pieces[-1].next_source_offset == batch.next_offset


def test_a_record_that_is_too_large_alone_is_named() -> None:
    """The error says which source offset, how large and how much is allowed."""
    records = [Plain(offset=7, timestamp=1, value=b"x"), Plain(offset=8, timestamp=1, value=b"x" * 5000)]
    with pytest.raises(RecordTooLargeError, match="source offset 8") as caught:
        repack(source_batch(records, "none"), from_offset=0, max_batch_bytes=1000)
    assert (caught.value.offset, caught.value.max_bytes) == (8, 1000)
    assert caught.value.size_bytes > 5000


@given(plain_records(), codecs, st.integers(0, 1 << 41))
def test_log_append_time_becomes_each_records_own(records: list[Plain], codec: Codec, appended: int) -> None:
    """Consumers of the source see the batch's max timestamp on every record, and so do consumers of the target."""
    batch = source_batch(records, codec, attributes=8, max_timestamp=appended)
    pieces = repack(batch, from_offset=0, max_batch_bytes=WIDE)
    assert [r.timestamp for piece in pieces for r in records_of(piece.batch)] == [appended] * len(records)
    assert not any(piece.batch.is_log_append_time for piece in pieces)


@given(plain_records(), codecs)
def test_recompression_keeps_payload_and_header(records: list[Plain], codec: Codec) -> None:
    """The same records under the new codec; offsets, timestamps and producer fields are untouched."""
    batch = source_batch(records, "none")
    squeezed = compress_batch(batch, codec)
    verify(parsed(squeezed.view))
    assert squeezed.codec == codec
    assert records_of(parsed(squeezed.view)) == records_of(batch)
    assert squeezed._replace(length=0, crc=0, attributes=0)[1:] == batch._replace(length=0, crc=0, attributes=0)[1:]


def test_what_is_compressed_is_not_recompressed() -> None:
    """A batch with a codec keeps it: decoding it is repack's work."""
    with pytest.raises(ValueError, match="only uncompressed"):
        compress_batch(source_batch([Plain(offset=0, timestamp=0)], "gzip"), "zstd")


@pytest.mark.parametrize(("number", "expected"), [(0, "ABORT"), (1, "COMMIT"), (2, "UNKNOWN")])
def test_a_control_batch_says_what_it_is(number: int, expected: str) -> None:
    """The type is the second short of its record's key."""
    marker = Plain(offset=5, timestamp=9, key=struct.pack(">hh", 0, number), value=struct.pack(">hi", 0, 3))
    batch = parsed(batch_bytes([marker], base_offset=5, attributes=0x30))
    assert batch.is_control
    assert control_type(batch) is ControlType[expected]


def test_a_control_batch_that_was_cleaned_away_says_nothing() -> None:
    """An empty control batch is no abort marker."""
    assert control_type(parsed(batch_bytes([], base_offset=5, attributes=0x30))) is ControlType.UNKNOWN


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_compressed_messages_are_unpacked(magic: int, codec: Codec) -> None:
    """Inner offsets are absolute with magic 0 and relative with magic 1, where compaction may have left holes."""
    inner = [0, 1, 3] if magic else [40, 41, 43]
    stamps = [70, 50, 60] if magic else [-1, -1, -1]
    packed = b"".join(
        message(magic, offset, b"v%d" % i, key=None if i else b"k", timestamp=stamps[i])
        for i, offset in enumerate(inner)
    )
    wrapper = message(magic, 43, compress(codec, packed), timestamp=70, attributes=CODECS.index(codec))
    batch = parsed(wrapper)
    verify(batch)
    expected = [
        Plain(offset=offset, timestamp=stamps[i], key=None if i else b"k", value=b"v%d" % i)
        for i, offset in enumerate((40, 41, 43))
    ]
    assert_holds(repack(batch, from_offset=0, max_batch_bytes=WIDE), expected)
    assert_holds(repack(batch, from_offset=41, max_batch_bytes=WIDE), expected[1:])
    assert repack(batch, from_offset=0, max_batch_bytes=WIDE)[0].batch.codec == codec


def test_old_messages_take_the_wrappers_append_time() -> None:
    """A broker that stamps the wrapper leaves the inner timestamps as they were: they don't count."""
    packed = message(1, 0, b"a", timestamp=1) + message(1, 1, None, timestamp=2)
    batch = parsed(message(1, 11, compress("gzip", packed), timestamp=99, attributes=8 | 1))
    assert [(r.offset, r.timestamp, r.value) for r in records_of(batch)] == [(10, 99, b"a"), (11, 99, None)]


@given(st.binary(max_size=200), codecs, st.integers(0, 5), st.booleans())
def test_random_payloads_are_corrupt_and_nothing_else(data: bytes, codec: Codec, count: int, packed: bool) -> None:
    """Whatever stands where records should, decoding ends in records or in CorruptBatchError."""
    records = [Plain(offset=0, timestamp=0)] * count
    batch = parsed(
        batch_bytes(
            records, last_offset=5, attributes=CODECS.index(codec), data=compress(codec, data) if packed else data
        )
    )
    with suppress(CorruptBatchError):
        for record in records_of(batch):
            record.fields()


@given(plain_records(), codecs, st.data())
def test_damaged_payloads_are_corrupt_and_nothing_else(records: list[Plain], codec: Codec, data: st.DataObject) -> None:
    """One changed byte anywhere in a real payload never ends in another exception."""
    batch = source_batch(records, codec)
    batch.view[data.draw(st.integers(61, len(batch.view) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(CorruptBatchError):
        for record in records_of(batch):
            record.fields()


@given(st.binary(max_size=120), st.integers(0, 1), st.integers(0, 15))
def test_random_old_messages_are_corrupt_and_nothing_else(value: bytes, magic: int, attributes: int) -> None:
    """A wrapper around garbage is reported, whatever its attributes say."""
    batch = parsed(message(magic, 3, value, timestamp=1, attributes=attributes))
    with suppress(CorruptBatchError):
        records_of(batch)


def test_records_are_left_out_by_their_source_offsets() -> None:
    """Of a range the end is not included; behind the last piece lies the whole source batch."""
    records = [Plain(offset=offset, timestamp=1, key=None, value=b"%d" % offset) for offset in range(10, 16)]
    (piece,) = repack(source_batch(records, "none"), from_offset=11, max_batch_bytes=WIDE, leave_out=[(12, 14)])
    assert piece.runs == ((11, 1), (14, 2))
    (piece,) = repack(source_batch(records, "none"), from_offset=11, max_batch_bytes=WIDE, leave_out=[(14, 99)])
    assert (piece.runs, piece.source_last, piece.next_source_offset) == (((11, 3),), 13, 16)


@pytest.mark.parametrize(
    "headers",
    [varint(-1), varint(-5), varint(-(1 << 31)), varint(1) + varint(-1) + varint(0)],
    ids=["-1", "-5", "lowest", "nameless"],
)
def test_headers_that_can_not_be_are_refused(headers: bytes) -> None:
    """Fewer than none, and one without a name: Kafka refuses them, too."""
    record = DecodedRecord(7, 0, nullable(b"key") + nullable(b"value") + headers)
    with pytest.raises(CorruptBatchError, match="source offset 7"):
        record.fields()


@pytest.mark.parametrize("offsets", [(4, 4), (4, 3), (-1, 3), (4, (1 << 63) - 1)], ids=str)
def test_old_messages_whose_offsets_can_not_be_are_refused(offsets: tuple[int, int]) -> None:
    """They ascend from 0 on, and something can follow them."""
    batch = parsed(b"".join(message(1, offset, b"v") for offset in offsets))
    with pytest.raises(CorruptBatchError):
        repack(batch, from_offset=0, max_batch_bytes=WIDE)
    with pytest.raises(CorruptBatchError):
        records_of(batch)


def test_a_batch_behind_which_nothing_can_follow_is_refused() -> None:
    """Its last offset is the last that there is: the next one would have more than 64 bits."""
    last = (1 << 63) - 1
    batch = parsed(batch_bytes([Plain(offset=last, timestamp=0)], base_offset=last))
    with pytest.raises(CorruptBatchError, match="64 bits"):
        repack(batch, from_offset=0, max_batch_bytes=WIDE)


@pytest.mark.parametrize("magic", [1, 2])
def test_more_records_than_are_worth_their_memory_are_refused(magic: int) -> None:
    """A hundred bytes of objects for each record of seven are no way around the limit."""
    records = [Plain(offset=offset, timestamp=0, value=None) for offset in range(1000)]
    messages = b"".join(message(1, record.offset, None) for record in records)
    batch = parsed(batch_bytes(records) if magic == 2 else messages)
    assert len(records_of(batch, 192_000)) == 1000
    with pytest.raises(CorruptBatchError, match="999"):
        records_of(batch, 191_999)
