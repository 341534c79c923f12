"""What planning asks the leaders for: no more than it has to."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, OffsetAnswer
from mirror_ray.model.names import TopicPartition
from mirror_ray.verification.cluster_queries import query_logs
from mirror_ray.verification.range_bounds import LogBounds

HERE, GONE = TopicPartition("orders", 0), TopicPartition("deleted", 0)
_OFFSETS = {(EARLIEST, "read_uncommitted"): 3, (LATEST, "read_uncommitted"): 20, (LATEST, "read_committed"): 17}


class _Cluster:
    """One partition, with an open transaction in it."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []
        self.metadata = SimpleNamespace(partition=lambda partition: partition if partition == HERE else None)

    async def list_offsets(self, wanted: Mapping[TopicPartition, int], isolation: str) -> dict[TopicPartition, Any]:
        (which,) = set(wanted.values())
        self.asked.append((which, isolation))
        return {partition: OffsetAnswer(_OFFSETS[which, isolation], 0) for partition in wanted}


@pytest.mark.parametrize(
    ("committed", "bounds", "questions"), [(True, LogBounds(3, 20, 17), 3), (False, LogBounds(3, 20, 20), 2)]
)
async def test_each_question_is_asked_once(committed: bool, bounds: LogBounds, questions: int) -> None:
    """Where open transactions hold nothing back, the end for consumers is the log's; what is not known is left out."""
    cluster: Any = _Cluster()
    logs = await query_logs(cluster, [HERE, GONE], committed=committed)
    assert logs.bounds(HERE) == bounds
    assert len(cluster.asked) == len(set(cluster.asked)) == questions
    assert set(logs.starts) == {HERE}
