"""What is committed is remembered before, with what stood there; and a try that commits nothing commits nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.commit_offsets import CommitResult, commit
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.groups.checkpoints import GroupCheckpoint
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import CheckpointRecord
from tests.unit.failover.test_commit_offsets import REFUSED, REMOTE, FakeClusters, translated


@dataclass
class EmittingClusters(FakeClusters):
    """Remembers what was asked of it, in order; the group stands on the target at ``at``, by our own hand."""

    at: int = 3
    upstream: int = 4
    done: list[str] = field(default_factory=list)
    emitted: list[GroupCheckpoint] = field(default_factory=list)

    async def committed(self, on: object, groups: object) -> dict[str, Any]:
        return {"g": {REMOTE: CommittedOffset(self.at)}}

    async def checkpoints(self) -> dict[str, Any]:
        checkpoint = CheckpointRecord(
            group="g", partition=REMOTE, upstream_offset=self.upstream, downstream_offset=self.at
        )
        return {"g": {REMOTE: GroupCheckpoint(checkpoint=checkpoint, written=(self.at,), sources={})}}

    async def append_checkpoints(self, checkpoints: object) -> None:
        self.done.append("emit")
        self.emitted += cast("list[GroupCheckpoint]", checkpoints)

    async def commit(self, commits: Mapping[str, Mapping[TopicPartition, Any]]) -> dict[str, dict[TopicPartition, Any]]:
        self.done.append("commit")
        return await super().commit(commits)


class Back(EmittingClusters):
    """The way back."""

    kind = "failback"


async def tried(clusters: EmittingClusters, *, dry: bool = False) -> CommitResult:
    """The group goes on at 7, where it stands at 9 on the source."""
    return await commit(cast("FailoverClusters", clusters), {"g": [translated("g")]}, {}, FailoverOptions(), dry=dry)


async def test_it_is_remembered_before_it_is_committed() -> None:
    """With what stood there: whoever dies in between knows that both are ours."""
    clusters = EmittingClusters()
    assert (await tried(clusters)).committed == 1
    assert clusters.done == ["emit", "commit"]
    (checkpoint,) = clusters.emitted
    assert checkpoint.written == (7, 3)


async def test_a_dry_try_commits_nothing_and_remembers_nothing() -> None:
    """It says what would be."""
    clusters = EmittingClusters()
    assert (await tried(clusters, dry=True)).committed == 1
    assert clusters.done == []


@pytest.mark.parametrize(("upstream", "committed"), [(12, 1), (9, 0), (4, 0)])
async def test_a_group_is_put_back_only_where_it_went_back_on_the_source(upstream: int, committed: int) -> None:
    """Since the checkpoint that says where it was put."""
    assert (await tried(EmittingClusters(at=10, upstream=upstream))).committed == committed


async def test_refused_commits_are_not_handed_back() -> None:
    """What stands on the target counts as ours only once the group has gone."""
    clusters = Back(errors={("g", REMOTE): REFUSED})
    assert (await tried(clusters)).refused == {("g", REMOTE): REFUSED}
    assert clusters.done == ["emit", "commit"]
    assert not clusters.emitted
