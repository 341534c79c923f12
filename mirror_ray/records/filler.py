"""Filler records: they take offsets in a log, and say nothing.

Where offsets are preserved, those that have no record on the source are filled on the target (docs/decisions/0012).
Fillers in an aborted transaction are seen by ``read_uncommitted`` consumers alone, who know them by ``FILLER_HEADER``.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Final

from mirror_ray.records.batch import CODECS, HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, RecordBatch
from mirror_ray.records.codecs import compress
from mirror_ray.records.decode import record_tail, records_of, write_varint

#: On each filler that a consumer may see. Its value is null, as the record's.
FILLER_HEADER: Final = b"mirror-ray.filler"
#: A compacted topic takes no record without a key.
_KEY: Final = b"mirror-ray.filler"

_MARKED: Final = record_tail(_KEY, None, ((FILLER_HEADER, None),))
_PLAIN: Final = record_tail(None, None)
#: What a batch of fillers takes at most, beside two bytes for each of them.
_OVERHEAD_BYTES: Final = 200
#: Payloads that are kept: most gaps are small, and a prefix is made of equal batches.
_PAYLOADS: Final = 64


def filler_batch(count: int, timestamp_ms: int, *, marked: bool) -> RecordBatch:
    """A batch of ``count`` fillers, in a buffer of its own, to be completed by ``rewrite``.

    Each has a header and a key if ``marked``; others have to be deleted before a consumer may see them.
    """
    payload = _payload(count, _MARKED if marked else _PLAIN)
    view = memoryview(bytearray(HEADER_BYTES + len(payload)))
    view[HEADER_BYTES:] = payload
    length = len(view) - LOG_OVERHEAD_BYTES
    fields = (0, length, -1, 2, 0, CODECS.index("zstd"), count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    HEADER.pack_into(view, 0, *fields)
    return RecordBatch(view, *fields)


def most_fillers(max_message_bytes: int, wanted: int) -> int:
    """As many of ``wanted`` fillers, at least one, as a topic takes in one batch."""
    return max(1, min(wanted, (max_message_bytes - _OVERHEAD_BYTES) // 2))


def is_filler(batch: RecordBatch) -> bool:
    """Whether a batch that was read holds fillers of an aborted transaction.

    Raises:
        CorruptBatchError: It does not parse.
    """
    if not batch.is_transactional or batch.is_control:
        return False
    return any(name == FILLER_HEADER for record in islice(records_of(batch), 1) for name, _ in record.headers)


@lru_cache(maxsize=_PAYLOADS)
def _payload(count: int, tail: bytes) -> bytes:
    """The records, compressed; they do not depend on the timestamp, which all have in common."""
    parts: list[bytes] = []
    for number in range(count):
        body = b"\0\0" + write_varint(number) + tail
        parts += (write_varint(len(body)), body)
    return compress("zstd", b"".join(parts))
