"""What planning asks the leaders and the running system for: no more than it has to, and until it knows enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mirror_ray.model.assignment import PartitionState
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.verification.cluster_queries import acknowledged_partitions, no_system, query_logs
from mirror_ray.verification.range_bounds import LogBounds
from tests.support.factories import partition_status
from tests.unit.verification.test_planner import LogCluster

HERE, GONE = TopicPartition("orders", 0), TopicPartition("deleted", 0)


@pytest.mark.parametrize(
    ("committed", "bounds", "questions"), [(True, LogBounds(3, 20, 17), 3), (False, LogBounds(3, 20, 20), 2)]
)
async def test_each_question_is_asked_once(committed: bool, bounds: LogBounds, questions: int) -> None:
    """Where open transactions hold nothing back, the end for consumers is the log's; what is not known is left out."""
    cluster: Any = LogCluster("A", {"orders": (3, 20, 17)})
    logs = await query_logs(cluster, [HERE, GONE], committed=committed)
    assert logs.bounds(HERE) == bounds
    assert len(cluster.asked) == len(set(cluster.asked)) == questions
    assert set(logs.starts) == {HERE}


FLOW, SOURCE = FlowName("A", "B"), TopicPartition("t", 0)


def line(state: PartitionState, reason: str | None = None, target_end: int = 10, **changes: Any) -> PartitionStatus:
    """One partition of a running system."""
    return partition_status(topic="t", state=state, reason=reason, target_end=target_end, **changes)


async def ask(lines: list[PartitionStatus], *shared: TopicPartition) -> tuple[int, bool]:
    """The target's end that was acknowledged in the end, and whether that was waited for; lines come one by one."""

    async def running() -> Sequence[PartitionStatus]:
        return [line("copying", target_end=99, flow="A->C"), lines.pop(0) if len(lines) > 1 else lines[0]]

    statuses, waited = await acknowledged_partitions(running, FLOW, {SOURCE: 12}, shared)
    return statuses[SOURCE].target_end, waited


async def test_a_partition_that_copies_is_waited_for() -> None:
    """One that does not go on is not, nor one of a shared topic, whose end is others'."""
    behind, there = line("copying"), line("copying", target_end=12)
    assert await ask([behind, behind, there]) == (12, True)
    assert await ask([there]) == (12, False)
    for state in ("stopped", "paused", "refused", "waiting"):
        assert await ask([line(state), there]) == (10, False)
    assert await ask([behind, there], SOURCE) == (10, False)
    assert await acknowledged_partitions(no_system, FLOW, {SOURCE: 12}, ()) == ({}, False)
