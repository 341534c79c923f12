"""What a job does not compare: whose it is, and when that is not known."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import cast

import pytest

from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import RecordBatch
from mirror_ray.verification import uncompared_records
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.partition_log import PartitionLog
from mirror_ray.verification.producers import ProducerOwners
from mirror_ray.verification.ranges import ComparedRange, PositionPair, Span
from mirror_ray.verification.uncompared_records import UncomparedRecords
from tests.unit.records.strategies import Plain
from tests.unit.verification.logged import batch_of

OURS = 7


async def found_beside(monkeypatch: pytest.MonkeyPatch, *ranges: ComparedRange) -> list[str]:
    """Kinds of what is found where a batch of ours lies in what the map does not account for, before the end."""
    batch = batch_of([Plain(offset=each, timestamp=1, value=b"%d" % each) for each in (20, 21)], producer=(OURS, 0, 0))

    async def batches(_: PartitionLog, spans: Iterable[Span]) -> AsyncIterator[RecordBatch]:
        if list(spans) == [(20, 22)]:
            yield batch

    monkeypatch.setattr(uncompared_records, "read_batches", batches)
    job = CompareJob(
        source=TopicPartition("t", 0),
        target=TopicPartition("all", 0),
        begin=PositionPair(0, 0),
        end=PositionPair(80, 90),
        ranges=ranges,
        reason=None if ranges else "others write to the remote topic, and which records are this flow's is not known",
        uncompared=((20, 22),),
        owners=ProducerOwners(own=frozenset({OURS}), flows=frozenset({OURS})),
        acknowledged=PositionPair(80, 90),
        source_end=80,
    )
    log = cast(PartitionLog, None)
    findings, _ = await UncomparedRecords(lambda _: (log, log)).outside(job)
    return [found.kind for found in findings]


async def test_records_of_ours_beside_all_that_is_compared_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The map accounts for everything of ours there."""
    assert await found_beside(monkeypatch, ComparedRange(0, 80, 0, 90)) == ["extra", "extra"]


async def test_where_the_map_has_a_hole_nothing_is_said_against_our_own_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replicator that was killed had not told where it wrote them: it is not checked, and not different."""
    assert await found_beside(monkeypatch) == []
