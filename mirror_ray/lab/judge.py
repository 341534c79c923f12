"""Whether a copy equals its source: by counts of hashes, or record by record with the first difference named."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from itertools import zip_longest

from mirror_ray.lab.load_record import LoadRecord, PlacedRecord, RecordId, record_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """What became of the records, over all partitions."""

    copied: int = 0
    lost: int = 0
    doubled: int = 0
    #: On the target and not on the source.
    foreign: int = 0
    #: Partitions that hold all records, in another order.
    reordered: int = 0

    @property
    def equal(self) -> bool:
        """Whether every record is there, once and in order."""
        return not (self.lost or self.doubled or self.foreign or self.reordered)

    def __add__(self, other: CopyResult) -> CopyResult:
        mine, theirs = asdict(self), asdict(other)
        return CopyResult(**{name: mine[name] + theirs[name] for name in mine})


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyVerdict:
    """How many records each side of a partition holds, and the first difference; None: there is none."""

    source_records: int
    target_records: int
    difference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVerdict:
    """How a source partition differs from what its writers were told."""

    #: Records that are there again: a writer whose answer was lost wrote again, and the broker had forgotten it.
    twice: int
    #: Records of transactions that the source has ended otherwise than it told the writer.
    ended_otherwise: int = 0
    #: Why the run itself is at fault, if it is.
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedIds:
    """What the writers of one partition know of their records."""

    #: Acknowledged, and committed where they were written in a transaction.
    written: AbstractSet[RecordId]
    #: Of aborted transactions.
    aborted: AbstractSet[RecordId]


def count_differences(source: array[int], copy: array[int], *, finished: bool) -> CopyResult:
    """Compare one partition by its records' hashes: 64 bits of everything that a copy must keep, in order.

    ``finished``: all was to be copied. If not, nothing after the last copied record counts as lost.
    """
    if source == copy:
        return CopyResult(copied=len(copy))
    found = Counter(copy)
    if not finished:
        copied = [index for index, record in enumerate(source) if record in found]
        source = source[: copied[-1] + 1] if copied else source[:0]
    wanted = Counter(source)
    lost, surplus = wanted - found, found - wanted
    foreign = sum(count for record, count in surplus.items() if record not in wanted)
    doubled = sum(surplus.values()) - foreign
    return CopyResult(
        copied=len(copy) - doubled - foreign,
        lost=sum(lost.values()),
        doubled=doubled,
        foreign=foreign,
        reordered=int(not lost and not surplus and source != copy),
    )


def judge_copy(source: Iterable[LoadRecord], target: Iterable[LoadRecord]) -> CopyVerdict:
    """The target holds what the source holds, in the same order, and nothing else."""
    counts = [0, 0]
    difference: str | None = None
    newest: dict[str, int] = {}
    for wanted, found in zip_longest(source, target):
        counts[0] += wanted is not None
        counts[1] += found is not None
        if difference is None and wanted != found:
            difference = f"record {max(counts) - 1}: {_explain(wanted, found, newest)}"
        if difference is None and found is not None and (found_id := record_id(found)) is not None:
            newest[found_id.writer] = found_id.number
    return CopyVerdict(source_records=counts[0], target_records=counts[1], difference=difference)


def judge_merged(sources: Sequence[Iterable[LoadRecord]], target: Iterable[LoadRecord]) -> CopyVerdict:
    """The target holds what several sources hold, each in its order, and nothing else. All records differ."""
    waiting = [deque(source) for source in sources]
    wanted = sum(map(len, waiting))
    difference: str | None = None
    count = 0
    for count, found in enumerate(target, 1):
        if difference is None:
            queue = next((queue for queue in waiting if queue and queue[0] == found), None)
            if queue is not None:
                queue.popleft()
            else:
                difference = f"record {count - 1}: no source has it next: {_short(found)}"
    left = [queue[0] for queue in waiting if queue]
    if difference is None and left:
        difference = f"record {count}: missing: a source has {_short(left[0])}, the target has nothing"
    return CopyVerdict(source_records=wanted, target_records=count, difference=difference)


def judge_compacted(source: Iterable[PlacedRecord], target: Iterable[PlacedRecord], *, cleaned: bool) -> CopyVerdict:
    """The target of a source that is compacted all the time.

    The source holds less now than was copied, so the target has all of it, and what else the target has is older. The
    target's records are in the order in which they were written, none twice, and the last one of each key is the
    source's. With ``cleaned`` the target is compacted too. On either side a record that the cleaner took has left an
    offset gap, and a newer record of its key, or none of that key at all; whatever else one side lacks is a difference.
    """
    source_records, target_records = list(source), list(target)
    problems = [
        _last_of_keys([placed.record for placed in source_records], [placed.record for placed in target_records]),
        _lacking(source_records, target_records, "the target"),
        _lacking(target_records, source_records, "the source"),
        _out_of_order(source_records, target_records),
    ]
    if not cleaned:
        problems += [_twice_or_late([placed.record for placed in target_records])]
    difference = next((problem for problem in problems if problem is not None), None)
    return CopyVerdict(source_records=len(source_records), target_records=len(target_records), difference=difference)


def judge_source(
    records: Iterable[LoadRecord], known: AcknowledgedIds, *, compacted: bool, transactions: bool
) -> SourceVerdict:
    """Whether a source partition is as its writers know it. A ``compacted`` one may have dropped any record.

    With ``transactions`` the source may have ended one otherwise than it has told the writer. Kafka does so to those
    that end while the only broker is fenced: its TransactionMarkerChannelManager finds no leader, takes the partitions
    for deleted, and leaves the marker out; the records then share the fate of the writer's next transaction.
    """
    ids: set[RecordId] = set()
    twice = 0
    for record in records:
        found = record_id(record)
        if found is None:
            return SourceVerdict(twice=twice, problem=f"a record that nobody wrote here: {_short(record)}")
        twice += found in ids
        ids.add(found)
    missing, risen = set() if compacted else known.written - ids, known.aborted & ids
    if transactions:
        return SourceVerdict(twice=twice, ended_otherwise=len(missing) + len(risen))
    if missing:
        problem = f"{len(missing)} acknowledged records are not there, the first is {_name(min(missing))}"
        return SourceVerdict(twice=twice, problem=problem)
    return SourceVerdict(twice=twice)


def live_values(records: Iterable[LoadRecord]) -> Mapping[bytes | None, LoadRecord]:
    """The last record of each key, without keys that end with a tombstone."""
    last = {record.key: record for record in records}
    return {key: record for key, record in last.items() if record.value is not None}


def _last_of_keys(source: list[LoadRecord], target: list[LoadRecord]) -> str | None:
    wanted, found = live_values(source), live_values(target)
    if wanted == found:
        return None
    keys = sorted(key or b"" for key in {*wanted, *found} if wanted.get(key) != found.get(key))
    key = keys[0]
    return (
        f"{len(keys)} keys end with another record, the first is {key!r}:"
        f" the source has {_short(wanted.get(key))}, the target has {_short(found.get(key))}"
    )


def _twice_or_late(target: list[LoadRecord]) -> str | None:
    newest: dict[str, int] = {}
    for position, record in enumerate(target):
        found = record_id(record)
        if found is None:
            return f"record {position}: not one of ours: {_short(record)}"
        before = newest.get(found.writer, -1)
        if found.number <= before:
            return (
                f"record {position}: {_name(found)} comes after {_name(RecordId(found.writer, before))}: twice or late"
            )
        newest[found.writer] = found.number
    return None


def _lacking(held: Sequence[PlacedRecord], other: Sequence[PlacedRecord], side: str) -> str | None:
    """What the ``other`` side lacks of the ``held`` records that its cleaner can't have taken."""
    left = Counter(placed.record for placed in other)
    gaps = other[-1].offset + 1 - len(other) if other else len(held)
    other_keys = {placed.record.key for placed in other}
    newest = {placed.record.key: index for index, placed in enumerate(held)}
    # Of equal records the first ones are cleaned first.
    for index in range(len(held) - 1, -1, -1):
        record = held[index].record
        left[record] -= 1
        if left[record] >= 0:
            continue
        gaps -= 1
        if gaps < 0 or (newest[record.key] == index and record.key in other_keys):
            return f"offset {held[index].offset}: {side} lacks {_short(record)}"
    return None


def _out_of_order(source: Sequence[PlacedRecord], target: Sequence[PlacedRecord]) -> str | None:
    """The first record that both sides have and that is in another order on the target."""
    both = Counter(placed.record for placed in source) & Counter(placed.record for placed in target)
    for wanted, found in zip(_latest(source, both), _latest(target, both), strict=True):
        if wanted.record != found.record:
            return f"offset {found.offset}: out of order: the source has {_short(wanted.record)} there"
    return None


def _latest(records: Sequence[PlacedRecord], wanted: Counter[LoadRecord]) -> list[PlacedRecord]:
    """As many of each record as are wanted, the last ones, in order."""
    left = wanted.copy()
    found = []
    for placed in reversed(records):
        if left[placed.record] > 0:
            left[placed.record] -= 1
            found.append(placed)
    return found[::-1]


def _explain(wanted: LoadRecord | None, found: LoadRecord | None, newest: Mapping[str, int]) -> str:
    text = f"the source has {_short(wanted)}, the target has {_short(found)}"
    found_id = record_id(found) if found is not None else None
    wanted_id = record_id(wanted) if wanted is not None else None
    if found is None:
        return f"missing: {text}"
    if found_id is None or found_id == wanted_id:
        return f"changed: {text}"
    if found_id.number <= newest.get(found_id.writer, -1):
        return f"twice or late: {text}"
    return f"missing before it, or never committed: {text}"


def _name(written: RecordId) -> str:
    return f"{written.writer} {written.number}"


def _short(record: LoadRecord | None) -> str:
    if record is None:
        return "nothing"
    found = record_id(record)
    if found is None:
        return repr(record)[:200]
    key = f" with key {record.key!r}" if record.key is not None else ""
    return f"{_name(found)}{key} of {record.timestamp_ms}{' (tombstone)' if record.value is None else ''}"
