"""Keys are placed where Java's producers place them."""

from __future__ import annotations

import pytest

from mirror_ray.records.partitioner import murmur2, partition_of_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    """The values of Kafka's own UtilsTest."""
    assert murmur2(key) == expected & 0xFFFF_FFFF
    assert partition_of_key(key, 25) == (expected & 0x7FFF_FFFF) % 25
