"""Compression as Kafka frames it."""

from __future__ import annotations

import subprocess
import sys
import time
import zlib
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.records.batch import CODECS, Codec
from mirror_ray.records.codecs import compress, decompress

codecs = st.sampled_from(CODECS)
PAYLOADS = st.binary(max_size=500) | st.builds(
    lambda piece, n: piece * n, st.binary(min_size=1, max_size=9), st.integers(1, 40_000)
)


@given(codecs, PAYLOADS)
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    """Any payload survives any codec, over block borders too."""
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_within_the_limit(codec: Codec) -> None:
    """What unpacks to more than the limit raises; at the limit it does not."""
    bomb = compress(codec, bytes(3 << 20))
    assert len(decompress(codec, bomb, 3 << 20)) == 3 << 20
    with pytest.raises(CorruptBatchError, match=f"{codec} payload"):
        decompress(codec, bomb, (3 << 20) - 1)


@given(codecs, st.binary(max_size=300))
def test_garbage_raises_nothing_else(codec: Codec, data: bytes) -> None:
    """Random bytes unpack or are corrupt."""
    with suppress(CorruptBatchError):
        decompress(codec, data, 1 << 20)


@given(codecs, st.binary(max_size=300), st.data())
def test_a_prefix_raises_nothing_else(codec: Codec, data: bytes, draw: st.DataObject) -> None:
    """A payload that was cut off unpacks in part or is corrupt."""
    packed = compress(codec, data)
    with suppress(CorruptBatchError):
        decompress(codec, packed[: draw.draw(st.integers(0, len(packed)))])


def test_raw_snappy_is_read_too() -> None:
    """Other clients write a bare snappy block without snappy-java's stream header."""
    assert decompress("snappy", bytes(cramjam.snappy.compress_raw(b"abc" * 100))) == b"abc" * 100


def test_gzip_of_several_members_is_read_whole() -> None:
    """Concatenated members are one payload."""
    assert decompress("gzip", zlib.compress(b"one", wbits=31) + zlib.compress(b"two", wbits=31)) == b"onetwo"


def test_zstd_frames_in_a_row_are_read_whole() -> None:
    """Concatenated frames are one payload."""
    assert decompress("zstd", compress("zstd", b"one" * 99) + compress("zstd", b"two")) == b"one" * 99 + b"two"


def test_lz4_frames_of_other_writers_are_read() -> None:
    """A wrong header checksum (KAFKA-3160) and stored content size and checksums don't matter."""
    packed = bytearray(compress("lz4", b"abc" * 1000))
    packed[6] ^= 0xFF
    assert decompress("lz4", bytes(packed)) == b"abc" * 1000
    sized = packed[:4] + bytes([0x68, packed[5]]) + (3000).to_bytes(8, "little") + packed[6:]
    assert decompress("lz4", bytes(sized)) == b"abc" * 1000


def test_a_gzip_payload_of_many_empty_members_costs_linear_time() -> None:
    """Eight times the members take about eight times as long, and not sixty-four times."""
    member = zlib.compress(b"", wbits=31)

    def seconds(members: int) -> float:
        began_s = time.process_time()
        assert decompress("gzip", member * members) == b""
        return time.process_time() - began_s

    assert seconds(32_000) < 24 * max(seconds(4_000), 0.002)


def test_a_zstd_frame_that_asks_for_a_large_window_has_it_counted() -> None:
    """Its decoder would take output and window: 16 MiB of both don't go into 20 MiB."""
    descriptor, window_16_mib, last_run_block = b"\x00", b"\x70", (128 << 10 << 3 | 0b011).to_bytes(3, "little")
    run = (128 << 10 << 3 | 0b010).to_bytes(3, "little") + b"x"
    frame = b"\x28\xb5\x2f\xfd" + descriptor + window_16_mib + run * 127 + last_run_block + b"x"
    assert decompress("zstd", frame, 24 << 20) == b"x" * (16 << 20)
    with pytest.raises(CorruptBatchError, match="zstd payload"):
        decompress("zstd", frame, 20 << 20)


_BOMBS = """
import re
import sys
import cramjam
from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.records.codecs import compress, decompress
LIMIT_BYTES = 96 << 20

def peak_bytes():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10

piece = bytes(1 << 20)
bombs = [("gzip", compress("gzip", piece) * 97), ("zstd", compress("zstd", piece) * 97)]
bombs += [("lz4", (lz4 := compress("lz4", piece))[:7] + lz4[7:-4] * 97 + bytes(4))]
bombs += [("snappy", (snappy := compress("snappy", piece))[:16] + snappy[16:] * 97)]
largest = bytes(cramjam.snappy.compress_raw(bytes(LIMIT_BYTES)))
before_bytes = peak_bytes()
decompress("snappy", largest, LIMIT_BYTES)
for codec, bomb in bombs:
    try:
        decompress(codec, bomb, LIMIT_BYTES)
    except CorruptBatchError:
        continue
    sys.exit(f"{codec} was unpacked")
print((peak_bytes() - before_bytes) / LIMIT_BYTES)
"""


def test_unpacking_takes_no_more_memory_than_its_limit() -> None:
    """In a process of its own: bombs of all codecs, and the largest block that is allowed."""
    share = float(subprocess.run([sys.executable, "-c", _BOMBS], check=True, capture_output=True, text=True).stdout)
    assert share < 1.2
