"""Headers of record batches: read, checked, rewritten."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError, IncompleteBatchError
from mirror_ray.records.batch import RecordBatch, iter_batches, needs_repack, rewrite, verify
from mirror_ray.records.decode import records_of
from tests.support.factories import parsed
from tests.unit.records.strategies import Plain, batch_bytes, message, plain_records

THREE = [Plain(offset=offset, timestamp=1000 + offset) for offset in (40, 41, 42)]


def three(**header: int) -> RecordBatch:
    """A batch of three records at offsets 40 to 42."""
    return parsed(batch_bytes(THREE, base_offset=40, base_timestamp=1040, **header))  # type: ignore[arg-type]


def test_a_header_is_read_field_by_field() -> None:
    """Every field and what follows from it is what the bytes say."""
    data = batch_bytes(THREE, base_offset=40, base_timestamp=1040, attributes=0x14, producer=(9, 8, 7))
    batch = parsed(data)
    assert (batch.base_offset, batch.last_offset_delta, batch.last_offset, batch.next_offset) == (40, 2, 42, 43)
    assert (batch.count, batch.magic, batch.size_bytes, batch.partition_leader_epoch) == (3, 2, len(data), 7)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 8, 7)
    assert (batch.base_timestamp, batch.max_timestamp, batch.codec) == (1040, 1042, "zstd")
    assert batch.is_transactional
    flags = (batch.is_control, batch.is_log_append_time, batch.is_compacted, batch.is_empty, batch.has_delete_horizon)
    assert not any(flags)


def test_a_batch_cut_off_at_the_end_is_left_out() -> None:
    """Whatever is missing of the second batch, the first one is returned alone."""
    first = batch_bytes(THREE, base_offset=40)
    second = batch_bytes([Plain(offset=43, timestamp=0)], base_offset=43)
    for cut in range(len(second)):
        batches = iter_batches(memoryview(first + second[:cut]))
        assert [batch.base_offset for batch in batches] == [40]


def test_a_first_batch_that_is_not_whole_says_how_many_bytes_it_needs() -> None:
    """The error carries the size, so that the fetch can be made larger."""
    data = batch_bytes(THREE, base_offset=40)
    with pytest.raises(IncompleteBatchError, match="fetched: raise max") as caught:
        iter_batches(memoryview(data)[:-1])
    assert (caught.value.size_bytes, caught.value.fetched_bytes) == (len(data), len(data) - 1)


def test_no_bytes_are_no_batches() -> None:
    """An empty answer is not an error."""
    assert iter_batches(memoryview(b"")) == []


@given(plain_records(), st.data())
def test_a_changed_byte_behind_the_checksum_is_found(records: list[Plain], data: st.DataObject) -> None:
    """A flip of any bit that the CRC covers raises, and the error names the offsets."""
    batch = parsed(batch_bytes(records, base_offset=records[0].offset))
    verify(batch)
    batch.view[data.draw(st.integers(21, len(batch.view) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptBatchError, match=str(records[0].offset)):
        verify(batch)


@given(plain_records(), st.integers(0, 1 << 40), st.integers(0, 32767), st.integers(0, (1 << 31) - 1))
def test_rewrite_changes_the_named_fields_alone(
    records: list[Plain], producer_id: int, epoch: int, sequence: int
) -> None:
    """Offset, leader epoch, three attribute bits, producer and CRC change; all other bytes stay; the CRC is right."""
    batch = parsed(batch_bytes(records, base_offset=records[0].offset, attributes=0x7A, producer=(1, 2, 3)))
    before = bytes(batch.view)
    rewrite(batch, producer_id, epoch, sequence)
    after = parsed(batch.view)
    verify(after)
    assert after.attributes == 0x0A
    assert (after.base_offset, after.partition_leader_epoch) == (0, -1)
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (producer_id, epoch, sequence)
    for kept in (slice(8, 12), slice(16, 17), slice(23, 43), slice(57, None)):
        assert after.view[kept] == before[kept]
    assert batch.base_offset == records[0].offset


def test_rewrite_can_be_done_again() -> None:
    """A batch that is sent once more gets its new sequence and a CRC that fits."""
    batch = three()
    rewrite(batch, 1, 0, 5)
    rewrite(batch, 2, 1, 6)
    again = parsed(batch.view)
    verify(again)
    assert (again.producer_id, again.producer_epoch, again.base_sequence) == (2, 1, 6)


def test_timestamps_stay_when_a_delete_horizon_is_cleared() -> None:
    """With bit 6 set the base timestamp is the horizon, and the records' deltas count from it (KIP-534)."""
    horizon = 5_000_000
    batch = parsed(batch_bytes(THREE, base_offset=40, base_timestamp=horizon, max_timestamp=1042, attributes=0x40))
    assert batch.has_delete_horizon
    rewrite(batch, 1, 0, 0)
    after = parsed(batch.view)
    assert not after.has_delete_horizon
    assert [record.timestamp for record in records_of(after)] == [1040, 1041, 1042]


def test_repacking_is_asked_for_where_passing_on_would_be_wrong() -> None:
    """Each reason is named, and a batch in order has none."""
    assert needs_repack(three(), 40, 10_000) is None
    assert needs_repack(three(), 41, 10_000) == "before_position"
    assert needs_repack(three(), 40, 50) == "too_large"
    assert needs_repack(three(attributes=8), 40, 10_000) == "log_append_time"
    assert needs_repack(three(last_offset=45), 40, 10_000) == "compacted"
    assert needs_repack(parsed(message(1, 40, b"v")), 40, 10_000) == "magic"


def test_a_batch_that_compaction_emptied_is_seen() -> None:
    """A header without records parses, verifies and says that it is empty."""
    batch = parsed(batch_bytes([], base_offset=40, last_offset=42))
    verify(batch)
    assert batch.is_empty
    assert batch.next_offset == 43


def test_old_messages_come_as_runs_between_new_batches() -> None:
    """Consecutive messages of one magic and codec are one run; the run's offsets and timestamps cover them."""
    old = message(0, 1, b"a") + message(0, 2, b"b")
    newer = message(1, 3, b"c", timestamp=70) + message(1, 5, b"d", timestamp=60)
    packed = message(1, 9, b"?", timestamp=80, attributes=1)
    data = bytearray(old + newer + packed + batch_bytes(THREE, base_offset=40) + message(1, 50, b"cut")[:-1])
    batches = iter_batches(memoryview(data))
    assert [(batch.magic, batch.base_offset, batch.next_offset, batch.count) for batch in batches] == [
        (0, 1, 3, 2),
        (1, 3, 6, 2),
        (1, 9, 10, 1),
        (2, 40, 43, 3),
    ]
    assert [(batch.base_timestamp, batch.max_timestamp) for batch in batches[:3]] == [(-1, -1), (70, 70), (80, 80)]
    for batch in batches:
        verify(batch)
    batches[1].view[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="offset 5"):
        verify(batches[1])


@pytest.mark.parametrize(("at", "layout", "number"), [(16, ">b", 3), (8, ">i", 48), (8, ">i", -1)])
def test_a_header_that_no_broker_writes_is_an_error(at: int, layout: str, number: int) -> None:
    """An unknown magic or a length below the header's is reported with the offset, not skipped."""
    data = batch_bytes(THREE, base_offset=40)
    struct.pack_into(layout, data, at, number)
    with pytest.raises(CorruptBatchError, match="offset 40"):
        iter_batches(memoryview(data))


@given(st.binary(max_size=300), st.sampled_from([None, 0, 1, 2]))
def test_random_bytes_raise_nothing_else(data: bytes, magic: int | None) -> None:
    """Garbage is corrupt or incomplete, and never another exception."""
    raw = bytearray(data)
    if magic is not None and len(raw) > 16:
        raw[16] = magic
        struct.pack_into(">i", raw, 8, len(raw) - 12)
    with suppress(CorruptBatchError, IncompleteBatchError):
        for batch in iter_batches(memoryview(raw)):
            verify(batch)


@pytest.mark.parametrize(("count", "last"), [(4, 2), (-1, 2), (0, -1)])
def test_a_count_that_can_not_be_is_found(count: int, last: int) -> None:
    """Though the checksum is right: sequences and offsets are counted by these fields."""
    data = bytearray(batch_bytes(THREE, base_offset=40))
    struct.pack_into(">i", data, 23, last)
    struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    with pytest.raises(CorruptBatchError, match="records can't be in it"):
        verify(parsed(data))
