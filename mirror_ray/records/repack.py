"""New batches for what can't be passed on as it is: records decoded, offsets made dense, encoded with the same codec.

Also recompression, which gives an uncompressed batch a codec without decoding a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from crc32c import crc32c

from mirror_ray.model.errors import RecordTooLargeError
from mirror_ray.records import kernel
from mirror_ray.records.batch import CODEC_MASK, CODECS, HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, Codec, RecordBatch
from mirror_ray.records.codecs import compress
from mirror_ray.records.decode import DecodedRecord, records_from, wrap_int64, write_varint
from mirror_ray.records.repacked_batch import RepackedBatch

#: What is put into a batch of its own: see ``repack``.
Apart = Literal["no", "records", "runs"]

_CRC_AT: Final = 17
_CRC_FROM: Final = 21
#: Encoded non-negative numbers: most lengths, timestamp deltas and offset deltas are looked up here.
_VARINTS: Final = tuple(write_varint(number) for number in range(4096))


def repack(
    batch: RecordBatch,
    *,
    from_offset: int,
    max_batch_bytes: int,
    codec: Codec | None = None,
    leave_out: Sequence[tuple[int, int]] = (),
    apart: Apart = "no",
) -> list[RepackedBatch]:
    """Encode the records of a verified batch again, as v2 batches that a broker accepts from an idempotent producer.

    Args:
        batch: Of any magic, no control batch.
        from_offset: Records before it are left out.
        max_batch_bytes: The target topic's ``max.message.bytes``; batches over it are split.
        codec: The new batches' codec, by default the source's.
        leave_out: Ranges of source offsets, the end not included, whose records are left out.
        apart: What is put into a batch of its own: each of the ``records``, or each of the ``runs`` without an offset
            gap.

    Returns:
        The new batches in order; none when no record is at or behind ``from_offset``. Of a LogAppendTime batch every
        record gets the timestamp that consumers of the source see.

    Raises:
        CorruptBatchError: The batch does not parse.
        RecordTooLargeError: A record alone is over ``max_batch_bytes``.
    """
    if kernel.is_available() and apart != "records":
        repacked = kernel.repack_batches(
            [batch],
            codec=codec or batch.codec,
            merge_bytes=0,
            max_batch_bytes=max_batch_bytes,
            from_offset=from_offset,
            leave_out=leave_out,
        )
        if apart == "no" or all(len(part.runs) == 1 for part in repacked):
            return repacked
    records = records_from(batch, from_offset, leave_out)
    return pack(records, batch, max_batch_bytes=max_batch_bytes, codec=codec, apart=apart)


def pack(
    records: Sequence[DecodedRecord],
    batch: RecordBatch,
    *,
    max_batch_bytes: int,
    codec: Codec | None = None,
    apart: Apart = "no",
) -> list[RepackedBatch]:
    """Encode ``records``, all that the target is to get of ``batch``, as ``repack`` does.

    Raises:
        RecordTooLargeError: A record alone is over ``max_batch_bytes``.
    """
    if not records:
        return []
    pieces = [
        piece
        for group in _groups(records, apart)
        for piece in _encode_split(group, codec or batch.codec, max_batch_bytes)
    ]
    ends = [piece[-1].offset + 1 for piece, _ in pieces]
    ends[-1] = max(ends[-1], batch.next_offset)
    return [
        RepackedBatch(
            batch=encoded,
            source_first=piece[0].offset,
            source_last=piece[-1].offset,
            next_source_offset=end,
            source_epoch=batch.partition_leader_epoch,
            runs=_runs(piece),
            uncompressed_bytes=0 if encoded.attributes & CODEC_MASK else encoded.size_bytes,
            source_bytes=batch.size_bytes * len(piece) // len(records),
            ages=((encoded.max_timestamp, len(piece)),),
        )
        for (piece, encoded), end in zip(pieces, ends, strict=True)
    ]


def compress_batch(batch: RecordBatch, codec: Codec) -> RecordBatch:
    """Recompress: the payload of an uncompressed v2 batch as one blob, its codec set, all else as it was, a valid CRC.

    Raises:
        ValueError: The batch is compressed already, or of an old magic: those are repacked.
    """
    if batch.magic != 2 or batch.attributes & CODEC_MASK:
        raise ValueError(f"only uncompressed v2 batches are recompressed, not magic {batch.magic} with {batch.codec}")
    if kernel.is_available():
        return kernel.recompress(batch, codec)
    payload = compress(codec, batch.view[HEADER_BYTES:])
    return _assemble(batch._replace(attributes=batch.attributes | CODECS.index(codec)), payload)


def encode(records: Sequence[DecodedRecord], codec: Codec) -> RecordBatch:
    """Put records into one CreateTime batch, with offsets 0, 1, 2, ... from the first one's on, without a producer."""
    base_timestamp = records[0].timestamp
    table, table_size = _VARINTS, len(_VARINTS)
    parts: list[bytes] = []
    for index, (_, timestamp, tail) in enumerate(records):
        delta = timestamp - base_timestamp
        prefix = b"\x00%b%b" % (
            table[delta] if 0 <= delta < table_size else write_varint(wrap_int64(delta)),
            table[index] if index < table_size else write_varint(index),
        )
        size = len(prefix) + len(tail)
        parts += (table[size] if size < table_size else write_varint(size), prefix, tail)
    header = RecordBatch(
        memoryview(b""),
        base_offset=records[0].offset,
        length=0,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=CODECS.index(codec),
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=len(records),
    )
    return _assemble(header, compress(codec, b"".join(parts)))


def _encode_split(
    records: Sequence[DecodedRecord], codec: Codec, max_bytes: int
) -> list[tuple[Sequence[DecodedRecord], RecordBatch]]:
    """One batch, or as many as it takes: halved until each fits."""
    encoded = encode(records, codec)
    if encoded.size_bytes <= max_bytes:
        return [(records, encoded)]
    if len(records) == 1:
        raise RecordTooLargeError(records[0].offset, encoded.size_bytes, max_bytes)
    middle = len(records) // 2
    return _encode_split(records[:middle], codec, max_bytes) + _encode_split(records[middle:], codec, max_bytes)


def _assemble(header: RecordBatch, payload: bytes) -> RecordBatch:
    """Header and payload in one writable buffer; view, length and CRC of ``header`` are filled in."""
    view = memoryview(bytearray(HEADER_BYTES + len(payload)))
    view[HEADER_BYTES:] = payload
    batch = header._replace(view=view, length=len(view) - LOG_OVERHEAD_BYTES)
    HEADER.pack_into(view, 0, *batch[1:])
    batch = batch._replace(crc=crc32c(view[_CRC_FROM:]))
    view[_CRC_AT:_CRC_FROM] = batch.crc.to_bytes(4, "big")
    return batch


def _groups(records: Sequence[DecodedRecord], apart: Apart) -> Sequence[Sequence[DecodedRecord]]:
    match apart:
        case "no":
            return [records]
        case "records":
            return [[record] for record in records]
        case "runs":
            starts = _run_starts(records)
            return [records[start:stop] for start, stop in zip(starts, [*starts[1:], len(records)], strict=True)]


def _runs(records: Sequence[DecodedRecord]) -> tuple[tuple[int, int], ...]:
    return tuple((run[0].offset, len(run)) for run in _groups(records, "runs"))


def _run_starts(records: Sequence[DecodedRecord]) -> list[int]:
    if records[-1].offset - records[0].offset + 1 == len(records):
        return [0]
    return [0, *(i for i in range(1, len(records)) if records[i].offset != records[i - 1].offset + 1)]
