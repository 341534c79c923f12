"""Records for transforms come out of the record kernel, and go into batches, as its reference in Python has it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError, IncompleteBatchError, RecordTooLargeError
from mirror_ray.records import decode
from mirror_ray.records.batch import CODECS, HEADER_BYTES, Codec, RecordBatch, iter_batches, verify
from mirror_ray.records.codecs import compress, decompress
from mirror_ray.records.decode import DecodedRecord, record_tail, records_of
from mirror_ray.records.repack import encode
from mirror_ray.records.repacked_batch import RepackedBatch
from mirror_ray.transforms import Record
from mirror_ray.transforms.chain import NamedTransform, TransformChain, TransformedRecords
from mirror_ray.transforms.columns import DecodedColumns, KernelColumns, RecordColumns, columns_of
from mirror_ray.transforms.record import FIELDS, UNREAD
from tests.support.factories import parsed
from tests.support.fuzzing import EDITS, Edit, edited, fuzzing
from tests.support.kernels import needs_kernel, without_kernel
from tests.unit.records.strategies import Plain, batch_bytes, compressed_bytes, payload, plain_records
from tests.unit.records.test_hostile_batches import ATTRIBUTES, a_batch, signed
from tests.unit.records.test_kernel import cases, essence, logs
from tests.unit.transforms.test_chain import SOURCE, Each

WIDE = 1 << 30
Case = tuple[list[RecordBatch], int, list[tuple[int, int]]]


def changed(record: Record, **fields: Any) -> Record:
    """The record with other fields, of whatever types."""
    return record._replace(**fields)


class Text(str):
    """No plain text."""

    __slots__ = ()


#: What transforms may return beside what they should: some is written all the same, the rest is an error of its record.
ODDITIES: tuple[Callable[[Record], Any], ...] = (
    lambda record: record,
    lambda record: None,
    lambda record: ValueError("no"),
    lambda record: changed(record, value=b"v" * 200),
    lambda record: changed(record, value=None, key=b""),
    lambda record: changed(record, headers=(*record.headers, ("ä", b"1"), ("", None))),
    lambda record: changed(record, timestamp_ms=-5),
    lambda record: Record(*record),
    lambda record: changed(record, value=bytearray(b"array")),
    lambda record: changed(record, value=memoryview(b"view")),
    lambda record: changed(record, key=bytearray(record.key or b"")),
    lambda record: changed(record, value="text"),
    lambda record: changed(record, timestamp_ms=float(record.timestamp_ms)),
    lambda record: changed(record, timestamp_ms=1 << 63),
    lambda record: changed(record, timestamp_ms=True),
    lambda record: changed(record, headers=[("list", b"1")]),
    lambda record: changed(record, headers=((Text("subclass"), b"1"),)),
    lambda record: changed(record, headers=(("\ud800", b"1"),)),
    lambda record: changed(record, headers=((b"bytes", b"1"),)),
    lambda record: changed(record, headers=(("three", b"1", b"2"),)),
    lambda record: changed(record, headers=None),
    lambda record: changed(record, key=UNREAD[0]),
    lambda record: changed(record, value=UNREAD[1], headers=UNREAD[2], timestamp_ms=7),
    lambda record: changed(record, key=UNREAD[1]),
)


def columns(case: Case, *, native: bool) -> RecordColumns:
    """The records of a log, opened by one of the two."""
    with nullcontext() if native else without_kernel():
        opened = columns_of(*case)
    assert isinstance(opened, KernelColumns if native else DecodedColumns)
    return opened


def contents(opened: RecordColumns) -> tuple[object, ...]:
    """All that they hold."""
    every = range(len(opened))
    read = opened.offsets(), opened.timestamps(), opened.keys(), opened.values(), opened.headers()
    return *read, opened.decoded(every)


def run(case: Case, plan: dict[int, int], *, native: bool, reads: Collection[str] = FIELDS) -> TransformedRecords:
    """A log's records after a transform with odd results: by their offset, which of them."""
    step = Each(lambda record: ODDITIES[plan.get(record.offset, 0)](record))
    step.reads = reads
    return TransformChain((NamedTransform("odd", step),), "it").run(SOURCE, columns(case, native=native))


def outcome(done: TransformedRecords) -> tuple[object, ...]:
    """What was kept, what failed, and why."""
    failures = [(failure.record, str(failure)) for failure in done.failures]
    return done.records.decoded(done.kept), done.kept, failures


def packed(done: TransformedRecords, merge_bytes: int, max_batch_bytes: int = WIDE) -> list[RepackedBatch] | int:
    """The batches, or the offset of a record that is too large."""
    try:
        return done.records.pack(done.kept, codec="none", merge_bytes=merge_bytes, max_batch_bytes=max_batch_bytes)
    except RecordTooLargeError as error:
        return error.offset


@needs_kernel
@given(cases())
def test_columns_are_the_references(case: Case) -> None:
    """Batches of every magic and codec, from any offset on, without any ranges."""
    assert contents(columns(case, native=True)) == contents(columns(case, native=False))


@needs_kernel
@given(cases(), st.data(), st.sampled_from((0, 300, 3000, WIDE)), st.sampled_from((200, 2000, WIDE)))
def test_transformed_batches_have_the_references_bytes(
    case: Case, data: st.DataObject, merge_bytes: int, max_batch_bytes: int
) -> None:
    """Whatever a transform returns: the same is kept, changed, refused, merged and divided."""
    offsets = [record.offset for batch in case[0] for record in records_of(batch)]
    plan = data.draw(st.dictionaries(st.sampled_from(offsets), st.integers(0, len(ODDITIES) - 1)))
    reads = data.draw(st.sampled_from((FIELDS, FIELDS, FIELDS[:1], FIELDS[1:], ())))
    made, wanted = (run(case, plan, native=native, reads=reads) for native in (True, False))
    assert outcome(made) == outcome(wanted)
    found, expected = (packed(done, merge_bytes, max_batch_bytes) for done in (made, wanted))
    if isinstance(found, int) or isinstance(expected, int):
        assert found == expected
        return
    assert [essence(piece) for piece in found] == [essence(piece) for piece in expected]
    for piece in found:
        verify(piece.batch)
        assert piece.uncompressed_bytes == piece.batch.size_bytes
        assert sum(count for _, count in piece.ages) == piece.batch.count
    assert sum(piece.source_bytes for piece in found) <= sum(batch.size_bytes for batch in case[0])


@needs_kernel
@given(cases(), st.sampled_from(CODECS[1:]))
def test_compressed_ones_unpack_to_the_references_bytes(case: Case, codec: Codec) -> None:
    """The codec is the one that is asked for."""
    plan = {record.offset: 5 for record in records_of(case[0][0])}
    unpacked = []
    for native in (True, False):
        done = run(case, plan, native=native)
        pieces = done.records.pack(done.kept, codec=codec, merge_bytes=3000, max_batch_bytes=WIDE)
        assert {piece.batch.codec for piece in pieces} <= {codec}
        unpacked.append([decompress(codec, piece.batch.view[HEADER_BYTES:]) for piece in pieces])
    assert unpacked[0] == unpacked[1]


@needs_kernel
@pytest.mark.parametrize(("merge_bytes", "expected"), [(32, [4, 2]), (31, [2, 2, 2]), (48, [6]), (0, [2, 2, 2])])
def test_what_is_left_of_batches_is_merged_as_long_as_it_fits(merge_bytes: int, expected: list[int]) -> None:
    """To the byte."""
    plain = [[Plain(offset=at, timestamp=1), Plain(offset=at + 1, timestamp=1)] for at in (0, 2, 4)]
    case: Case = [parsed(compressed_bytes(records, "none")) for records in plain], 0, []
    for native in (True, False):
        pieces = packed(run(case, {}, native=native), merge_bytes)
        assert not isinstance(pieces, int)
        assert [piece.batch.count for piece in pieces] == expected


@needs_kernel
def test_batches_of_which_nothing_is_left_are_gaps() -> None:
    """What is left of the others was not made of them."""
    batches = [parsed(compressed_bytes([Plain(offset=at, timestamp=1)], "none")) for at in range(4)]
    (piece,) = run((batches, 0, []), {1: 1, 3: 1}, native=True).records.pack(
        [0, 2], codec="none", merge_bytes=WIDE, max_batch_bytes=WIDE
    )
    assert (piece.source_bytes, piece.next_source_offset) == (2 * batches[0].size_bytes, 4)
    assert piece.runs == ((0, 1), (2, 1))


def hostile_outcome(batch: RecordBatch, *, native: bool) -> tuple[object, ...] | str:
    """What one of the two finds in a batch, and makes of it."""
    case: Case = [batch], batch.base_offset, []
    try:
        done = run(case, dict.fromkeys(range(batch.base_offset, batch.base_offset + 3), 5), native=native)
    except CorruptBatchError:
        return "corrupt"
    pieces = packed(done, 0)
    assert not isinstance(pieces, int)
    return *contents(columns(case, native=native)), *outcome(done), [essence(piece) for piece in pieces]


def check(data: bytes | bytearray) -> None:
    """Both say the same of every batch whose checksum fits."""
    try:
        batches = iter_batches(memoryview(bytearray(data)))
        for batch in batches:
            verify(batch)
    except (CorruptBatchError, IncompleteBatchError):
        return
    for batch in batches:
        assert hostile_outcome(batch, native=True) == hostile_outcome(batch, native=False)


@needs_kernel
@fuzzing(200)
@given(plain_records(), st.sampled_from(CODECS), st.sampled_from((0, 1, 2, 2, 2)), ATTRIBUTES, EDITS)
def test_both_say_the_same_of_changed_batches(
    records: list[Plain], codec: Codec, magic: int, attributes: int, edits: list[Edit]
) -> None:
    """Headers, messages and what is compressed."""
    check(signed(edited(a_batch(records, codec, magic, attributes), edits), magic))


@needs_kernel
@fuzzing(300)
@given(plain_records(), st.sampled_from(CODECS), EDITS)
def test_both_say_the_same_of_changed_records(records: list[Plain], codec: Codec, edits: list[Edit]) -> None:
    """Lengths of keys, values, names and headers, as somebody writes them who wants to do harm."""
    tails = [edited(record_tail(*record.body()), edits) for record in records]
    decoded = [
        DecodedRecord(record.offset, record.timestamp, tail) for record, tail in zip(records, tails, strict=True)
    ]
    check(bytes(encode(decoded, codec).view))
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    data, number = compress(codec, edited(payload(records, base_offset, base_timestamp), edits)), CODECS.index(codec)
    check(batch_bytes(records, base_offset=base_offset, base_timestamp=base_timestamp, attributes=number, data=data))


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_kernel), False])
def test_more_headers_than_are_worth_their_memory_are_refused(native: bool) -> None:
    """In one record, or in many; a batch of few KB may hold millions."""
    most = decode.HEADERS_LIMIT
    for counts in ((most + 1,), (most // 2 + 1, most // 2 + 1)):
        tails = [record_tail(None, None)[:-1] + decode.write_varint(count) + bytes(2) * count for count in counts]
        batch = encode([DecodedRecord(number, 0, tail) for number, tail in enumerate(tails)], "zstd")
        assert batch.size_bytes < 10_000
        with pytest.raises(CorruptBatchError, match="headers"):
            columns(([batch], 0, []), native=native)


@needs_kernel
def test_an_unchanged_record_keeps_its_very_bytes() -> None:
    """Also where they are not what would be written."""
    odd = b"\x82\x00k\x03\x00"
    batch = encode([DecodedRecord(5, 9, odd), DecodedRecord(6, 9, odd)], "none")
    for native in (True, False):
        done = run(([batch], 0, []), {5: 7, 6: 6}, native=native)
        assert [record.tail for record in done.records.decoded(done.kept)] == [odd, b"\x02k\x01\x00"]


@needs_kernel
@given(logs(), st.data())
def test_what_is_left_of_batches_leads_behind_them(batches: list[RecordBatch], data: st.DataObject) -> None:
    """Batches of which nothing is left move the position on as gaps do, and don't count as what it was made of."""
    offsets = [record.offset for batch in batches for record in records_of(batch)]
    gone = set(data.draw(st.lists(st.sampled_from(offsets))))
    for number in data.draw(st.lists(st.integers(0, len(batches) - 1))):
        gone |= {record.offset for record in records_of(batches[number])}
    done = run((batches, 0, []), dict.fromkeys(gone, 1), native=True)
    pieces = packed(done, WIDE)
    assert not isinstance(pieces, int)
    runs = [(first, count) for piece in pieces for first, count in piece.runs]
    assert [first + at for first, count in runs for at in range(count)] == [o for o in offsets if o not in gone]
    whole = [batch for batch in batches if any(record.offset not in gone for record in records_of(batch))]
    assert sum(piece.source_bytes for piece in pieces) == sum(batch.size_bytes for batch in whole)
    ends = {batch.next_offset: batch.partition_leader_epoch for batch in batches}
    for piece in pieces:
        assert piece.source_last < piece.next_source_offset
        assert ends[piece.next_source_offset] == piece.source_epoch
    by_epoch = groupby(batches, lambda batch: batch.partition_leader_epoch)
    assert len(pieces) == sum(any(batch in whole for batch in group) for _, group in by_epoch)
