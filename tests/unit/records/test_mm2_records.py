"""MM2's internal records, against bytes computed from its schemas."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import CheckpointRecord, HeartbeatRecord, OffsetSyncRecord

SYNC = OffsetSyncRecord(partition=TopicPartition("t1", 2), upstream_offset=100, downstream_offset=200)
CHECKPOINT = CheckpointRecord(
    group="g", partition=TopicPartition("A.t1", 2), upstream_offset=100, downstream_offset=200, metadata=""
)
HEARTBEAT = HeartbeatRecord(source_alias="A", target_alias="B", timestamp_ms=1_700_000_000_000)
VECTORS = [
    (SYNC, "0002 7431 00000002", "0000000000000064 00000000000000c8"),
    (CHECKPOINT, "0001 67 0004 412e7431 00000002", "0000 0000000000000064 00000000000000c8 0000"),
    (HEARTBEAT, "0001 41 0001 42", "0000 0000018bcfe56800"),
]
DECODERS: list[Callable[[bytes | None, bytes | None], object]] = [
    OffsetSyncRecord.decode,
    CheckpointRecord.decode,
    HeartbeatRecord.decode,
]


@pytest.mark.parametrize(("record", "key", "value"), VECTORS)
def test_bytes_are_mm2s(record: OffsetSyncRecord | CheckpointRecord | HeartbeatRecord, key: str, value: str) -> None:
    """Each format writes the expected bytes and reads them back."""
    assert record.encode() == (bytes.fromhex(key), bytes.fromhex(value))
    assert type(record).decode(bytes.fromhex(key), bytes.fromhex(value)) == record


@given(st.text(), st.text(max_size=20), st.integers(0, 1 << 31), st.integers(0, (1 << 63) - 1), st.text())
def test_checkpoints_survive_any_names(group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
    """Unicode groups, topics and metadata come back as they were."""
    checkpoint = CheckpointRecord(
        group=group,
        partition=TopicPartition(topic, partition & 0x7FFF_FFFF),
        upstream_offset=offset,
        downstream_offset=offset // 2,
        metadata=metadata,
    )
    assert CheckpointRecord.decode(*checkpoint.encode()) == checkpoint


@pytest.mark.parametrize("decode", DECODERS)
def test_null_keys_and_values_are_corrupt(decode: Callable[[bytes | None, bytes | None], object]) -> None:
    """A tombstone is no record of these formats."""
    with pytest.raises(CorruptRecordError, match="null"):
        decode(None, b"")


@given(st.sampled_from(DECODERS), st.binary(max_size=40), st.binary(max_size=40))
def test_garbage_raises_nothing_else(
    decode: Callable[[bytes | None, bytes | None], object], key: bytes, value: bytes
) -> None:
    """Random bytes are a record or a CorruptRecordError."""
    with suppress(CorruptRecordError):
        decode(key, value)


@pytest.mark.parametrize(("record", "key", "value"), VECTORS)
def test_bytes_too_many_or_too_few_are_corrupt(
    record: OffsetSyncRecord | CheckpointRecord | HeartbeatRecord, key: str, value: str
) -> None:
    """Every cut and every addition is found."""
    good_key, good_value = bytes.fromhex(key), bytes.fromhex(value)
    for bad_value in (good_value + b"\x00", *(good_value[:cut] for cut in range(len(good_value)))):
        with pytest.raises(CorruptRecordError):
            type(record).decode(good_key, bad_value)
    with pytest.raises(CorruptRecordError):
        type(record).decode(good_key + b"\x00", good_value)


def test_a_newer_version_is_refused_by_number() -> None:
    """A version that this code does not know is not guessed at."""
    key, value = HEARTBEAT.encode()
    with pytest.raises(CorruptRecordError, match="version is 1"):
        HeartbeatRecord.decode(key, b"\x00\x01" + value[2:])


def test_strings_that_do_not_fit_are_refused_before_writing() -> None:
    """Kafka's strings end at 32,767 bytes."""
    with pytest.raises(ValueError, match="32768 bytes"):
        HeartbeatRecord(source_alias="x" * 32768, target_alias="B", timestamp_ms=0).encode()
