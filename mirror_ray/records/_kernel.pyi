# What kernel/src/python.rs is to Python.

from collections.abc import Sequence
from typing import TypeAlias

_Bytes: TypeAlias = bytes | bytearray | memoryview
#: Bytes, first, last and next source offset, leader epoch, runs, bytes without compression and on the
#: source, ages.
_Piece: TypeAlias = tuple[
    bytearray, int, int, int, int, tuple[tuple[int, int], ...], int, int, tuple[tuple[int, int], ...]
]

class CorruptError(ValueError): ...
class TooLargeError(ValueError): ...

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
