"""What is told of a partition: equal or explained only what was compared, whatever happens to the logs meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.state.records import SkippedRange
from mirror_ray.verification.difference import Difference
from mirror_ray.verification.first_pass import InProcessFirstPass
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.partition_log import PartitionLog, RemovedError
from mirror_ray.verification.ranges import ComparedRange, PositionPair
from mirror_ray.verification.report import PartitionVerdict
from mirror_ray.verification.second_pass import MAX_KEYS, FindPair, SecondPass
from tests.support.factories import compare_job
from tests.unit.records.strategies import Plain
from tests.unit.verification.logged import batch_of
from tests.unit.verification.test_known_differences import foreign, refused, source_lost, target_lost

pytestmark = pytest.mark.usefixtures("either")


@dataclass
class Held:
    """A log in memory. ``before_read`` is called with the number of each read, and may change it."""

    kept: list[DecodedRecord]
    first: int = 0
    before_read: Callable[[Held, int], None] = lambda _log, _read: None
    reads: int = field(default=0, init=False)

    transform = None

    async def start(self) -> int:
        return self.first

    async def end(self) -> int:
        return self.kept[-1].offset + 1 if self.kept else self.first

    async def records(self, start: int, end: int) -> AsyncIterator[list[DecodedRecord]]:
        self.reads += 1
        self.before_read(self, self.reads)
        if start < self.first and start < end:
            raise RemovedError(self.first)
        found = [record for record in self.kept if start <= record.offset < end]
        for at in range(0, len(found), 500):
            yield found[at : at + 500]

    async def batches(self, start: int, end: int) -> AsyncIterator[list[RecordBatch]]:
        async for found in self.records(start, end):
            yield [batch_of([plain_record(record) for record in found])]

    def remove(self, before: int) -> None:
        self.first = before
        self.kept = [record for record in self.kept if record.offset >= before]


def plain_record(record: DecodedRecord) -> Plain:
    """The same, to be written."""
    key, value, headers = record.fields()
    return Plain(offset=record.offset, timestamp=record.timestamp, key=key, value=value, headers=headers)


def record(offset: int, key: str, value: bytes | None = b"value") -> DecodedRecord:
    """One with that key."""
    return DecodedRecord(offset, 5, record_tail(key.encode(), value))


def log_of(keys: list[str], first: int = 0) -> list[DecodedRecord]:
    """A record of each key."""
    return [record(first + number, key) for number, key in enumerate(keys)]


def numbered(numbers: range, subtract_spans: range = range(0)) -> list[str]:
    """Keys, each of its own."""
    return [f"key {number}" for number in numbers if number not in subtract_spans]


def both(count: int, lost: range = range(0), *, removed_before: int = 0) -> tuple[Held, Held]:
    """A log of so many keys and its copy, which lacks some; retention comes when the source is read first."""
    source, target = Held(log_of(numbered(range(count)))), Held(log_of(numbered(range(count), lost)))
    source.before_read = removing(1, removed_before)
    return source, target


def removing(at_read: int, before: int) -> Callable[[Held, int], None]:
    """Retention comes when the log is read for that time."""
    return lambda log, read: log.remove(before) if read == at_read else None


def job_of(source: Held, target: Held, *gaps: SkippedRange, **changes: Any) -> CompareJob:
    """All that both have."""
    end = PositionPair(source.kept[-1].offset + 1, target.kept[-1].offset + 1)
    return compare_job(PositionPair(0, 0), end, *changes.pop("ranges", ()), skipped_ranges=gaps, **changes)


async def not_known(_job: CompareJob, _source: int, _target: int) -> PositionPair | None:
    """There is no map."""
    return None


async def same(_job: CompareJob, source: int, target: int) -> PositionPair | None:
    """Both sides have the same offsets."""
    return PositionPair(max(source, target), max(source, target))


def pair(found: PositionPair) -> FindPair:
    """That one is known."""

    async def begin_at(_job: CompareJob, source: int, target: int) -> PositionPair | None:
        return found if found >= (source, target) else None

    return begin_at


async def verdict(job: CompareJob, source: Held, target: Held, begin_at: FindPair = not_known) -> PartitionVerdict:
    """Both looks after each other."""

    def logs(_job: CompareJob) -> tuple[PartitionLog, PartitionLog]:
        return cast("PartitionLog", source), cast("PartitionLog", target)

    (first,) = await InProcessFirstPass(logs).run([job])
    return job.verdict(await SecondPass(logs, begin_at).run(job, first))


def unexplained(found: PartitionVerdict) -> list[tuple[str, int, int]]:
    """The findings that no gap accounts for."""
    return [
        (difference.kind, difference.source_offset, difference.target_offset)
        for difference in found.checked.differences
        if difference.gap is None
    ]


async def test_more_superseded_keys_than_are_looked_at() -> None:
    """They hide no key that is really missing, wherever it sorts."""
    keys = numbered(range(MAX_KEYS + 500))
    # Of a busy topic: cleaned for newer records that were not copied yet.
    target = Held(log_of(keys))
    source = Held([record(len(keys), "zzz"), *log_of(keys, len(keys) + 1)])
    job = replace(
        job_of(source, target, compacted=True),
        end=PositionPair(len(keys) + 1, len(keys)),
        ranges=(ComparedRange(0, len(keys) + 1, 0, len(keys)),),
    )
    found = await verdict(job, source, target)
    assert (found.outcome, unexplained(found)) == ("differs", [("missing", len(keys), len(keys))])
    assert (found.checked.superseded, found.checked.gave_up) == (len(keys), False)


async def test_more_known_keys_than_are_looked_at() -> None:
    """What was not compared is not called explained."""
    source = Held(log_of(numbered(range(MAX_KEYS + 2))))
    target = Held([record(0, "key 0")])
    found = await verdict(job_of(source, target, refused(1, MAX_KEYS + 2), compacted=True), source, target)
    assert found.checked.gave_up
    assert found.outcome == "not_checked"
    assert "was not compared" in found.text


async def test_retention_where_no_pair_is_known_behind_it() -> None:
    """What is still there on both sides was not compared, and nobody says that it is gone."""
    for log in range(2):
        source, target = both(1000, range(700, 701))
        (source, target)[log].before_read = removing(1, 10)
        found = await verdict(job_of(source, target), source, target)
        assert found.outcome == "not_checked"
        assert found.checked.reason is not None
        assert "source offsets 0 and 1000" in found.checked.reason
        assert found.checked.notes == ()


async def test_retention_and_the_next_known_pair_is_further_on() -> None:
    """Between both lies what was not compared."""
    source, target = both(1000, range(700, 701), removed_before=10)
    job = job_of(source, target)
    assert (await verdict(job, source, target, pair(PositionPair(900, 899)))).outcome == "not_checked"
    # Behind all that was copied: a map may not have that yet.
    assert (await verdict(job, source, target, pair(PositionPair(1 << 62, 1 << 62)))).outcome == "not_checked"


async def test_retention_with_a_map() -> None:
    """The rest is compared, and what is gone is counted."""
    source, target = both(1000, removed_before=10)
    found = await verdict(job_of(source, target), source, target, same)
    assert (found.outcome, found.checked.records) == ("equal", 990)
    assert found.checked.notes == ("10 source offsets were removed from a log before they were compared",)


async def test_retention_takes_all() -> None:
    """Nothing is left to compare, and that is known without a map."""
    source, target = both(100, removed_before=100)
    found = await verdict(job_of(source, target), source, target)
    assert (found.outcome, found.checked.records) == ("equal", 0)
    assert found.checked.notes == ("100 source offsets were removed from a log before they were compared",)


async def test_retention_and_the_other_side_has_lost_everything() -> None:
    """What it lost was not removed by retention."""
    source = Held(log_of(numbered(range(100))), before_read=removing(at_read=2, before=10))
    job = replace(job_of(source, source, ranges=(ComparedRange(0, 100, 0, 0),)), end=PositionPair(100, 0))
    assert (await verdict(job, source, Held([]))).outcome == "not_checked"


async def test_retention_that_never_rests() -> None:
    """It is faster than the second look: that is not equal."""
    source, target = both(1000)
    # The first look ends with its second reading.
    source.before_read = lambda log, read: log.remove(read) if read != 2 else None
    assert (await verdict(job_of(source, target), source, target, same)).outcome == "not_checked"


async def test_retention_of_a_compacted_topic_without_a_map() -> None:
    """A key that differs is not dropped without a word."""
    source, target = both(100, range(70, 71))
    source.before_read = removing(2, 1)
    found = await verdict(job_of(source, target, compacted=True), source, target)
    assert found.outcome == "not_checked"
    assert "source offsets 0 and 100" in found.text


async def test_the_last_record_of_a_key_was_lost_and_an_older_one_removed() -> None:
    """The older one is gone from the source: on the target it does not count either."""
    kept = [*log_of(numbered(range(5))), record(5, "K", b"old"), *log_of(numbered(range(6, 100)), 6)]
    source, target = Held([*kept, record(100, "K", b"new"), record(101, "last")]), Held([*kept, record(101, "last")])
    source.before_read = removing(2, 10)
    found = await verdict(job_of(source, target, compacted=True), source, target, same)
    assert (found.outcome, unexplained(found)) == ("differs", [("missing", 100, 102)])
    assert found.checked.notes == ("10 source offsets were removed from a log before they were compared",)


async def test_keys_that_retention_took_from_one_side_are_equal() -> None:
    """What lies before the pair counts on neither side."""
    source, target = both(100, removed_before=10)
    found = await verdict(job_of(source, target, compacted=True), source, target, same)
    assert (found.outcome, unexplained(found)) == ("equal", [])


async def test_superseded_while_it_was_read() -> None:
    """The key was cleaned between both looks for a record that was written then; others are told from the same read."""
    source = Held([record(0, "a"), record(1, "b"), record(2, "c")])
    target = Held([record(0, "a", b"other"), record(1, "b", b"other"), record(2, "c")])
    job = job_of(source, target, compacted=True)

    def clean(log: Held, read: int) -> None:
        if read == 2:
            log.kept = [record(1, "b"), record(2, "c"), record(3, "a", b"new")]

    source.before_read = clean
    found = await verdict(job, source, target)
    assert unexplained(found) == [("changed", 1, 1)]
    assert found.checked.superseded == 1


async def test_a_large_gap_hides_nothing_behind_it() -> None:
    """What is accounted for is no reason to stop looking."""
    lost = range(1000, 2500)
    source = Held(log_of(numbered(range(6000))))
    target = Held(log_of([key for key in numbered(range(6000), lost) if key not in ("key 5000", "key 5001")]))
    ranges = ComparedRange(0, 3000, 0, 1500), ComparedRange(3000, 6000, 1500, len(target.kept))
    found = await verdict(job_of(source, target, target_lost(1000, 2500), ranges=ranges), source, target)
    assert unexplained(found) == [("missing", 5000, 3500), ("missing", 5001, 3500)]
    assert (found.outcome, found.checked.gave_up) == ("differs", False)


async def test_gaps_of_any_size_are_explained() -> None:
    """Where the map knows the pair behind them."""
    size = 5000
    every, subtract_spans = log_of(numbered(range(8000))), log_of(numbered(range(8000), range(1000, 1000 + size)))
    others = [record(1000 + at, f"other {at}") for at in range(size)]
    added = [*every[:1000], *others, *log_of(numbered(range(1000, 8000)), 1000 + size)]
    single = [refused(at, at + 1) for at in range(1000, 1000 + size)]
    for kind, mine, theirs, gaps, behind in (
        ("missing", every, subtract_spans, [target_lost(1000, 1000 + size)], PositionPair(1000 + size, 1000)),
        ("missing", every, subtract_spans, single, PositionPair(1000 + size, 1000)),
        ("extra", every, added, [foreign(1000, 1000 + size)], PositionPair(1000, 1000 + size)),
        ("extra", every, added, [source_lost(1000, 1000 + size)], PositionPair(1000, 1000 + size)),
    ):
        source, target = Held(mine), Held(theirs)
        found = await verdict(job_of(source, target, *gaps), source, target, pair(behind))
        assert found.outcome == "explained"
        assert [difference.kind for difference in found.checked.differences] == [kind] * size
        # Without it nobody knows where both sides go on alike.
        assert (await verdict(job_of(source, target, *gaps), source, target)).outcome == "differs"


async def test_a_range_with_records_on_the_target_alone() -> None:
    """No source offsets lie in it: all of them are too much."""
    source, target = Held(log_of(numbered(range(100)))), Held(log_of(numbered(range(103))))
    ranges = ComparedRange(0, 100, 0, 100), ComparedRange(100, 100, 100, 103)
    found = await verdict(job_of(source, target, ranges=ranges), source, target)
    assert unexplained(found) == [("extra", 100, at) for at in (100, 101, 102)]


async def test_a_refused_tombstone() -> None:
    """The key is still on the target, by the gap."""
    source = Held([record(0, "a"), record(1, "b"), record(2, "a", None), record(3, "c")])
    target = Held([record(0, "a"), record(1, "b"), record(2, "c")])
    found = await verdict(job_of(source, target, refused(2, 3), compacted=True), source, target)
    assert found.outcome == "explained"
    assert [replace(difference, gap=None) for difference in found.checked.differences] == [Difference("extra", 2, 0)]
    assert (await verdict(job_of(source, target, compacted=True), source, target)).outcome == "differs"


async def test_a_record_without_a_key_that_one_side_alone_has() -> None:
    """Where no cleaner can have taken it from the other side it is too much; where one can, it is not."""
    log = log_of(["a", "b", "c"])
    foreign = DecodedRecord(3, 5, record_tail(None, b"foreign"))
    source, target = Held(log), Held([*log, foreign])
    found = await verdict(job_of(source, target, compacted=True), source, target, same)
    assert (found.outcome, unexplained(found)) == ("differs", [("extra", 3, 3)])
    source = Held([*log, record(4, "d")])
    target = Held([*log, foreign, record(4, "d")])
    found = await verdict(job_of(source, target, compacted=True), source, target, same)
    assert (found.outcome, found.checked.cleaned_on_source) == ("equal", 1)
