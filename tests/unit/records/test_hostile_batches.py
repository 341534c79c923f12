"""Batches that somebody has changed, and signed: nothing but the room's errors comes of them, and soon."""

from __future__ import annotations

import struct
import time
import zlib
from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError, IncompleteBatchError, RecordTooLargeError
from mirror_ray.records.batch import CODEC_MASK, CODECS, Codec, iter_batches, verify
from mirror_ray.records.codecs import compress
from mirror_ray.records.decode import control_type, records_of
from mirror_ray.records.repack import compress_batch, repack
from tests.support.fuzzing import EDITS, Edit, edited, fuzzing
from tests.unit.records.strategies import Plain, batch_bytes, compressed_bytes, message, payload, plain_records

LIMIT_BYTES = 4 << 20
ATTRIBUTES = st.sampled_from((0, 8, 16, 32, 48, 64))


def signed(data: bytes, magic: int) -> bytes:
    """With its length and checksum made right, as whoever changes a log can."""
    made = bytearray(data)
    if len(made) > 61 and magic == 2:
        made[16] = 2
        struct.pack_into(">i", made, 8, len(made) - 12)
        struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    elif len(made) > 26 and magic != 2:
        struct.pack_into(">i", made, 8, len(made) - 12)
        struct.pack_into(">I", made, 12, zlib.crc32(bytes(made[16:])))
    return bytes(made)


def a_batch(records: list[Plain], codec: Codec, magic: int, attributes: int) -> bytes:
    """One as a broker has it."""
    if magic == 2:
        return bytes(compressed_bytes(records, codec, attributes=attributes))
    inner = b"".join(message(magic, i, record.value, key=record.key) for i, record in enumerate(records))
    if codec in {"none", "zstd"}:
        return inner
    return message(magic, len(records), compress(codec, inner), attributes=CODECS.index(codec))


def use(data: bytes) -> None:
    """All that is done with the batches of a log."""
    for batch in iter_batches(memoryview(bytearray(data))):
        verify(batch)
        for record in records_of(batch, LIMIT_BYTES):
            record.fields()
        if batch.is_control:
            control_type(batch)
        if not batch.is_empty:
            repack(batch, from_offset=batch.base_offset, max_batch_bytes=1 << 20)
        if batch.magic == 2 and not batch.attributes & CODEC_MASK:
            compress_batch(batch, "gzip")


@fuzzing(80)
@given(plain_records(), st.sampled_from(CODECS), st.sampled_from((0, 1, 2, 2, 2)), ATTRIBUTES, EDITS, st.booleans())
def test_changed_batches_are_corrupt_and_nothing_else(
    records: list[Plain], codec: Codec, magic: int, attributes: int, edits: list[Edit], sign: bool
) -> None:
    """Whether their checksum shows it or not."""
    data = edited(a_batch(records, codec, magic, attributes), edits)
    began_s = time.process_time()
    with suppress(CorruptBatchError, IncompleteBatchError, RecordTooLargeError):
        use(signed(data, magic) if sign else data)
    assert time.process_time() - began_s < 2


@fuzzing(60)
@given(plain_records(), st.sampled_from(CODECS[1:]), EDITS)
def test_changed_payloads_are_corrupt_and_nothing_else(records: list[Plain], codec: Codec, edits: list[Edit]) -> None:
    """What is changed is what was compressed, or before it was."""
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    data = compress(codec, edited(payload(records, base_offset, base_timestamp), edits))
    number = CODECS.index(codec)
    whole = batch_bytes(records, base_offset=base_offset, base_timestamp=base_timestamp, attributes=number, data=data)
    with suppress(CorruptBatchError, RecordTooLargeError):
        use(bytes(whole))


@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers_share_one_limit(magic: int) -> None:
    """Ten compressed messages in one run don't unpack to ten times the limit."""
    inner = message(magic, 0, bytes(1 << 20))
    run = message(magic, 0, compress("gzip", inner), attributes=1) * 10
    (batch,) = iter_batches(memoryview(bytearray(run)))
    with pytest.raises(CorruptBatchError, match="does not unpack within"):
        records_of(batch, LIMIT_BYTES)
