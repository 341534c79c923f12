"""What lies outside of what is compared: a fault is named, and what is not known is not called one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mirror_ray.model.segment import Segment
from mirror_ray.offsets.map import SegmentMap
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.verification import uncompared_records
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.producers import ProducerOwners
from mirror_ray.verification.ranges import ComparedRange, PositionPair
from mirror_ray.verification.report import PartitionVerdict
from mirror_ray.verification.uncompared_records import UncomparedRecords
from tests.support.factories import compare_job
from tests.unit.records.strategies import Plain
from tests.unit.verification import test_planner as planned
from tests.unit.verification.logged import batch_of

OURS, THEIRS = 7, 99


def batch(producer: int, first: int, count: int) -> RecordBatch:
    """Records whose values are their offsets."""
    records = [Plain(offset=at, timestamp=5, value=b"%d" % at) for at in range(first, first + count)]
    return batch_of(records, producer=(producer, 0, first))


@dataclass(frozen=True, slots=True)
class Log:
    """A log in memory."""

    held: Sequence[RecordBatch]

    async def start(self) -> int:
        return self.held[0].base_offset if self.held else 0

    async def end(self) -> int:
        return self.held[-1].next_offset if self.held else 0

    async def records(self, start: int, end: int) -> AsyncIterator[list[DecodedRecord]]:
        for written in self.held:
            yield [record for record in records_of(written) if start <= record.offset < end]


async def found_of(
    monkeypatch: pytest.MonkeyPatch, job: CompareJob, source: Sequence[RecordBatch], target: Sequence[RecordBatch]
) -> PartitionVerdict:
    """What is said of a job of which nothing is compared, and all that lies outside is read."""

    async def read_batches(log: Any, spans: Iterable[tuple[int, int]]) -> AsyncIterator[RecordBatch]:
        for first, end in spans:
            for written in log.held:
                if written.base_offset < end and first < written.next_offset:
                    yield written

    monkeypatch.setattr(uncompared_records, "read_batches", read_batches)
    logs: Any = (Log(source), Log(target))
    return job.verdict(*await UncomparedRecords(lambda _: logs).account(job, job.unchecked))


def shared_job(monkeypatch: pytest.MonkeyPatch, ends: tuple[int, int], segments: Iterable[Segment]) -> CompareJob:
    """Of a partition that is copied into a topic with others."""
    record = planned._record(source_offset=ends[0], target_offset=ends[1], shared=True, producer_id=OURS, sequence=0)
    logs = (0, ends[0], ends[0]), (0, ends[1], ends[1])
    return planned._plan(monkeypatch, *logs, record=record, segments=segments)


def test_records_of_ours_that_a_shared_map_has_no_place_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replicator was killed before it told where they are: that is not known, and no fault."""
    job = shared_job(monkeypatch, (200, 310), [Segment(0, 0, 100, 0), Segment(150, 260, 50, 150)])
    assert "is not known" in str(job.reason)
    target = [batch(OURS, 0, 100), batch(THEIRS, 100, 20), batch(OURS, 120, 50), batch(THEIRS, 170, 90)]
    found = asyncio.run(found_of(monkeypatch, job, [batch(1, 0, 200)], [*target, batch(OURS, 260, 50)]))
    assert (found.outcome, found.checked.differences) == ("not_checked", [])


def test_a_shared_map_that_was_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two topics were copied into one in turns for long: the map has dropped most of its places."""
    kept, source, target = SegmentMap(), 0, 0
    for _ in range(20_000):
        kept.add(Segment(source, target, 5, source), source + 5)
        source, target = source + 5, target + 10
    assert len(list(kept)) < 20_000
    job = shared_job(monkeypatch, (source, target - 5), kept)
    assert "is not known" in str(job.reason)
    first = next(first for first, _ in job.uncompared)
    found = asyncio.run(found_of(monkeypatch, job, [], [batch(OURS, first + 10 - first % 10, 5)]))
    assert (found.outcome, found.checked.differences) == ("not_checked", [])


def test_records_that_may_be_those_of_a_flow_whose_state_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are a number, and not called foreign; nor is the partition called equal."""
    job = shared_job(monkeypatch, (100, 100), [Segment(0, 0, 100, 0)])
    job = replace(job, uncompared=((100, 103),))
    for unsure, outcome in ((True, "not_checked"), (False, "differs")):
        writers = ProducerOwners(own=frozenset({OURS}), flows=frozenset({OURS}), unsure=unsure)
        found = asyncio.run(found_of(monkeypatch, replace(job, owners=writers), [], [batch(THEIRS, 100, 3)]))
        assert found.outcome == outcome
        assert (found.account.foreign, found.account.unattributed) == ((0, 3) if unsure else (3, 0))
    assert "whose 3 records" not in found.text


def test_headers_of_a_shared_map_with_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said against records of the flow there, by headers alone neither."""
    record = planned._record(source_offset=200, target_offset=310, shared=True, producer_id=OURS, sequence=0)
    segments = [Segment(0, 0, 100, 0), Segment(150, 260, 50, 150)]
    wanted = VerifyRequest(headers_only=True)
    job = planned._plan(monkeypatch, (0, 200, 200), (0, 310, 310), record=record, segments=segments, wanted=wanted)
    assert job.uncompared == ((100, 260),)
    found = asyncio.run(found_of(monkeypatch, job, [], [batch(OURS, 120, 50)]))
    assert found.checked.differences == []


@pytest.mark.parametrize("producer", [THEIRS, OURS])
def test_records_in_front_of_the_place_where_copying_began(monkeypatch: pytest.MonkeyPatch, producer: int) -> None:
    """What was there before is a number; what somebody wrote behind that place is foreign."""
    record = planned._record(
        source_offset=100, target_offset=110, producer_id=OURS, origin_source_offset=0, origin_target_offset=5
    )
    segments = [Segment(0, 10, 100, 0)]
    job = planned._plan(monkeypatch, (0, 100, 100), (2, 110, 110), record=record, segments=segments)
    job = replace(job, uncompared=((2, 10),), begin=job.begin._replace(target=10))
    found = asyncio.run(found_of(monkeypatch, job, [], [batch(producer, 2, 3), batch(THEIRS, 5, 2)]))
    assert (found.account.before_copy_target, found.account.foreign) == (3, 2)
    assert [difference.target_offset for difference in found.checked.differences] == [5, 6]


@pytest.mark.parametrize(("ranges", "kinds"), [((ComparedRange(0, 80, 0, 90),), ["extra", "extra"]), ((), [])])
async def test_records_of_ours_beside_what_is_compared(
    monkeypatch: pytest.MonkeyPatch, ranges: tuple[ComparedRange, ...], kinds: list[str]
) -> None:
    """Where the map accounts for all of ours they are too many; where it has a hole nothing is said against them."""
    end, writers = PositionPair(80, 90), ProducerOwners(own=frozenset({OURS}), flows=frozenset({OURS}))
    more: dict[str, Any] = {"uncompared": ((20, 22),), "acknowledged": end, "source_end": 80, "owners": writers}
    job = compare_job(PositionPair(0, 0), end, reason=None if ranges else "not known", **more)
    found = await found_of(monkeypatch, replace(job, ranges=ranges), [], [batch(OURS, 20, 2)])
    assert [difference.kind for difference in found.checked.differences] == kinds
