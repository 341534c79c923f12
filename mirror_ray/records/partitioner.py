"""The partition that Java's producers place a key in: Kafka's ``Utils.murmur2`` and ``BuiltInPartitioner``."""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a key in a topic that has so many."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit hash, unsigned."""
    number = (_SEED ^ len(data)) & _MASK
    tail = len(data) & ~3
    for at in range(0, tail, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        number = (number * _FACTOR & _MASK) ^ word
    if tail < len(data):
        number = (number ^ int.from_bytes(data[tail:], "little")) * _FACTOR & _MASK
    number = (number ^ number >> 13) * _FACTOR & _MASK
    return number ^ number >> 15
