"""Response frames out of a byte stream."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_ray.kafka.framing import MAX_RESPONSE_BYTES, BadFrameError, FrameReader

SIZES = st.lists(st.one_of(st.integers(4, 60), st.integers(4_050, 9_000)), max_size=5)


@settings(deadline=None)
@given(SIZES, st.lists(st.integers(1, 5_000), min_size=1).filter(lambda chunks: max(chunks) > 200))
def test_frames_come_out_as_they_were_sent(sizes: list[int], chunks: list[int]) -> None:
    """However the stream is cut up, the frames are whole, in order and writable."""
    frames = [bytes([size % 251]) * size for size in sizes]
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    reader, found, at, turn = FrameReader(), [], 0, 0
    while at < len(stream):
        room = reader.room()
        count = min(chunks[turn % len(chunks)], len(room), len(stream) - at)
        room[:count] = stream[at : at + count]
        found += reader.received(count)
        at += count
        turn += 1
    assert [bytes(frame) for frame in found] == frames
    assert not any(frame.readonly for frame in found)


@pytest.mark.parametrize("size", [-1, 0, 3, MAX_RESPONSE_BYTES + 1, 0x48545450])
def test_length_out_of_bounds_is_refused(size: int) -> None:
    """A length that no response has is an error before anything is allocated for it."""
    reader = FrameReader()
    reader.room()[:4] = struct.pack(">i", size)
    with pytest.raises(BadFrameError, match="does not speak Kafka"):
        reader.received(4)
