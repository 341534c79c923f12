"""The record kernel makes of batches what its Python reference makes of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError, RecordTooLargeError
from mirror_ray.records import kernel
from mirror_ray.records.batch import CODECS, HEADER_BYTES, Codec, RecordBatch, verify
from mirror_ray.records.codecs import compress, decompress
from mirror_ray.records.decode import DecodedRecord, records_from, records_of
from mirror_ray.records.repack import compress_batch, encode, pack, repack
from mirror_ray.records.repacked_batch import RepackedBatch
from mirror_ray.replication import merge_rules
from tests.support.factories import parsed
from tests.support.kernels import needs_kernel, without_kernel
from tests.unit.records.strategies import Plain, compressed_bytes, message, plain_records

pytestmark = needs_kernel

WIDE = 1 << 30
codecs = st.sampled_from(CODECS)
#: LogAppendTime, transactional, with a delete horizon, and together.
ATTRIBUTES = st.sampled_from((0, 8, 16, 64, 8 | 16 | 64))


def with_epoch(data: bytearray, epoch: int) -> RecordBatch:
    """A batch that was appended in a leader epoch."""
    struct.pack_into(">i", data, 12, epoch)
    return parsed(data)


def old_batch(records: list[Plain], codec: Codec, magic: int, attributes: int) -> RecordBatch:
    """Messages of magic 0 or 1, compressed ones in a wrapper with the last one's offset."""
    first, last = records[0].offset, records[-1].offset
    inner = b"".join(
        message(
            magic,
            record.offset - (first if magic and codec != "none" else 0),
            record.value,
            key=record.key,
            timestamp=record.timestamp,
        )
        for record in records
    )
    if codec == "none":
        return parsed(inner)
    return parsed(
        message(magic, last, compress(codec, inner), timestamp=9, attributes=attributes | CODECS.index(codec))
    )


@st.composite
def logs(draw: st.DrawFn) -> list[RecordBatch]:
    """Batches of any kind that follow each other, as a source holds them."""
    batches: list[RecordBatch] = []
    offset, epoch = draw(st.integers(0, 1 << 40)), draw(st.integers(0, 3))
    for drawn in draw(st.lists(plain_records(), min_size=1, max_size=5)):
        offset += draw(st.integers(0, 2))
        epoch += draw(st.integers(0, 1))
        records = [replace(record, offset=record.offset - drawn[0].offset + offset) for record in drawn]
        codec, magic = draw(codecs), draw(st.sampled_from((0, 1, 2, 2, 2)))
        if magic == 2:
            batches.append(with_epoch(compressed_bytes(records, codec, attributes=draw(ATTRIBUTES)), epoch))
        else:
            batches.append(
                old_batch(records, "gzip" if codec == "zstd" else codec, magic, draw(st.sampled_from((0, 8))))
            )
        offset = batches[-1].next_offset
    return batches


holes = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), max_size=2)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[RecordBatch], int, list[tuple[int, int]]]:
    """A log, from which offset on its records are wanted, and which of them are left out."""
    batches = draw(logs())
    first = records_of(batches[0])[0].offset
    leave_out = [(first + at, first + at + length) for at, length in draw(holes)]
    return batches, first + draw(st.sampled_from((0, 0, 0, 1, 5, 20))), leave_out


def payload_bytes(batch: RecordBatch) -> int:
    """Of a batch's records, unpacked; of messages as they are."""
    return len(decompress(batch.codec, batch.view[HEADER_BYTES:])) if batch.magic == 2 else batch.size_bytes


def merged_by_reference(
    batches: Sequence[RecordBatch],
    codec: Codec,
    merge_bytes: int,
    max_batch_bytes: int,
    from_offset: int,
    leave_out: Sequence[tuple[int, int]],
) -> list[RepackedBatch]:
    """What merging is, said in Python: whole batches of one leader epoch as long as they fit."""
    pieces: list[RepackedBatch] = []
    records: list[DecodedRecord] = []
    last = batches[0]

    def end() -> None:
        pieces.extend(pack(records, last, max_batch_bytes=max_batch_bytes, codec=codec))
        records.clear()

    for batch in batches:
        have = encode(records, "none").size_bytes - HEADER_BYTES if records else 0
        other_epoch = batch.partition_leader_epoch != last.partition_leader_epoch
        if records and (have + payload_bytes(batch) > merge_bytes or other_epoch):
            end()
        records += records_from(batch, from_offset, leave_out)
        last = batch
    end()
    return pieces


def essence(piece: RepackedBatch) -> RepackedBatch:
    """Without what the reference does not know, or shares out otherwise."""
    return replace(piece, uncompressed_bytes=0, source_bytes=0, ages=())


def unpacked(piece: RepackedBatch) -> bytes:
    """The records' bytes."""
    return decompress(piece.batch.codec, piece.batch.view[HEADER_BYTES:])


@given(cases(), st.sampled_from((0, 300, 3000, WIDE)))
def test_merged_batches_have_the_references_bytes(
    case: tuple[list[RecordBatch], int, list[tuple[int, int]]], merge_bytes: int
) -> None:
    """Byte by byte: bounds, offsets, timestamps, runs, next offsets and leader epochs."""
    batches, from_offset, leave_out = case
    made = kernel.repack_batches(
        batches,
        codec="none",
        merge_bytes=merge_bytes,
        max_batch_bytes=WIDE,
        from_offset=from_offset,
        leave_out=leave_out,
    )
    wanted = merged_by_reference(batches, "none", merge_bytes, WIDE, from_offset, leave_out)
    assert [essence(piece) for piece in made] == [essence(piece) for piece in wanted]
    for piece in made:
        verify(piece.batch)
        assert piece.uncompressed_bytes == piece.batch.size_bytes


@pytest.mark.parametrize(("spare_bytes", "expected"), [(0, [4, 2]), (-1, [2, 2, 2]), (1, [4, 2])])
def test_a_merged_batch_takes_what_fits(spare_bytes: int, expected: list[int]) -> None:
    """To the byte, by the sizes of what was produced; a batch that is larger alone stays whole."""
    plain = [[Plain(offset=at, timestamp=1), Plain(offset=at + 1, timestamp=1)] for at in (0, 2, 4)]
    batches = [parsed(compressed_bytes(records, "none")) for records in plain]
    merge_bytes = 2 * payload_bytes(batches[0]) + spare_bytes
    for room, counts in ((merge_bytes, expected), (0, [2, 2, 2])):
        made = kernel.repack_batches(
            batches, codec="none", merge_bytes=room, max_batch_bytes=WIDE, from_offset=0, leave_out=()
        )
        assert [piece.batch.count for piece in made] == counts


@given(cases(), st.integers(150, 2000), st.sampled_from((0, 3000)))
def test_divided_batches_have_the_references_bytes(
    case: tuple[list[RecordBatch], int, list[tuple[int, int]]], above: int, merge_bytes: int
) -> None:
    """Where the whole is too large for the target, the same halves are made of it."""
    batches, from_offset, leave_out = case
    largest = max(encode([record], "none").size_bytes for batch in batches for record in records_of(batch))
    limit = max(above, largest + 20)
    made = kernel.repack_batches(
        batches,
        codec="none",
        merge_bytes=merge_bytes,
        max_batch_bytes=limit,
        from_offset=from_offset,
        leave_out=leave_out,
    )
    wanted = merged_by_reference(batches, "none", merge_bytes, limit, from_offset, leave_out)
    assert [essence(piece) for piece in made] == [essence(piece) for piece in wanted]


@given(cases(), st.sampled_from(CODECS[1:]), st.sampled_from((0, 300, WIDE)))
def test_compressed_batches_unpack_to_the_references_bytes(
    case: tuple[list[RecordBatch], int, list[tuple[int, int]]], codec: Codec, merge_bytes: int
) -> None:
    """The compressed bytes may be others; the header and all that they unpack to are not."""
    batches, from_offset, leave_out = case
    made = kernel.repack_batches(
        batches,
        codec=codec,
        merge_bytes=merge_bytes,
        max_batch_bytes=WIDE,
        from_offset=from_offset,
        leave_out=leave_out,
    )
    wanted = merged_by_reference(batches, codec, merge_bytes, WIDE, from_offset, leave_out)
    assert [unpacked(piece) for piece in made] == [unpacked(piece) for piece in wanted]
    for piece, other in zip(made, wanted, strict=True):
        verify(piece.batch)
        assert piece.uncompressed_bytes == HEADER_BYTES + len(unpacked(piece))
        headers = [p.batch._replace(view=memoryview(b""), length=0, crc=0) for p in (piece, other)]
        assert headers[0] == headers[1]
        assert replace(essence(piece), batch=other.batch) == essence(other)


@given(logs(), st.sampled_from(CODECS[1:]), st.sampled_from((0, 3000)))
def test_divided_compressed_batches_keep_every_record(
    batches: list[RecordBatch], codec: Codec, merge_bytes: int
) -> None:
    """Where they are cut depends on how well they compress: all that is wanted is there, in order, within the limit."""
    records = [record for batch in batches for record in records_of(batch)]
    limit = max(encode([record], codec).size_bytes for record in records) + 60
    made = kernel.repack_batches(
        batches, codec=codec, merge_bytes=merge_bytes, max_batch_bytes=limit, from_offset=0, leave_out=()
    )
    offsets = [first + number for piece in made for first, count in piece.runs for number in range(count)]
    assert offsets == [record.offset for record in records]
    copied = [(r.timestamp, r.tail) for piece in made for r in records_of(piece.batch)]
    assert copied == [(r.timestamp, r.tail) for r in records]
    assert all(piece.batch.size_bytes <= limit for piece in made)


@given(logs())
def test_what_a_batch_was_made_of_is_told(batches: list[RecordBatch]) -> None:
    """Bytes on the source add up, and so do records by age."""
    made = kernel.repack_batches(batches, codec="none", merge_bytes=2000, max_batch_bytes=WIDE, from_offset=0)
    assert sum(piece.source_bytes for piece in made) == sum(batch.size_bytes for batch in batches)
    for piece in made:
        assert sum(count for _, count in piece.ages) == piece.batch.count
        assert max(newest for newest, _ in piece.ages) == piece.batch.max_timestamp


@given(plain_records(), codecs)
def test_recompressed_batches_unpack_to_the_references_bytes(records: list[Plain], codec: Codec) -> None:
    """Header and payload stay; the codec is the only change."""
    batch = parsed(compressed_bytes(records, "none", attributes=0x58))
    made = compress_batch(batch, codec)
    with without_kernel():
        wanted = compress_batch(batch, codec)
    assert made._replace(view=made.view[:0], length=0, crc=0) == wanted._replace(view=made.view[:0], length=0, crc=0)
    parts = [decompress(codec, one.view[HEADER_BYTES:]) for one in (made, wanted)]
    assert parts[0] == parts[1]
    verify(made)


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_that_is_too_large_alone_is_named_alike(codec: Codec) -> None:
    """By its offset and the limit, whichever of the two refuses it."""
    noise = b"".join(struct.pack(">I", number * 2654435761 % (1 << 32)) for number in range(1500))
    records = [Plain(offset=7, timestamp=1), Plain(offset=8, timestamp=1, value=noise)]
    batch = parsed(compressed_bytes(records, codec))
    with pytest.raises(RecordTooLargeError) as made:
        repack(batch, from_offset=0, max_batch_bytes=1000)
    with without_kernel(), pytest.raises(RecordTooLargeError) as wanted:
        repack(batch, from_offset=0, max_batch_bytes=1000)
    assert (made.value.offset, made.value.max_bytes) == (wanted.value.offset, wanted.value.max_bytes) == (8, 1000)


def test_nothing_comes_of_nothing() -> None:
    """No batches, or none of whose records is wanted."""
    batch = parsed(compressed_bytes([Plain(offset=3, timestamp=1)], "none"))
    assert not kernel.repack_batches([], codec="none", merge_bytes=0, max_batch_bytes=WIDE, from_offset=0)
    assert not kernel.repack_batches([batch], codec="none", merge_bytes=0, max_batch_bytes=WIDE, from_offset=4)


def test_what_is_merged_has_a_common_bound() -> None:
    """Many batches of a few KB each may unpack to a hundred times that; they are not all unpacked."""
    bomb = parsed(compressed_bytes([Plain(offset=0, timestamp=0, value=bytes(30 << 20))], "zstd"))
    assert bomb.size_bytes < merge_rules.LARGEST_SMALL_BYTES["zstd"]
    with pytest.raises(CorruptBatchError, match="together they unpack to more than"):
        kernel.repack_batches([bomb] * 10, codec="zstd", merge_bytes=512 << 10, max_batch_bytes=1 << 20, from_offset=0)


def test_a_batch_that_does_not_parse_spoils_the_merge() -> None:
    """None of the others is copied without it."""
    good = parsed(compressed_bytes([Plain(offset=3, timestamp=1)], "none"))
    bad = parsed(compressed_bytes([Plain(offset=4, timestamp=1)], "none"))
    bad.view[HEADER_BYTES] = 90
    with pytest.raises(CorruptBatchError, match="source offset 4"):
        kernel.repack_batches([good, bad], codec="none", merge_bytes=WIDE, max_batch_bytes=WIDE, from_offset=0)


def test_without_the_kernel_it_is_told() -> None:
    """Where it was not built, or is switched off."""
    assert kernel.is_available()
    with without_kernel():
        assert not kernel.is_available()
