"""Which batches are merged, with which codec, and up to which size."""

from __future__ import annotations

import pytest

from mirror_ray.records.batch import CODECS, Codec
from mirror_ray.replication import merge_rules
from tests.support.factories import parsed, with_codec


@pytest.mark.parametrize(
    ("codec", "size_bytes", "compress_with", "merged"),
    [
        ("none", 15 << 10, None, True),
        ("none", 17 << 10, None, False),
        ("none", 17 << 10, "zstd", True),
        ("none", 257 << 10, "zstd", False),
        ("zstd", 3 << 10, None, True),
        ("zstd", 5 << 10, None, False),
        ("zstd", 5 << 10, "zstd", False),
        ("gzip", 2 << 10, None, False),
    ],
)
def test_what_is_small_depends_on_the_codec(
    codec: Codec, size_bytes: int, compress_with: Codec | None, merged: bool
) -> None:
    """What costs more to unpack is merged only where it is smaller; what is encoded again anyway, always."""
    batch = parsed(with_codec(codec, 0, b"x"))._replace(view=memoryview(bytes(size_bytes)))
    assert merge_rules.is_merged(batch, 0, 1 << 20, compress_with, transformed=False) is merged


@pytest.mark.parametrize(("codec", "size_bytes", "merged"), [("gzip", 255 << 10, True), ("none", 257 << 10, False)])
def test_what_transforms_change_is_merged_unless_it_is_large(codec: Codec, size_bytes: int, merged: bool) -> None:
    """It is encoded again anyway."""
    batch = parsed(with_codec(codec, 0, b"x"))._replace(view=memoryview(bytes(size_bytes)))
    assert merge_rules.is_merged(batch, 0, 1 << 20, None, transformed=True) is merged
    assert not merge_rules.is_merged(batch, 1, 1 << 20, None, transformed=True)
    assert not merge_rules.is_merged(batch, 0, size_bytes - 1, None, transformed=True)


@pytest.mark.parametrize("compress_with", [None, "zstd"])
@pytest.mark.parametrize("max_message_bytes", [3000, 1 << 20])
@pytest.mark.parametrize("holes", [0, 1])
@pytest.mark.parametrize("attributes", range(16))
def test_runs_hold_no_batch_that_would_not_be_merged(
    attributes: int, holes: int, max_message_bytes: int, compress_with: Codec | None
) -> None:
    """The table that runs are found by says the same, for what the target takes at all; codecs 5 to 7 do not exist."""
    largest = merge_rules.largest_in_runs(max_message_bytes, compress_with)[attributes | (0x08 if holes else 0)]
    if attributes & 0x07 >= len(CODECS):
        assert largest == 0
        return
    assert largest <= max_message_bytes
    for size_bytes in (1 << 10, 3 << 10, 4 << 10, 8 << 10, 16 << 10, 256 << 10):
        for view_bytes in (size_bytes, size_bytes + 1):
            batch = parsed(with_codec("none", 0, b"x"))._replace(
                view=memoryview(bytes(view_bytes)), attributes=attributes, last_offset_delta=holes
            )
            merged = merge_rules.is_merged(batch, 0, max_message_bytes, compress_with, transformed=False)
            assert (view_bytes <= largest) == (merged and view_bytes <= max_message_bytes)


@pytest.mark.parametrize(
    ("codecs", "compress_with", "chosen"),
    [
        (["none", "none"], None, "none"),
        (["none", "none"], "lz4", "lz4"),
        (["zstd", "zstd"], "lz4", "zstd"),
        (["zstd", "gzip"], "lz4", "lz4"),
        (["none", "zstd", "zstd"], None, "zstd"),
        (["none", "zstd"], "gzip", "gzip"),
    ],
)
def test_a_merged_batch_keeps_the_codec(codecs: list[Codec], compress_with: Codec | None, chosen: Codec) -> None:
    """Of several the target's, or else that of the largest part."""
    found = [parsed(with_codec(codec, number, b"value")) for number, codec in enumerate(codecs)]
    assert merge_rules.merged_codec(found, compress_with) == chosen


def test_merged_batches_leave_room_for_new_numbers() -> None:
    """A topic that takes less than usual gets smaller ones."""
    assert [merge_rules.merge_bytes(size) for size in (1 << 20, 1000)] == [512 << 10, 750]
