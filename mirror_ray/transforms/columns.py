"""The records of batches for transforms, field by field: by the record kernel where it is there, or in Python."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, Protocol

from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.model.names import TopicPartition
from mirror_ray.records import kernel
from mirror_ray.records.batch import HEADER_BYTES, Codec, RecordBatch
from mirror_ray.records.batch_run import BatchRun, single_batches
from mirror_ray.records.decode import HEADERS_LIMIT, DecodedRecord, read_varint, records_from
from mirror_ray.records.repack import encode, pack
from mirror_ray.records.repacked_batch import RepackedBatch
from mirror_ray.transforms.framing import Framing, IdIssue, IdTranslations, SchemaIdTranslator, TranslatedIds
from mirror_ray.transforms.record import ENCODING, FIELDS, UNREAD, Fields, Headers, Record, encode_result

#: Of a record in a batch, beside key, value and headers.
_LEAST_PREFIX_BYTES: Final = 4

_new_record: Final[Callable[[tuple[Any, ...]], Record]] = partial(tuple.__new__, Record)


class RecordColumns(Protocol):
    """Records, known by their numbers from 0 on. Columns have the source's fields of all of them, in order."""

    def __len__(self) -> int: ...

    def offsets(self) -> Sequence[int]:
        """Source offsets."""

    def timestamps(self) -> Sequence[int]:
        """In milliseconds since the epoch."""

    def keys(self) -> Sequence[bytes | None]:
        """None: it has none."""

    def values(self) -> Sequence[bytes | None]:
        """None: a tombstone."""

    def headers(self) -> Sequence[Headers]:
        """In their order."""

    def decoded(self, numbers: Sequence[int]) -> list[DecodedRecord]:
        """Records with what was changed."""

    def change(self, numbers: Sequence[int], results: Sequence[Record]) -> list[tuple[int, Exception]]:
        """Change records to what transforms made of them; returns the numbers of those that can't be written, and why.

        A field that is ``UNREAD`` stays as the source has it, and a record that comes out the same keeps its bytes.
        """

    def translate(
        self, numbers: Sequence[int], translations: IdTranslations, *, key: Framing, value: Framing
    ) -> TranslatedIds:
        """Change the schema ids of records, with what was changed before; the last that is done to them.

        A record with an id that the source registry does not have is left as it is. Where an id is not known, or looks
        like one in an undecided field, all are.
        """

    def pack(
        self, numbers: Sequence[int], *, codec: Codec, max_batch_bytes: int, merge_bytes: int = 0
    ) -> list[RepackedBatch]:
        """Encode records with what was changed, as ``repack.pack`` does; ``numbers`` ascend.

        Of several batches, what is left of another one is added to a new batch as long as it fits into ``merge_bytes``
        before compression.

        Raises:
            RecordTooLargeError: A record alone is over ``max_batch_bytes``.
        """


def columns_of(
    batches: Sequence[RecordBatch | BatchRun], from_offset: int, leave_out: Sequence[tuple[int, int]]
) -> RecordColumns:
    """Open verified batches: their records from ``from_offset`` on, without those in the ranges ``leave_out``.

    A range does not include its end.

    Raises:
        CorruptBatchError: A batch or a record does not parse.
    """
    if kernel.is_available():
        return KernelColumns(kernel.columns(batches, from_offset, leave_out))
    records: list[DecodedRecord] = []
    ends: list[tuple[RecordBatch, int]] = []
    for batch in single_batches(batches):
        records += records_from(batch, from_offset, leave_out)
        ends.append((batch, len(records)))
    return DecodedColumns(records, ends)


def read_records(columns: RecordColumns, source: TopicPartition, reads: Collection[str] = FIELDS) -> list[Record]:
    """Make the records of a source partition, with the fields that are read."""
    rows = zip(
        columns.keys() if "key" in reads else repeat(UNREAD[0]),
        columns.values() if "value" in reads else repeat(UNREAD[1]),
        columns.headers() if "headers" in reads else repeat(UNREAD[2]),
        columns.timestamps(),
        repeat(source.topic),
        repeat(source.partition),
        columns.offsets(),
        repeat(""),
        strict=False,
    )
    return list(map(_new_record, rows))


class KernelColumns:
    """By the record kernel: bytes become Python's when they are asked for."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self.offsets, self.timestamps = native.offsets, native.timestamps
        self.keys, self.values, self.headers = native.keys, native.values, native.headers

    def __len__(self) -> int:
        return len(self._native)

    def decoded(self, numbers: Sequence[int]) -> list[DecodedRecord]:
        """Copy records out of the kernel."""
        return list(map(DecodedRecord._make, self._native.decoded(numbers)))

    def change(self, numbers: Sequence[int], results: Sequence[Record]) -> list[tuple[int, Exception]]:
        """By the kernel; what is not of the usual types is written, or refused, by the reference."""
        failures: list[tuple[int, Exception]] = []
        left = self._native.change(numbers, results, UNREAD)
        by_number = dict(zip(numbers, results, strict=True)) if left else {}
        for number in left:
            (source,) = self.decoded([number])
            try:
                _, timestamp_ms, tail = encode_result(by_number[number], source, fields_of(source))
            except (TypeError, ValueError, AttributeError) as error:
                failures.append((number, error))
            else:
                self._native.replace(number, timestamp_ms, tail)
        return failures

    def translate(
        self, numbers: Sequence[int], translations: IdTranslations, *, key: Framing, value: Framing
    ) -> TranslatedIds:
        """By the kernel; a range of numbers takes no object for each."""
        translated, unframed, issues = kernel.translate_columns(
            self._native, numbers, translations.native, key=key, value=value
        )
        return TranslatedIds(translated, unframed, list(map(IdIssue._make, issues)))

    def pack(
        self, numbers: Sequence[int], *, codec: Codec, max_batch_bytes: int, merge_bytes: int = 0
    ) -> list[RepackedBatch]:
        """By the kernel."""
        return kernel.pack_columns(
            self._native, numbers, codec=codec, merge_bytes=merge_bytes, max_batch_bytes=max_batch_bytes
        )


class DecodedColumns:
    """The reference, in Python."""

    def __init__(self, records: Sequence[DecodedRecord], batches: Sequence[tuple[RecordBatch, int]] = ()) -> None:
        """``batches``: those that they are from, and the number behind the last record of each; to be packed by.

        Raises:
            CorruptBatchError: The bytes of one are no record.
        """
        self._records = list(records)
        self._fields = _parsed(records)
        self._batches = batches

    def __len__(self) -> int:
        return len(self._records)

    def offsets(self) -> Sequence[int]:
        """Source offsets."""
        return [record.offset for record in self._records]

    def timestamps(self) -> Sequence[int]:
        """In milliseconds since the epoch."""
        return [record.timestamp for record in self._records]

    def keys(self) -> Sequence[bytes | None]:
        """None: it has none."""
        return [key for key, _, _ in self._fields]

    def values(self) -> Sequence[bytes | None]:
        """None: a tombstone."""
        return [value for _, value, _ in self._fields]

    def headers(self) -> Sequence[Headers]:
        """In their order."""
        return [headers for _, _, headers in self._fields]

    def decoded(self, numbers: Sequence[int]) -> list[DecodedRecord]:
        """Records as they are by now."""
        return [self._records[number] for number in numbers]

    def change(self, numbers: Sequence[int], results: Sequence[Record]) -> list[tuple[int, Exception]]:
        """One by one."""
        failures: list[tuple[int, Exception]] = []
        for number, result in zip(numbers, results, strict=True):
            try:
                self._records[number] = encode_result(result, self._records[number], self._fields[number])
            except (TypeError, ValueError, AttributeError) as error:
                failures.append((number, error))
        return failures

    def translate(
        self, numbers: Sequence[int], translations: IdTranslations, *, key: Framing, value: Framing
    ) -> TranslatedIds:
        """One by one."""
        translator = SchemaIdTranslator(translations, key, value)
        made = [(number, translator.translate(number, self._records[number].tail)) for number in numbers]
        if not translator.waits:
            for number, tail in made:
                self._records[number] = self._records[number]._replace(tail=tail)
        return translator.done

    def pack(
        self, numbers: Sequence[int], *, codec: Codec, max_batch_bytes: int, merge_bytes: int = 0
    ) -> list[RepackedBatch]:
        """Batch by batch."""
        pieces: list[RepackedBatch] = []
        waiting: list[DecodedRecord] = []
        waiting_bytes, last, begin = 0, None, 0
        for batch, stop in self._batches:
            end = bisect_left(numbers, stop, begin)
            kept = self.decoded(numbers[begin:end])
            size_bytes = sum(_LEAST_PREFIX_BYTES + len(record.tail) for record in kept)
            full = bool(kept) and waiting_bytes + size_bytes > merge_bytes
            if last is not None and waiting and (full or batch.partition_leader_epoch != last.partition_leader_epoch):
                pieces += pack(waiting, last, max_batch_bytes=max_batch_bytes, codec=codec)
                waiting = []
            waiting += kept
            waiting_bytes = (
                encode(waiting, "none").size_bytes - HEADER_BYTES if waiting and len(self._batches) > 1 else 0
            )
            last, begin = batch, end
        if last is not None:
            pieces += pack(waiting, last, max_batch_bytes=max_batch_bytes, codec=codec)
        return pieces


def fields_of(record: DecodedRecord) -> Fields:
    """Key, value and headers.

    Raises:
        CorruptBatchError: The bytes are no record.
    """
    key, value, headers = record.fields()
    return key, value, tuple((name.decode(*ENCODING), content) for name, content in headers)


def _parsed(records: Sequence[DecodedRecord]) -> list[Fields]:
    found: list[Fields] = []
    append, header_count = found.append, 0
    for record in records:
        tail = record.tail
        try:
            # Lengths of up to two bytes are read in place: calls would take as long as all the rest.
            low = tail[0]
            if low < 0x80:
                size, at = low >> 1 ^ -(low & 1), 1
            else:
                size, at = read_varint(tail, 0)
            stop = at + size if size >= 0 else at
            key = tail[at:stop] if size >= 0 else None
            low, high = tail[stop], tail[stop + 1]
            if low < 0x80:
                size, at = low >> 1 ^ -(low & 1), stop + 1
            elif high < 0x80:
                low = low & 0x7F | high << 7
                size, at = low >> 1 ^ -(low & 1), stop + 2
            else:
                size, at = read_varint(tail, stop)
            stop = at + size if size >= 0 else at
            value = tail[at:stop] if size >= 0 else None
            plain = tail[stop] == 0 and stop + 1 == len(tail)
        except IndexError:
            plain = False
        if plain:
            append((key, value, ()))
            continue
        fields = fields_of(record)
        append(fields)
        header_count += len(fields[2])
        if header_count > HEADERS_LIMIT:
            raise CorruptBatchError(f"batch with source offset {record.offset}: more than {HEADERS_LIMIT} headers")
    return found
