"""Whether a gap counts as filled, by where the target's log ends afterwards."""

from __future__ import annotations

from typing import cast

import pytest

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.leader_requests import LogEnd
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.gap_filler import GapFiller
from mirror_ray.replication.offset_gaps import OffsetGap
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.sender import Lease
from mirror_ray.replication.target_log import TargetLog
from tests.support.factories import assignment, establish, replication


class Target:
    """Takes all markers; its log ends then as is said."""

    def __init__(self, end: LogEnd) -> None:
        self.settings = ClusterSettings(alias="B", bootstrap_servers=("127.0.0.1:1",))
        self._end = end

    async def log_ends(self, partitions: set[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """Of each the same."""
        return dict.fromkeys(partitions, self._end)


@pytest.mark.parametrize(
    ("end", "epoch", "filled"),
    [(12, 4, 12), (12, -1, 12), (13, 4, None), (12, 5, None)],
    ids=["as written", "old broker", "longer", "another leader"],
)
async def test_a_gap_is_filled_where_only_that_has_happened(end: int, epoch: int, filled: int | None) -> None:
    """Else the log is looked at: under another leader it may have lost what lay before, and got its length again.

    Counted as filled, it would end beyond the end of the former leader's epoch, as if it had lost just that.
    """
    copy = replication(assignment(anchor=OffsetPair(10, 10), preserve_offsets=True, transactional_id="replicator"))
    establish(copy, TargetLog(end=10, epoch=4))
    found: list[int | None] = []

    def on_filled(_copy: PartitionReplication, to: int | None, why: str) -> None:
        found.append(to)
        assert (to is None) is bool(why)

    target = Target(LogEnd(end_offset=end, high_watermark=end, leader_epoch=epoch, error_code=0))
    filler = GapFiller(
        cast(ClusterConnections, target),
        "replicator",
        most_markers=1_000,
        lease=cast(Lease, None),
        on_filled=on_filled,
        on_event=lambda level, text: None,
    )
    try:
        await filler._wait_for({copy: 12}, {copy: OffsetGap(10, 12)})
    finally:
        await filler.close()
    assert found == [filled]
