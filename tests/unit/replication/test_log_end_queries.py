"""What is believed of leaders that are asked where logs end: only what is committed, and of the log that it was."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import OFFSET_NOT_AVAILABLE
from mirror_ray.kafka.last_batch import LastBatches
from mirror_ray.kafka.leader_requests import EARLIEST, KnownProducers, LogEnd, OffsetAnswer
from mirror_ray.model.assignment import NO_END, Assignment
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.replication import log_end_queries
from mirror_ray.replication.log_end_queries import (
    SourceBounds,
    TargetProbe,
    TargetRefusedError,
    TargetUncommittedError,
    query_sources,
    query_targets,
)
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.target_log import TargetLog
from tests.support.factories import assignment, replication

ASSIGNMENT = assignment(anchor=OffsetPair(5, 5))
SETTLED = LogEnd(end_offset=5, high_watermark=5, leader_epoch=3, error_code=0)


class Leaders:
    """A cluster's leaders, which answer as a test says; each look at the ends takes the next answer."""

    def __init__(self, *ends: LogEnd, starts: int = 0, stable: int = 5) -> None:
        self._ends = list(ends)
        self._starts, self._stable = starts, stable

    async def log_ends(self, partitions: set[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        end = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        return dict.fromkeys(partitions, end)

    async def list_offsets(self, wanted: dict[TopicPartition, int], level: str) -> dict[TopicPartition, OffsetAnswer]:
        return {
            partition: OffsetAnswer(self._starts if time == EARLIEST else self._stable, 0)
            for partition, time in wanted.items()
        }


async def look(monkeypatch: pytest.MonkeyPatch, leaders: Leaders, assignment: Assignment = ASSIGNMENT) -> object:
    """What is seen of a copy's target; its end holds no batch."""

    async def no_tails(*_: object) -> LastBatches:
        return LastBatches()

    monkeypatch.setattr(log_end_queries, "read_last_batches", no_tails)
    copy = replication(assignment)
    return (await query_targets(cast("ClusterConnections", leaders), [copy]))[copy]


async def test_a_settled_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its leader's epoch."""
    assert await look(monkeypatch, Leaders(SETTLED)) == TargetProbe(TargetLog(end=5, epoch=3))


@pytest.mark.parametrize("shared", [False, True])
async def test_what_is_not_committed_is_waited_for(monkeypatch: pytest.MonkeyPatch, shared: bool) -> None:
    """The leader alone has it; or a new leader can't tell yet."""
    assignment = replace(ASSIGNMENT, shared=shared)
    ahead = replace(SETTLED, end_offset=6)
    assert isinstance(await look(monkeypatch, Leaders(ahead), assignment), TargetUncommittedError)
    unknowing = replace(SETTLED, error_code=OFFSET_NOT_AVAILABLE)
    assert isinstance(await look(monkeypatch, Leaders(unknowing), assignment), TargetUncommittedError)


async def test_a_shared_log_may_grow_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others write; in a topic of our own nobody does."""
    grown = replace(SETTLED, high_watermark=7)
    assert isinstance(await look(monkeypatch, Leaders(grown)), TargetUncommittedError)
    assert isinstance(await look(monkeypatch, Leaders(grown), replace(ASSIGNMENT, shared=True)), TargetProbe)


async def test_another_error_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name."""
    assert await look(monkeypatch, Leaders(replace(SETTLED, error_code=6))) == TargetRefusedError(
        "NOT_LEADER_OR_FOLLOWER"
    )


@pytest.mark.parametrize(
    ("answer", "agrees_to"), [(None, NO_END), (OffsetAnswer(4, 0), 4), (OffsetAnswer(-1, 74), None)]
)
async def test_up_to_where_a_shared_log_is_the_same(
    monkeypatch: pytest.MonkeyPatch, answer: OffsetAnswer | None, agrees_to: int | None
) -> None:
    """As its leader says; where it can't, it is asked again."""

    async def agreed(
        _: object, copies: list[PartitionReplication], __: object
    ) -> dict[PartitionReplication, OffsetAnswer]:
        return {} if answer is None else dict.fromkeys(copies, answer)

    monkeypatch.setattr(log_end_queries, "query_epoch_ends", agreed)
    monkeypatch.setattr(log_end_queries, "_scan", _unchanged)
    monkeypatch.setattr(log_end_queries, "query_producers", _nobody_known)
    seen = await look(monkeypatch, Leaders(SETTLED), replace(ASSIGNMENT, shared=True))
    assert (seen.log.agrees_to if isinstance(seen, TargetProbe) else None) == agrees_to
    assert isinstance(seen, TargetProbe | TargetUncommittedError)


async def _unchanged(_: object, __: object, look: log_end_queries.TargetAnswer) -> log_end_queries.TargetAnswer:
    return look


async def _nobody_known(_: object, partitions: set[TopicPartition]) -> dict[TopicPartition, KnownProducers]:
    return dict.fromkeys(partitions, KnownProducers({}))


MORE = replace(SETTLED, end_offset=9, high_watermark=9)


@pytest.mark.parametrize(
    ("then", "shared", "believed"),
    [
        (MORE, False, True),
        (replace(MORE, leader_epoch=4), False, False),
        (replace(MORE, end_offset=10, high_watermark=10), False, False),
        (replace(MORE, end_offset=10, high_watermark=10), True, True),
        (replace(MORE, high_watermark=8), False, False),
        (replace(MORE, error_code=6), False, False),
    ],
)
async def test_a_brokers_memory_is_of_the_log_that_was_read(
    monkeypatch: pytest.MonkeyPatch, then: LogEnd, shared: bool, believed: bool
) -> None:
    """Asked again, the log must have the same leader and, where nobody else writes, the same end, all committed.

    What has come meanwhile was not read: the end is the one that was read up to.
    """

    async def known(_: object, partitions: set[TopicPartition]) -> dict[TopicPartition, KnownProducers]:
        return dict.fromkeys(partitions, KnownProducers({1: 8, 2: 70}))

    async def holed(_: object, __: object, look: log_end_queries.TargetAnswer) -> log_end_queries.TargetAnswer:
        return replace(look, log=replace(look.log, complete_from=9)) if isinstance(look, TargetProbe) else look

    monkeypatch.setattr(log_end_queries, "query_producers", known)
    monkeypatch.setattr(log_end_queries, "_scan", holed)
    seen = await look(monkeypatch, Leaders(MORE, then), replace(ASSIGNMENT, shared=shared))
    if believed:
        assert isinstance(seen, TargetProbe)
        assert (seen.log.end, seen.log.remembered) == (MORE.end_offset, 9)
    else:
        assert isinstance(seen, TargetUncommittedError)


async def test_a_remembered_sequence_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows the last one is 0."""

    async def known(_: object, partitions: set[TopicPartition]) -> dict[TopicPartition, KnownProducers]:
        return dict.fromkeys(partitions, KnownProducers({1: SEQUENCE_MODULUS - 1}))

    monkeypatch.setattr(log_end_queries, "query_producers", known)
    seen = await look(monkeypatch, Leaders(MORE))
    assert isinstance(seen, TargetProbe)
    assert seen.log.remembered == 0


async def test_the_sources_bounds() -> None:
    """Once all is committed: its begin, its end, and what of it is stable."""
    copy = replication(ASSIGNMENT)
    leaders = Leaders(SETTLED, starts=1, stable=4)
    found = await query_sources(cast("ClusterConnections", leaders), [copy], "read_committed")
    assert found == {copy: SourceBounds(1, 5, 4)}
    ahead = Leaders(replace(SETTLED, high_watermark=4))
    found = await query_sources(cast("ClusterConnections", ahead), [copy], "read_committed")
    assert found == {copy: "not all is committed"}
