"""Batches that somebody has changed, to the kernel and to its reference: both refuse them, or find the same records."""

from __future__ import annotations

import struct
import time
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError, IncompleteBatchError, RecordTooLargeError
from mirror_ray.records import kernel
from mirror_ray.records.batch import CODECS, Codec, RecordBatch, iter_batches, verify
from mirror_ray.records.codecs import DECOMPRESSED_LIMIT_BYTES, compress
from mirror_ray.records.repack import repack
from mirror_ray.records.repacked_batch import RepackedBatch
from tests.support.factories import parsed
from tests.support.fuzzing import EDITS, Edit, edited, fuzzing
from tests.support.kernels import needs_kernel, without_kernel
from tests.unit.records.strategies import Plain, batch_bytes, message, payload, plain_records
from tests.unit.records.test_hostile_batches import ATTRIBUTES, a_batch, signed

pytestmark = needs_kernel

#: 32 MB of zeros in all codecs, eight times and one more: over the limit.
PIECE = bytes(32 << 20)
TIMES = DECOMPRESSED_LIMIT_BYTES // len(PIECE) + 1


def outcome(batch: RecordBatch, max_batch_bytes: int, *, native: bool) -> list[tuple[object, ...]] | str:
    """The pieces that one of the two makes, or the error."""
    with nullcontext() if native else without_kernel():
        try:
            pieces = repack(batch, from_offset=batch.base_offset, max_batch_bytes=max_batch_bytes, codec="none")
        except (CorruptBatchError, RecordTooLargeError) as error:
            return type(error).__name__
    return [essence(piece) for piece in pieces]


def essence(piece: RepackedBatch) -> tuple[object, ...]:
    """All that counts of a piece."""
    return bytes(piece.batch.view), piece.runs, piece.next_source_offset, piece.source_epoch


def check(data: bytes | bytearray, max_batch_bytes: int = 1 << 20) -> None:
    """Both say the same of every batch in ``data`` whose checksum fits."""
    try:
        batches = iter_batches(memoryview(bytearray(data)))
    except (CorruptBatchError, IncompleteBatchError):
        return
    for batch in batches:
        try:
            verify(batch)
        except CorruptBatchError:
            continue
        began_s = time.process_time()
        made = outcome(batch, max_batch_bytes, native=True)
        assert time.process_time() - began_s < 2
        assert made == outcome(batch, max_batch_bytes, native=False)


@fuzzing(200)
@given(plain_records(), st.sampled_from(CODECS), st.sampled_from((0, 1, 2, 2, 2)), ATTRIBUTES, EDITS)
def test_both_say_the_same_of_changed_batches(
    records: list[Plain], codec: Codec, magic: int, attributes: int, edits: list[Edit]
) -> None:
    """Headers, messages and what is compressed."""
    check(signed(edited(a_batch(records, codec, magic, attributes), edits), magic))


@fuzzing(200)
@given(plain_records(), st.sampled_from(CODECS), EDITS, st.sampled_from((200, 1 << 20)))
def test_both_say_the_same_of_changed_records(
    records: list[Plain], codec: Codec, edits: list[Edit], max_batch_bytes: int
) -> None:
    """They are changed before they are compressed: the decoder sees all changes."""
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    data = compress(codec, edited(payload(records, base_offset, base_timestamp), edits))
    number = CODECS.index(codec)
    check(
        batch_bytes(records, base_offset=base_offset, base_timestamp=base_timestamp, attributes=number, data=data),
        max_batch_bytes,
    )


@fuzzing(100)
@given(plain_records(), st.sampled_from(("gzip", "snappy", "lz4")), st.sampled_from((0, 1)), EDITS)
def test_both_say_the_same_of_changed_messages_in_wrappers(
    records: list[Plain], codec: Codec, magic: int, edits: list[Edit]
) -> None:
    """Inner offsets, magics and sizes."""
    inner = b"".join(message(magic, at, record.value, key=record.key) for at, record in enumerate(records))
    check(message(magic, len(records), compress(codec, edited(inner, edits)), attributes=CODECS.index(codec)))


EDGES = st.sampled_from((0, 1, -1, 1 << 31, (1 << 63) - 1, (1 << 63) - 2, -(1 << 63), -(1 << 63) + 1))


@fuzzing(150)
@given(EDGES, EDGES, EDGES, st.lists(st.tuples(EDGES, st.integers(-1, 3)), max_size=4), ATTRIBUTES)
def test_both_say_the_same_of_numbers_at_the_edges(
    base_offset: int, base_timestamp: int, max_timestamp: int, deltas: list[tuple[int, int]], attributes: int
) -> None:
    """Sums of them have more than 64 bits."""
    records = [Plain(offset=offset, timestamp=timestamp) for timestamp, offset in deltas]
    data = payload(records, 0, 0)
    batch = batch_bytes(
        [], base_offset=base_offset, base_timestamp=base_timestamp, max_timestamp=max_timestamp, data=data
    )
    struct.pack_into(">h", batch, 21, attributes)
    struct.pack_into(">i", batch, 23, 3)
    struct.pack_into(">i", batch, 57, len(records))
    check(signed(bytes(batch), 2))


@fuzzing(100)
@given(EDGES, st.lists(EDGES, min_size=1, max_size=3), st.sampled_from((0, 1)), st.sampled_from((1, 9)))
def test_both_say_the_same_of_old_offsets_at_the_edges(
    outer: int, offsets: list[int], magic: int, attributes: int
) -> None:
    """Offsets inside a wrapper are counted from one that follows from the last one's."""
    inner = b"".join(message(magic, offset, b"v") for offset in offsets)
    check(message(magic, outer, compress("gzip", inner), attributes=attributes))
    check(inner)


def bomb(codec: Codec) -> bytes:
    """A payload of few bytes that unpacks to more than the limit."""
    piece = compress(codec, PIECE)
    match codec:
        case "snappy":
            return piece[:16] + piece[16:] * TIMES
        case "lz4":
            return piece[:7] + piece[7:-4] * TIMES + bytes(4)
    return piece * TIMES


@pytest.mark.parametrize("codec", CODECS[1:])
def test_bombs_are_refused(codec: Codec) -> None:
    """By name, before they are unpacked whole."""
    batch = parsed(batch_bytes([Plain(offset=0, timestamp=0)], attributes=CODECS.index(codec), data=bomb(codec)))
    with pytest.raises(CorruptBatchError):
        kernel.repack_batches([batch], codec="zstd", merge_bytes=0, max_batch_bytes=1 << 20, from_offset=0)
    with pytest.raises(CorruptBatchError):
        kernel.recompress(batch, "zstd")


def test_both_refuse_more_records_than_are_worth_their_memory() -> None:
    """Each of them may be a run of its own, of a hundred bytes in Python."""
    count = DECOMPRESSED_LIMIT_BYTES // 192 + 1
    data = bytearray(batch_bytes([], last_offset=count, data=b"\x06\x00\x00\x00" * count))
    struct.pack_into(">i", data, 57, count)
    batch = parsed(signed(bytes(data), 2))
    for which in (nullcontext(), without_kernel()):
        with which, pytest.raises(CorruptBatchError, match=f"more than {count - 1} are not decoded"):
            repack(batch, from_offset=0, max_batch_bytes=1 << 20)
