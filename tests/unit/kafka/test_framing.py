"""Response frames out of a byte stream."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_ray.kafka.framing import BadFrameError, FrameReader

SIZES = st.lists(st.one_of(st.integers(4, 60), st.integers(4_050, 9_000)), max_size=5)


@settings(deadline=None)
@given(SIZES, st.lists(st.integers(1, 5_000), min_size=1).filter(lambda chunks: max(chunks) > 200))
def test_frames_come_out_as_they_were_sent(sizes: list[int], chunks: list[int]) -> None:
    """However the stream is cut up, the frames are whole, in order and writable."""
    frames = [bytes([size % 251]) * size for size in sizes]
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    reader, at, turn = FrameReader(lambda: 9_000), 0, 0
    found: list[memoryview] = []
    while at < len(stream):
        room = reader.buffer()
        count = min(chunks[turn % len(chunks)], len(room), len(stream) - at)
        room[:count] = stream[at : at + count]
        found += reader.received(count)
        at += count
        turn += 1
    assert [bytes(frame) for frame in found] == frames
    assert not any(frame.readonly for frame in found)


@pytest.mark.parametrize("size", [-(1 << 31), -1, 0, 3, 9_001, (1 << 31) - 1])
def test_length_out_of_bounds_is_refused(size: int) -> None:
    """A length that no response has is an error before anything is allocated for it."""
    reader = FrameReader(lambda: 9_000)
    reader.buffer()[:4] = struct.pack(">i", size)
    with pytest.raises(BadFrameError, match="does not speak Kafka"):
        list(reader.received(4))


@pytest.mark.parametrize(
    ("begin", "protocol"),
    [
        (b"HTTP/1.1 400", "HTTP"),
        (b"SSH-2.0-Open", "SSH"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "TLS"),
        (b"\x16\x03\x01", "TLS"),
    ],
)
def test_who_speaks_something_else_is_recognized(begin: bytes, protocol: str) -> None:
    """By the first four bytes."""
    reader = FrameReader(lambda: 9_000)
    reader.buffer()[: len(begin)] = begin
    with pytest.raises(BadFrameError, match=f"speaks {protocol} here") as refused:
        list(reader.received(max(4, len(begin))))
    assert refused.value.protocol == protocol


def test_each_frame_has_the_limit_of_its_own_request() -> None:
    """Also of two that come at once: what is due is asked for each."""
    limits = iter([10, 20])
    reader = FrameReader(lambda: next(limits))
    stream = struct.pack(">i", 10) + bytes(10) + struct.pack(">i", 20) + bytes(20)
    reader.buffer()[: len(stream)] = stream
    assert [len(frame) for frame in reader.received(len(stream))] == [10, 20]


_ANNOUNCED = """
import re
import struct
from mirror_ray.kafka.framing import FrameReader

def resident_bytes():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10

before_bytes, readers = resident_bytes(), [FrameReader(lambda: 1 << 28) for _ in range(8)]
for reader in readers:
    reader.buffer()[:8] = struct.pack(">ii", 255 << 20, 1)
    assert not list(reader.received(8))
    assert len(reader.buffer()) == (255 << 20) - 4
print((resident_bytes() - before_bytes) >> 20)
"""


def test_an_announced_length_takes_no_memory() -> None:
    """In a process of its own: eight connections on which 255 MiB are announced and eight bytes come."""
    taken_mib = int(subprocess.run([sys.executable, "-c", _ANNOUNCED], check=True, capture_output=True).stdout)
    assert taken_mib < 8
