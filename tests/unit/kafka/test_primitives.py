"""Unsigned varints."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirror_ray.kafka.primitives import read_uvarint, uvarint


@given(st.integers(0, 2**32 - 1))
@example(0x7F)
@example(0x80)
@example(0x3FFF)
@example(0x4000)
def test_what_is_written_is_read(value: int) -> None:
    """With nothing behind it, and in as few bytes as it takes."""
    written = uvarint(value)
    assert read_uvarint(written + b"\xff", 0) == (value, len(written))
    assert len(written) == max(1, -(-value.bit_length() // 7))


def test_one_that_breaks_off_is_no_number() -> None:
    """Neither at the buffer's end, nor after more bytes than 32 bits take."""
    for broken in (b"\x80", b"\x80" * 6 + b"\0"):
        with pytest.raises(IndexError):
            read_uvarint(broken, 0)
