"""What is committed is remembered before, with what stood there; and a try that commits nothing commits nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.commit_offsets import CommitResult, commit
from mirror_ray.failover.group_checkpoint import GroupCheckpoint
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.groups.offset_state import WRITTEN_HEADER, encode_written
from mirror_ray.kafka.internal_topic_writer import KeyedRecord
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import CheckpointRecord
from tests.unit.failover.test_commit_offsets import REFUSED, REMOTE, FakeSides, place


@dataclass
class Told(FakeSides):
    """Remembers what was asked of it, in order; the group stands on the target at ``at``, by our own hand."""

    at: int = 3
    upstream: int = 4
    done: list[str] = field(default_factory=list)
    remembered: list[KeyedRecord] = field(default_factory=list)

    async def committed(self, on: object, groups: object) -> dict[str, Any]:
        """See ``FailoverClusters``."""
        return {"g": {REMOTE: CommittedOffset(self.at)}}

    async def said(self) -> dict[str, Any]:
        """See ``FailoverClusters``."""
        checkpoint = CheckpointRecord(
            group="g", partition=REMOTE, upstream_offset=self.upstream, downstream_offset=self.at
        )
        return {"g": {REMOTE: GroupCheckpoint(checkpoint=checkpoint, written=(self.at,), sources={})}}

    async def say(self, records: object) -> None:
        """See ``FailoverClusters``."""
        self.done.append("say")
        self.remembered += cast("list[KeyedRecord]", records)

    async def commit(self, commits: Mapping[str, Mapping[TopicPartition, Any]]) -> dict[str, dict[TopicPartition, Any]]:
        """See ``FailoverClusters``."""
        self.done.append("commit")
        return await super().commit(commits)


class Back(Told):
    """The way back."""

    kind = "failback"


async def tried(sides: Told, *, dry: bool = False) -> CommitResult:
    """The group goes on at 7, where it stands at 9 on the source."""
    return await commit(cast("FailoverClusters", sides), {"g": [place("g")]}, {}, FailoverOptions(), dry=dry)


async def test_it_is_remembered_before_it_is_committed() -> None:
    """With what stood there: whoever dies in between knows that both are ours."""
    sides = Told()
    assert (await tried(sides)).committed == 1
    assert sides.done == ["say", "commit"]
    (record,) = sides.remembered
    assert dict(record.headers)[WRITTEN_HEADER] == encode_written((7, 3))


async def test_a_dry_try_commits_nothing_and_remembers_nothing() -> None:
    """It says what would be."""
    sides = Told()
    assert (await tried(sides, dry=True)).committed == 1
    assert sides.done == []


@pytest.mark.parametrize(("upstream", "committed"), [(12, 1), (9, 0), (4, 0)])
async def test_a_group_is_put_back_only_where_it_went_back_on_the_source(upstream: int, committed: int) -> None:
    """Since the checkpoint that says where it was put."""
    assert (await tried(Told(at=10, upstream=upstream))).committed == committed


async def test_refused_commits_are_not_handed_back() -> None:
    """What stands on the target counts as ours only once the group has gone."""
    sides = Back(errors={("g", REMOTE): REFUSED})
    assert (await tried(sides)).refused == {("g", REMOTE): REFUSED}
    assert sides.done == ["say", "commit"]
    assert not sides.remembered
