"""Whether a copy is what it should be: pure, from the records of one partition on both sides."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import zip_longest

from mirror_ray.lab.chaos.records import ChaosRecord, Identity, Placed, identity


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdictByRecords:
    """How many records there are on each side, and the first difference; None where there is none."""

    source_records: int
    target_records: int
    difference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVerdict:
    """How a source differs from what its writers were told."""

    #: Records that are there again: a writer whose answer was lost wrote again, and the broker had forgotten it.
    twice: int
    #: Records of transactions that the source has ended otherwise than it told the writer.
    ended_otherwise: int = 0
    #: Why the run itself is at fault, if it is.
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """What the writers of one partition know of their records."""

    #: Acknowledged, and committed where they were written in a transaction.
    written: AbstractSet[Identity]
    #: Of aborted transactions.
    aborted: AbstractSet[Identity]


def judge_copy(source: Iterable[ChaosRecord], target: Iterable[ChaosRecord]) -> PartitionVerdictByRecords:
    """The target holds what the source holds, in the same order, and nothing else."""
    counts = [0, 0]
    difference: str | None = None
    newest: dict[str, int] = {}
    for wanted, found in zip_longest(source, target):
        counts[0] += wanted is not None
        counts[1] += found is not None
        if difference is None and wanted != found:
            difference = f"record {max(counts) - 1}: {_explain(wanted, found, newest)}"
        if difference is None and found is not None and (who := identity(found)) is not None:
            newest[who.writer] = who.number
    return PartitionVerdictByRecords(source_records=counts[0], target_records=counts[1], difference=difference)


def judge_merged(sources: Sequence[Iterable[ChaosRecord]], target: Iterable[ChaosRecord]) -> PartitionVerdictByRecords:
    """The target holds what several sources hold, of each in its order, and nothing else. Their records all differ."""
    waiting = [deque(source) for source in sources]
    wanted = sum(map(len, waiting))
    difference: str | None = None
    count = 0
    for count, found in enumerate(target, 1):
        if difference is None:
            here = next((queue for queue in waiting if queue and queue[0] == found), None)
            if here is not None:
                here.popleft()
            else:
                difference = f"record {count - 1}: no source has it next: {_short(found)}"
    left = [queue[0] for queue in waiting if queue]
    if difference is None and left:
        difference = f"record {count}: missing: a source has {_short(left[0])}, the target has nothing"
    return PartitionVerdictByRecords(source_records=wanted, target_records=count, difference=difference)


def judge_compacted(source: Iterable[Placed], target: Iterable[Placed], *, cleaned: bool) -> PartitionVerdictByRecords:
    """The target of a source that is compacted all the time.

    What the source holds now is less than what was copied, so the target has all of it, and what else it has is older.
    Its records are in the order in which they were written, none twice, and the last one of each key is the source's.
    With ``cleaned`` the target is compacted too. On either side what the cleaner took has left an offset without a
    record, and a newer record of its key, or none of that key at all; what else one side lacks is a difference.
    """
    there, copy = list(source), list(target)
    problems = [
        _last_of_keys([placed.record for placed in there], [placed.record for placed in copy]),
        _lacking(there, copy, "the target"),
        _lacking(copy, there, "the source"),
        _order(there, copy),
    ]
    if not cleaned:
        problems += [_in_order([placed.record for placed in copy])]
    difference = next((problem for problem in problems if problem is not None), None)
    return PartitionVerdictByRecords(source_records=len(there), target_records=len(copy), difference=difference)


def judge_source(
    records: Iterable[ChaosRecord], known: Acknowledged, *, compacted: bool, transactions: bool
) -> SourceVerdict:
    """Whether the source itself is as its writers know it. A ``compacted`` one may have dropped any record.

    With ``transactions`` the source may have ended one otherwise than it has told the writer. Kafka does so to those
    that end while the only broker is fenced: its TransactionMarkerChannelManager finds no leader, takes the partitions
    for deleted, and leaves the marker out; the records then share the fate of the writer's next transaction.
    """
    seen: set[Identity] = set()
    twice = 0
    for record in records:
        who = identity(record)
        if who is None:
            return SourceVerdict(twice=twice, problem=f"a record that nobody wrote here: {_short(record)}")
        twice += who in seen
        seen.add(who)
    missing, risen = set() if compacted else known.written - seen, known.aborted & seen
    if transactions:
        return SourceVerdict(twice=twice, ended_otherwise=len(missing) + len(risen))
    if missing:
        problem = f"{len(missing)} acknowledged records are not there, the first is {_name(min(missing))}"
        return SourceVerdict(twice=twice, problem=problem)
    return SourceVerdict(twice=twice)


def live_values(records: Iterable[ChaosRecord]) -> Mapping[bytes | None, ChaosRecord]:
    """The last record of each key, without those that a tombstone has ended."""
    last = {record.key: record for record in records}
    return {key: record for key, record in last.items() if record.value is not None}


def _last_of_keys(source: list[ChaosRecord], target: list[ChaosRecord]) -> str | None:
    wanted, found = live_values(source), live_values(target)
    if wanted == found:
        return None
    keys = sorted(key or b"" for key in {*wanted, *found} if wanted.get(key) != found.get(key))
    key = keys[0]
    return (
        f"{len(keys)} keys end with another record, the first is {key!r}:"
        f" the source has {_short(wanted.get(key))}, the target has {_short(found.get(key))}"
    )


def _in_order(target: list[ChaosRecord]) -> str | None:
    newest: dict[str, int] = {}
    for position, record in enumerate(target):
        who = identity(record)
        if who is None:
            return f"record {position}: not one of ours: {_short(record)}"
        before = newest.get(who.writer, -1)
        if who.number <= before:
            return f"record {position}: {_name(who)} comes after {_name(Identity(who.writer, before))}: twice or late"
        newest[who.writer] = who.number
    return None


def _lacking(there: Sequence[Placed], here: Sequence[Placed], who: str) -> str | None:
    """What ``here`` lacks of ``there`` that its cleaner can't have taken."""
    left = Counter(placed.record for placed in here)
    holes = here[-1].offset + 1 - len(here) if here else len(there)
    lasts = {placed.record.key: at for at, placed in enumerate(here)}
    newest = {placed.record.key: at for at, placed in enumerate(there)}
    # Of equal records the first ones are cleaned first.
    for at in range(len(there) - 1, -1, -1):
        record = there[at].record
        left[record] -= 1
        if left[record] >= 0:
            continue
        holes -= 1
        if holes < 0 or (newest[record.key] == at and record.key in lasts):
            return f"offset {there[at].offset}: {who} lacks {_short(record)}"
    return None


def _order(source: Sequence[Placed], target: Sequence[Placed]) -> str | None:
    """What both sides have is in the same order."""
    both = Counter(placed.record for placed in source) & Counter(placed.record for placed in target)
    mine, theirs = _latest(source, both), _latest(target, both)
    for wanted, found in zip(mine, theirs, strict=True):
        if wanted.record != found.record:
            return f"offset {found.offset}: out of order: the source has {_short(wanted.record)} there"
    return None


def _latest(records: Sequence[Placed], wanted: Counter[ChaosRecord]) -> list[Placed]:
    """So many of each record as are wanted, the last ones, in their order."""
    left = wanted.copy()
    found = []
    for placed in reversed(records):
        if left[placed.record] > 0:
            left[placed.record] -= 1
            found.append(placed)
    return found[::-1]


def _explain(wanted: ChaosRecord | None, found: ChaosRecord | None, newest: Mapping[str, int]) -> str:
    text = f"the source has {_short(wanted)}, the target has {_short(found)}"
    who = identity(found) if found is not None else None
    due = identity(wanted) if wanted is not None else None
    if found is None:
        return f"missing: {text}"
    if who is None or who == due:
        return f"changed: {text}"
    if who.number <= newest.get(who.writer, -1):
        return f"twice or late: {text}"
    return f"missing before it, or never committed: {text}"


def _name(who: Identity) -> str:
    return f"{who.writer} {who.number}"


def _short(record: ChaosRecord | None) -> str:
    if record is None:
        return "nothing"
    who = identity(record)
    if who is None:
        return repr(record)[:200]
    key = f" with key {record.key!r}" if record.key is not None else ""
    return f"{_name(who)}{key} of {record.timestamp_ms}{' (tombstone)' if record.value is None else ''}"
