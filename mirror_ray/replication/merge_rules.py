"""Which batches of a partition that wait together are merged, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_ray.records.batch import CODEC_MASK, CODECS, Codec, RecordBatch, needs_repack
from mirror_ray.records.batch_run import BatchRun

#: Records, before compression, of a merged batch; a source batch is never divided for it.
MERGE_BYTES: Final = 512 << 10

#: A batch of at most this size, by its codec, is taken to cost less merged than passed on: to unpack and to pack it
#: takes less than a batch of its own takes here and on the target's broker. Estimated by what the kernel does in a
#: second with batches of 1 KB, not measured size by size.
LARGEST_SMALL_BYTES: Final[Mapping[Codec, int]] = {
    "none": 16 << 10,
    "gzip": 1 << 10,
    "snappy": 8 << 10,
    "lz4": 8 << 10,
    "zstd": 4 << 10,
}
#: Batches that are encoded again anyway, up to this size, are merged with their neighbours on the way.
LARGEST_REPACKED_BYTES: Final = MERGE_BYTES // 2

#: Reasons to repack a batch for which it may as well be merged.
_REPACKED: Final = frozenset({"magic", "log_append_time", "compacted"})


def is_merged(
    batch: RecordBatch, position: int, max_message_bytes: int, compress_with: Codec | None, *, transformed: bool
) -> bool:
    """Whether a batch with records is merged with others that wait at ``position`` and behind it.

    ``max_message_bytes`` is the target's; ``compress_with`` what batches without compression get; ``transformed``:
    whether transforms change its records.
    """
    size_bytes = len(batch.view)
    if size_bytes > LARGEST_REPACKED_BYTES:
        return False
    reason = needs_repack(batch, position, max_message_bytes)
    if reason is not None:
        return reason in _REPACKED
    codec = batch.codec
    if transformed or (codec == "none" and compress_with is not None):
        return True
    return size_bytes <= LARGEST_SMALL_BYTES[codec]


def largest_in_runs(
    max_message_bytes: int, compress_with: Codec | None, *, transformed: bool = False, preserved: bool = False
) -> list[int]:
    """Up to which size batches are merged, by bits 0 to 3 of their attributes: ``is_merged``.

    Where it says the size of a batch with LogAppendTime, that is also one for compacted batches. With ``preserved``
    offsets these have gaps, up to which alone is merged.
    """
    sizes = [*(LARGEST_SMALL_BYTES[codec] for codec in CODECS), *[0] * (CODEC_MASK + 1 - len(CODECS))]
    if transformed:
        sizes = [LARGEST_REPACKED_BYTES if size else 0 for size in sizes]
    if compress_with is not None:
        sizes[0] = LARGEST_REPACKED_BYTES
    repacked = [LARGEST_REPACKED_BYTES if size and not preserved else 0 for size in sizes]
    return [min(size, max_message_bytes) for size in (*sizes, *repacked)]


def merged_codec(batches: Sequence[RecordBatch | BatchRun], compress_with: Codec | None) -> Codec:
    """The codec of what is made of these: theirs; of several the target's, or else that of most bytes.

    ``compress_with``: what batches without compression get; None leaves them as they are.
    """
    sizes_bytes = [0] * len(CODECS)
    for batch in batches:
        sizes_bytes[batch.attributes & CODEC_MASK] += len(batch.view)
    if compress_with is not None and (sizes_bytes[0] or sum(size > 0 for size in sizes_bytes) > 1):
        return compress_with
    return CODECS[sizes_bytes.index(max(sizes_bytes))]


def merge_bytes(max_message_bytes: int) -> int:
    """Records of a merged batch: with room for what renumbering adds, where the target takes less than usual."""
    return min(MERGE_BYTES, max_message_bytes * 3 // 4)


@dataclass(slots=True)
class MergingBatches:
    """Batches of one partition that wait to be merged, in order, and the gaps without a record to copy among them."""

    _batches: list[RecordBatch | BatchRun] = field(default_factory=list)
    _position: int = -1
    _last: RecordBatch | BatchRun | None = None

    def add(self, batch: RecordBatch | BatchRun, position: int) -> None:
        """Add the batch, or several, behind the others; ``position``: the next source offset to copy."""
        if not self._batches:
            self._position = position
        self._batches.append(batch)
        self._last = batch

    def skip_gap(self, batch: RecordBatch) -> bool:
        """Note that nothing of this batch is copied; returns whether any wait, so that it is behind them."""
        if self._batches:
            self._last = batch
        return bool(self._batches)

    def take(self) -> tuple[list[RecordBatch | BatchRun], int, RecordBatch | BatchRun | None]:
        """Take out those with records, the position of the first, and the last of all; None: none wait."""
        taken = self._batches, self._position, self._last
        self._batches, self._last = [], None
        return taken
