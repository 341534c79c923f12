"""Random logs and their copies, as batches: passed on, split, recompressed, with faults; and what is equal of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from hypothesis import strategies as st

from mirror_ray.records.batch import CODECS, Codec, RecordBatch, iter_batches, verify
from mirror_ray.records.codecs import compress
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.verification.batch_comparison import LogPiece, LogPieces, RangeComparison
from mirror_ray.verification.ranges import ComparedRange
from tests.unit.records.strategies import Plain, batch_bytes, message, payload

Kept = Callable[[list[DecodedRecord]], list[DecodedRecord]]


def batch_of(
    records: Sequence[Plain],
    *,
    base: int | None = None,
    last: int | None = None,
    codec: Codec = "none",
    base_timestamp: int | None = None,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> RecordBatch:
    """One of magic 2, checked as when it was read."""
    first = records[0].offset if base is None else base
    stamp = records[0].timestamp if base_timestamp is None else base_timestamp
    data = compress(codec, payload(records, first, stamp))
    written = batch_bytes(
        records,
        base_offset=first,
        last_offset=last,
        base_timestamp=stamp,
        attributes=attributes | CODECS.index(codec),
        producer=producer,
        data=data,
    )
    (batch,) = iter_batches(memoryview(written))
    verify(batch)
    return batch


def old_messages(records: Sequence[Plain]) -> RecordBatch:
    """The same without headers, as one compressed message of magic 1: its offset is that of the last one."""
    first, last = records[0].offset, records[-1].offset
    inner = b"".join(message(1, r.offset - first, r.value, key=r.key, timestamp=r.timestamp) for r in records)
    outer = message(1, last, compress("gzip", inner), timestamp=0, attributes=CODECS.index("gzip"))
    (batch,) = iter_batches(memoryview(outer))
    verify(batch)
    return batch


class Copied(NamedTuple):
    """A log and its copy, and ranges of both."""

    source: list[RecordBatch]
    target: list[RecordBatch]
    ranges: list[ComparedRange]


@dataclass(frozen=True, slots=True)
class _Group:
    """Records that were produced together, and what the copy made of them."""

    records: list[Plain]
    codec: Codec
    old: bool
    fate: str


_FATES = ("passed on", "passed on", "passed on", "split", "recompressed", "stamped anew", "merged", "merged")
_FAULTS = ("none", "none", "lost", "doubled", "swapped", "moved", "value", "timestamp", "batch doubled", "batch lost")


@st.composite
def copied_logs(draw: st.DrawFn) -> Copied:
    """Up to a few dozen records in small batches; most copies have no fault or one."""
    groups = _groups(draw)
    source = [old_messages(group.records) if group.old else _produced(group) for group in groups]
    target = _copies(draw, groups)
    _fault(draw, target)
    placed = _placed(draw, target)
    mine = [record.offset for group in groups for record in group.records]
    theirs = [offset for batch in placed for offset in (record.offset for record in records_of(batch))]
    return Copied(source, placed, _ranges(draw, mine, theirs))


def _groups(draw: st.DrawFn) -> list[_Group]:
    offset, groups = draw(st.integers(0, 3)), []
    for _ in range(draw(st.integers(1, 7))):
        records = []
        holes = draw(st.sampled_from((1, 1, 1, 3)))
        for _ in range(draw(st.integers(1, 6))):
            value = draw(st.sampled_from((b"a", b"b", None)))
            headers = draw(st.sampled_from(((), (), ((b"h", b"x"),))))
            records.append(Plain(offset=offset, timestamp=draw(st.integers(5, 7)), value=value, headers=headers))
            offset += draw(st.integers(1, holes))
        old = not any(record.headers for record in records) and draw(st.integers(0, 5)) == 0
        codec: Codec = draw(st.sampled_from(("none", "zstd", "lz4")))
        groups.append(_Group(records, codec, old, "split" if old else draw(st.sampled_from(_FATES))))
        # Markers and aborted records.
        offset += draw(st.sampled_from((0, 0, 2)))
    return groups


def _produced(group: _Group) -> RecordBatch:
    return batch_of(group.records, codec=group.codec, producer=(7, 0, 3), attributes=0x10)


def _copies(draw: st.DrawFn, groups: Sequence[_Group]) -> list[tuple[list[Plain], Codec]]:
    """The records of each batch of the target; their offsets still are the source's."""
    target: list[tuple[list[Plain], Codec]] = []
    for group in groups:
        records, codec = group.records, group.codec
        match group.fate:
            case "split":
                middle = draw(st.integers(0, len(records)))
                target += [(part, codec) for part in (records[:middle], records[middle:]) if part]
            case "recompressed":
                target.append((records, draw(st.sampled_from(("none", "gzip", "snappy")))))
            case "merged" if target:
                before, _ = target.pop()
                target.append(([*before, *records], draw(st.sampled_from(("none", "zstd")))))
            case "stamped anew":
                target.append(([replace(record, timestamp=record.timestamp + 100) for record in records], codec))
            case _:
                target.append((records, codec))
    return target


def _fault(draw: st.DrawFn, target: list[tuple[list[Plain], Codec]]) -> None:
    at = draw(st.sampled_from((0, len(target) // 2, len(target) - 1)))
    records, codec = target[at]
    number = draw(st.integers(0, len(records) - 1))
    record = records[number]
    changed = list(records)
    match draw(st.sampled_from(_FAULTS)):
        case "lost":
            del changed[number]
        case "doubled":
            changed.insert(number, record)
        case "swapped":
            changed[number - 1 : number + 1] = reversed(changed[number - 1 : number + 1])
        case "moved":
            del changed[number]
            target.insert(draw(st.integers(at + 1, len(target))), ([record], codec))
        case "value":
            changed[number] = replace(record, value=b"c")
        case "timestamp":
            changed[number] = replace(record, timestamp=record.timestamp + 1)
        case "batch doubled":
            target.insert(at, target[at])
        case "batch lost":
            changed = []
    target[at] = changed, codec
    target[:] = [batch for batch in target if batch[0]]


def _placed(draw: st.DrawFn, target: Sequence[tuple[list[Plain], Codec]]) -> list[RecordBatch]:
    """Where they lie on the target. Batches that had holes keep them, now and then."""
    offset, placed = draw(st.integers(0, 9)), []
    for records, codec in target:
        first = records[0].offset
        deltas = [record.offset - first for record in records]
        if any(later <= earlier for earlier, later in pairwise(deltas)) or draw(st.booleans()):
            deltas = list(range(len(records)))
        there = [replace(record, offset=offset + delta) for record, delta in zip(records, deltas, strict=True)]
        placed.append(batch_of(there, codec=codec, producer=(9, 1, 0)))
        offset = there[-1].offset + 1 + draw(st.sampled_from((0, 0, 1)))
    return placed


def _ranges(draw: st.DrawFn, mine: Sequence[int], theirs: Sequence[int]) -> list[ComparedRange]:
    """Between pairs of records of the same number, or nearly so; some are left out."""
    # Behind the last record there may be a marker.
    ends = mine[-1] + 1 + draw(st.integers(0, 1)), (theirs[-1] + 1 if theirs else 0) + draw(st.integers(0, 1))
    cuts = sorted(draw(st.sets(st.integers(0, max(len(mine), len(theirs))), min_size=2, max_size=6)))
    shift = draw(st.sampled_from((0, 0, 0, 1)))
    pairs = [(_at(mine, cut, ends[0]), _at(theirs, cut + shift, ends[1])) for cut in cuts]
    ranges = [ComparedRange(here[0], there[0], here[1], there[1]) for here, there in pairwise(pairs)]
    return [span for span in ranges if draw(st.integers(0, 4))]


def _at(offsets: Sequence[int], number: int, end: int) -> int:
    return offsets[number] if number < len(offsets) else end


def by_record(copied: Copied, kept: Kept | None, *, timestamps: bool) -> list[int | None]:
    """What is to be found: all opened, each range by itself."""

    def seen(batches: Sequence[RecordBatch], first: int, end: int, change: Kept | None) -> list[tuple[int, bytes]]:
        records = [record for batch in batches for record in records_of(batch)]
        left = change(records) if change else records
        return [(record.timestamp if timestamps else 0, record.tail) for record in left if first <= record.offset < end]

    found: list[int | None] = []
    for span in copied.ranges:
        mine = seen(copied.source, span.source, span.source_end, kept)
        theirs = seen(copied.target, span.target, span.target_end, None)
        found.append(len(mine) if mine == theirs else None)
    return found


def compared(
    copied: Copied,
    *,
    timestamps: bool = True,
    kept: Kept | None = None,
    pieces: tuple[int, int] = (1, 1),
    opened: bool = False,
) -> list[int | None]:
    """What the comparison finds, fed with so many pieces at a time; ``opened``: with records instead of batches."""
    comparison = RangeComparison(copied.ranges, timestamps=timestamps, transform=kept)
    sides = (comparison.source, comparison.target)
    left: list[list[LogPiece]] = [
        [records_of(batch) if opened and kept is None else batch for batch in log] for log in copied[:2]
    ]
    comparison.step()
    while not comparison.done:
        assert any(side.wants for side in sides)
        for side, log, size in zip(sides, left, pieces, strict=True):
            if side.wants:
                _feed(side, log, size)
        comparison.step()
    return comparison.found


def _feed(side: LogPieces, log: list[LogPiece], size: int) -> None:
    side.feed(log[:size] or None)
    del log[:size]
