"""Our record code against Kafka's own classes: what each writes, the other reads, record by record."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from mirror_ray.records.batch import ControlType, RecordBatch, iter_batches, rewrite, verify
from mirror_ray.records.decode import DecodedRecord, control_type, records_of
from mirror_ray.records.repack import compress_batch, repack
from tests.support.java import run_java

PROGRAM = Path(__file__).with_name("RecordBatches.java")
MAX_BATCH_BYTES = 20_000


def batches_in(path: Path) -> list[RecordBatch]:
    """The batches of a file, each checked."""
    batches = iter_batches(memoryview(bytearray(path.read_bytes())))
    for batch in batches:
        verify(batch)
    return batches


def lines(records: Iterable[DecodedRecord]) -> list[str]:
    """Records as the Java program prints them."""
    return [
        " ".join(
            (
                str(record.offset),
                str(record.timestamp),
                hexed(record.key),
                hexed(record.value),
                *(f"{hexed(name)}={hexed(value)}" for name, value in record.headers),
            )
        )
        for record in records
    ]


def hexed(data: bytes | None) -> str:
    """Bytes as the Java program prints them."""
    return "null" if data is None else f"x{data.hex()}"


def without_offset(printed: Iterable[str]) -> list[str]:
    """What a copy must keep: all but the offset."""
    return [line.partition(" ")[2] for line in printed]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of batches that Kafka's classes wrote, with what they read from them."""
    directory = tmp_path_factory.mktemp("java")
    run_java(PROGRAM, "write", directory)
    return directory


def expected(binary: Path) -> list[str]:
    """What Kafka's classes read from a file."""
    return binary.with_suffix(".txt").read_text().splitlines()


def test_records_of_every_magic_and_codec_are_read_as_kafka_reads_them(written: Path) -> None:
    """Offsets, timestamps, keys, values and headers agree for magic 0 to 2, LogAppendTime, horizons and markers."""
    files = sorted(written.glob("*.bin"))
    assert len(files) == 34
    for binary in files:
        records = [record for batch in batches_in(binary) for record in records_of(batch)]
        assert lines(records) == expected(binary), binary.name


def test_control_batches_are_told_apart(written: Path) -> None:
    """Kafka's own markers are recognised."""
    for kind in (ControlType.ABORT, ControlType.COMMIT):
        (batch,) = batches_in(written / f"control-{kind.name}.bin")
        assert batch.is_control
        assert control_type(batch) is kind


def test_kafka_reads_what_was_rewritten(written: Path, tmp_path: Path) -> None:
    """After rewrite Kafka's classes find a valid batch of the same records, with a cleared delete horizon too."""
    names = [
        f"v2-{codec}-{kind}" for codec in ("none", "zstd", "lz4") for kind in ("create", "horizon", "transactional")
    ]
    for name in names:
        (batch,) = batches_in(written / f"{name}.bin")
        assert batch.has_delete_horizon == name.endswith("horizon")
        rewrite(batch, 1234, 0, 77)
        (tmp_path / f"{name}.bin").write_bytes(batch.view)
    run_java(PROGRAM, "read", tmp_path)
    for name in names:
        assert without_offset(expected(tmp_path / f"{name}.bin")) == without_offset(expected(written / f"{name}.bin"))


def test_kafka_reads_what_was_repacked(written: Path, tmp_path: Path) -> None:
    """Every kind of batch, split at a size limit: the same records, in dense batches, under the same codec."""
    files = [path for path in sorted(written.glob("*.bin")) if not path.name.startswith("control")]
    for binary in files:
        pieces = [
            piece.batch
            for batch in batches_in(binary)
            for piece in repack(batch, from_offset=0, max_batch_bytes=MAX_BATCH_BYTES)
        ]
        assert all(piece.size_bytes <= MAX_BATCH_BYTES for piece in pieces)
        assert {piece.codec for piece in pieces} == {binary.name.split("-")[1]}
        for piece in pieces:
            rewrite(piece, 1234, 0, 77)
        (tmp_path / binary.name).write_bytes(b"".join(piece.view for piece in pieces))
    run_java(PROGRAM, "read", tmp_path)
    for binary in files:
        assert without_offset(expected(tmp_path / binary.name)) == without_offset(expected(binary)), binary.name


def test_kafka_reads_what_was_recompressed(written: Path, tmp_path: Path) -> None:
    """An uncompressed batch under each codec is the same batch to Kafka, offsets included."""
    (batch,) = batches_in(written / "v2-none-create.bin")
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        (tmp_path / f"{codec}.bin").write_bytes(compress_batch(batch, codec).view)
    run_java(PROGRAM, "read", tmp_path)
    for binary in tmp_path.glob("*.bin"):
        assert expected(binary) == expected(written / "v2-none-create.bin"), binary.name
