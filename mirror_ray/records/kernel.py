"""The record kernel (``kernel/``, in Rust), where it was built: what has to be done once per record.

Where it was not, ``mirror_ray.records.repack`` does the same in Python, and small batches are not merged.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple, Protocol

from mirror_ray.model.errors import CorruptBatchError, RecordTooLargeError
from mirror_ray.model.schema_id_counts import SchemaIdCounts
from mirror_ray.records.batch import CODECS, HEADER, Codec, RecordBatch
from mirror_ray.records.repacked_batch import RepackedBatch, with_schema_ids_counted

#: Set to anything, it has the kernel left aside: to find out whether a fault is the kernel's.
OFF_VARIABLE: Final = "MIRROR_RAY_NO_KERNEL"


#: Of a key and its digests on both sides, beside the key's own bytes, where a table has just grown.
_KEY_COSTS_BYTES: Final = 130


def _load() -> ModuleType | None:
    if os.environ.get(OFF_VARIABLE):
        return None
    try:
        from mirror_ray.records import _kernel
    except ImportError:
        return None
    return _kernel


#: None without it; a test may take it away.
_native: Any = _load()

#: What is lost without it, and the way to it, for users.
UNAVAILABLE: Final = (
    f"small batches are not merged: no record kernel; install Cargo and mirror-ray again, or unset {OFF_VARIABLE} "
    "(docs/install.md, the record kernel)"
)


def is_available() -> bool:
    """Whether the kernel was built, and is not switched off."""
    return _native is not None


def runs(buffer: memoryview, largest: Sequence[int], most_bytes: int) -> list[tuple[int, int, int, int, int, int, int]]:
    """Find small batches that follow each other, for ``batch_run.iter_runs``.

    Of each run: where its bytes begin and end, and the fields of a ``BatchRun``.
    """
    found: list[tuple[int, int, int, int, int, int, int]] = _native.runs(buffer, largest=largest, most_bytes=most_bytes)
    return found


class _Batches(Protocol):
    """One whole batch, or several."""

    @property
    def view(self) -> memoryview: ...


def repack_batches(
    batches: Sequence[_Batches],
    *,
    codec: Codec,
    merge_bytes: int,
    max_batch_bytes: int,
    from_offset: int,
    leave_out: Sequence[tuple[int, int]] = (),
) -> list[RepackedBatch]:
    """Encode the records of verified batches of any magic, in order, as few new ones; see ``repack.repack``.

    A new batch holds whole source batches: as many as have ``merge_bytes`` of records before compression.

    Raises:
        CorruptBatchError: A batch does not parse.
        RecordTooLargeError: A record alone is over ``max_batch_bytes``.
    """
    with _translated(max_batch_bytes):
        return _repacked(
            _native.repack(
                [batch.view for batch in batches],
                codec=CODECS.index(codec),
                merge_bytes=merge_bytes,
                max_batch_bytes=max_batch_bytes,
                from_offset=from_offset,
                leave_out=leave_out,
            )
        )


def repack_translated(
    batches: Sequence[_Batches],
    ids: Any,
    *,
    key: str,
    value: str,
    codec: Codec,
    merge_bytes: int,
    max_batch_bytes: int,
    from_offset: int,
    leave_out: Sequence[tuple[int, int]] = (),
) -> list[RepackedBatch] | None:
    """As ``repack_batches``, with schema ids changed by ``SchemaIds``; key and value are framed, plain or undecided.

    None: an id is missing or absent, or in an undecided field.
    """
    with _translated(max_batch_bytes):
        made = _native.repack_translated(
            [batch.view for batch in batches],
            ids,
            key,
            value,
            codec=CODECS.index(codec),
            merge_bytes=merge_bytes,
            max_batch_bytes=max_batch_bytes,
            from_offset=from_offset,
            leave_out=leave_out,
        )
        if made is None:
            return None
        pieces, translated, unframed = made
        return with_schema_ids_counted(_repacked(pieces), SchemaIdCounts(translated, unframed))


def columns(batches: Sequence[_Batches], from_offset: int, leave_out: Sequence[tuple[int, int]]) -> Any:
    """Open verified batches of any magic, in order, to be read and changed; the kernel's ``Columns``.

    It has their records from ``from_offset`` on, without those in the ranges ``leave_out``, the end not included.

    Raises:
        CorruptBatchError: A batch or a record does not parse.
    """
    with _translated():
        return _native.columns([batch.view for batch in batches], from_offset=from_offset, leave_out=leave_out)


def pack_columns(
    opened: Any, numbers: Sequence[int], *, codec: Codec, merge_bytes: int, max_batch_bytes: int
) -> list[RepackedBatch]:
    """Encode records of ``Columns``, by ascending numbers, as few new batches.

    A new batch holds what is left of source batches: of as many as have ``merge_bytes`` of records before compression.

    Raises:
        RecordTooLargeError: A record alone is over ``max_batch_bytes``.
    """
    with _translated(max_batch_bytes):
        pieces = opened.pack(
            numbers, codec=CODECS.index(codec), merge_bytes=merge_bytes, max_batch_bytes=max_batch_bytes
        )
        return _repacked(pieces)


def schema_ids() -> Any:
    """What schema ids become, with nothing known yet; the kernel's ``SchemaIds``."""
    return _native.SchemaIds()


def translate_columns(opened: Any, numbers: Sequence[int], ids: Any, *, key: str, value: str) -> tuple[int, int, Any]:
    """Change schema ids of records of ``Columns`` by ``SchemaIds``; key and value are framed, plain or undecided.

    Returns how many were changed, how many framed fields had none, and what is in the way of records.

    Raises:
        CorruptBatchError: The bytes of one are no record.
    """
    with _translated():
        found: tuple[int, int, Any] = opened.translate(numbers, ids, key, value)
        return found


def met_schemas(*, key: str, value: str, most: int) -> Any:
    """The schemas that records have the ids of, as many as ``most`` of a field; the kernel's ``MetSchemas``."""
    return _native.MetSchemas(key=key, value=value, most=most)


def meet_schemas(
    met: Any, batches: Sequence[RecordBatch], span: tuple[int, int], leave_out: Sequence[tuple[int, int]]
) -> None:
    """Take the records in a span from verified batches, without those in ranges. Raises as ``columns`` does."""
    with _translated():
        met.take([batch.view for batch in batches], span, leave_out)


@contextmanager
def _translated(max_batch_bytes: int = 0) -> Iterator[None]:
    """Raise the kernel's errors as ours."""
    try:
        yield
    except _native.CorruptError as error:
        raise CorruptBatchError(str(error)) from error
    except _native.TooLargeError as error:
        offset, batch_bytes = error.args
        raise RecordTooLargeError(offset, batch_bytes, max_batch_bytes) from error


def _repacked(pieces: Sequence[Any]) -> list[RepackedBatch]:
    return [
        RepackedBatch(
            batch=RecordBatch(memoryview(data), *HEADER.unpack_from(data)),
            source_first=first,
            source_last=last,
            next_source_offset=following,
            source_epoch=epoch,
            runs=runs,
            uncompressed_bytes=uncompressed_bytes,
            source_bytes=source_bytes,
            ages=ages,
        )
        for data, first, last, following, epoch, runs, uncompressed_bytes, source_bytes, ages in pieces
    ]


def recompress(batch: RecordBatch, codec: Codec) -> RecordBatch:
    """Give a verified batch of magic 2 another codec; its records are not decoded.

    Raises:
        CorruptBatchError: It does not unpack.
    """
    with _translated():
        data = _native.recompress(batch.view, CODECS.index(codec))
    return RecordBatch(memoryview(data), *HEADER.unpack_from(data))


class SameRecords(NamedTuple):
    """How far two logs are the same: ``compare``."""

    #: How many records are.
    records: int
    #: The offset of each side from which on nothing was compared.
    source: int
    target: int
    #: Whether the next records are not the same; else the batches of one side ended.
    differs: bool


def compare(
    source: Sequence[RecordBatch],
    target: Sequence[RecordBatch],
    source_span: tuple[int, int],
    target_span: tuple[int, int],
    *,
    timestamps: bool,
) -> SameRecords:
    """Compare the records of verified batches of magic 2 in spans of offsets, one by one, until they differ or end.

    Offsets do not count, timestamps only if wanted. Batches that certainly have the same records are not unpacked.

    Raises:
        CorruptBatchError: A batch does not parse.
    """
    try:
        same = _native.compare(
            [batch.view for batch in source],
            [batch.view for batch in target],
            span=source_span,
            other_span=target_span,
            timestamps=timestamps,
        )
    except _native.CorruptError as error:
        raise CorruptBatchError(str(error)) from error
    return SameRecords(*same)


class ComparedKeys(NamedTuple):
    """What two logs have been found to hold: ``KeyComparison``."""

    #: Records whose keys are compared.
    records: int
    target_records: int
    keys: int
    #: Of all keys together.
    key_bytes: int
    #: Whether both sides have the same records in the same order.
    same: bool

    @property
    def memory_bytes(self) -> int:
        """About what the keys take."""
        return self.key_bytes + _KEY_COSTS_BYTES * self.keys


class KeyComparison:
    """Compares the last records of the keys of two logs, and all records in order; as ``last_records.LastRecords``.

    Records are compared by digests of 128 bits, with a secret of this comparison's own; keys as they are.
    """

    def __init__(self, *, timestamps: bool, keys: tuple[int, int], ordered_below: int) -> None:
        """``keys``: bounds of the CRC-32 of the keys that are compared; in order below ``ordered_below``."""
        self._native = _native.KeyComparison(
            secret=os.urandom(16), timestamps=timestamps, keys=keys, ordered_below=ordered_below
        )

    def take(self, side: Literal[0, 1], batches: Sequence[RecordBatch], span: tuple[int, int]) -> None:
        """Take the records in a span of offsets from the next verified batches, of any magic, of the source or target.

        Raises:
            CorruptBatchError: A batch, or a record in the span, does not parse. Nothing is to be taken after that.
        """
        _take(self._native, side, batches, span)

    def found(self) -> ComparedKeys:
        """What was found in all that was taken."""
        return ComparedKeys(*self._native.found())

    def differing_keys(self) -> frozenset[bytes]:
        """The keys whose last records differ; a tombstone counts as no record."""
        return frozenset(self._native.differing_keys())


class CleanedComparison:
    """Compares the records of two compacted logs in order, except for what log cleaning explains.

    As ``compacted.compare_in_order``, by digests as those of ``KeyComparison``. It only ever says that nothing differs.
    """

    def __init__(self, *, timestamps: bool) -> None:
        self._native = _native.CleanedComparison(secret=os.urandom(16), timestamps=timestamps)

    def take(self, side: Literal[0, 1], batches: Sequence[RecordBatch], span: tuple[int, int]) -> None:
        """Take the next records of a side, as ``KeyComparison`` does."""
        _take(self._native, side, batches, span)

    def cleaned(
        self, source_span: tuple[int, int], target_span: tuple[int, int], superseded: Collection[bytes]
    ) -> tuple[int, int] | None:
        """How many records were cleaned on the source and on the target; None: something else may differ.

        ``superseded`` keys have newer records behind the spans.
        """
        found: tuple[int, int] | None = self._native.cleaned(source_span, target_span, list(superseded))
        return found


def _take(comparison: Any, side: int, batches: Sequence[RecordBatch], span: tuple[int, int]) -> None:
    with _translated():
        comparison.take(bool(side), [batch.view for batch in batches], span)
