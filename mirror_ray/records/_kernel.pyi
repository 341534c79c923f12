# What kernel/src/python.rs is to Python.

from collections.abc import Sequence
from typing import Self, TypeAlias

_Bytes: TypeAlias = bytes | bytearray | memoryview
#: Bytes, first, last and next source offset, leader epoch, runs, bytes without compression and on the
#: source, ages.
_Piece: TypeAlias = tuple[
    bytearray, int, int, int, int, tuple[tuple[int, int], ...], int, int, tuple[tuple[int, int], ...]
]

class CorruptError(ValueError): ...
class TooLargeError(ValueError): ...

class KeyComparison:
    def __new__(cls, *, secret: bytes, timestamps: bool, keys: tuple[int, int], ordered_below: int) -> Self: ...
    def take(self, side: bool, batches: Sequence[_Bytes], span: tuple[int, int]) -> None: ...
    def found(self) -> tuple[int, int, int, int, bool]: ...
    def differing_keys(self) -> list[bytes]: ...

def repack(
    parts: Sequence[_Bytes],
    *,
    codec: int,
    merge_bytes: int,
    max_batch_bytes: int,
    from_offset: int,
    leave_out: Sequence[tuple[int, int]],
) -> list[_Piece]: ...
def compare(
    mine: Sequence[_Bytes],
    theirs: Sequence[_Bytes],
    *,
    span: tuple[int, int],
    other_span: tuple[int, int],
    timestamps: bool,
) -> tuple[int, int, int, bool]: ...
def recompress(batch: _Bytes, codec: int) -> bytearray: ...
