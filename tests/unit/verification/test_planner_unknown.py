"""What can't be asked, or told, is not taken for equal: neither by verify nor by headers alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mirror_ray.kafka.errors import LEADER_NOT_AVAILABLE
from mirror_ray.kafka.leader_requests import LATEST, OffsetAnswer
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.segment import Segment
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.report import UncomparedAccount
from tests.unit.verification.test_planner import STATE, LogCluster, _plan, _plan_of, _record

HEADERS = VerifyRequest(headers_only=True)
MAP = (Segment(0, 0, 100, 0),)


class _Electing(LogCluster):
    """Its leaders change: so many questions for where logs end are not answered."""

    unanswered = 0

    async def list_offsets(self, wanted: Mapping[TopicPartition, int], isolation: str) -> dict[TopicPartition, Any]:
        if self.unanswered and isolation == "read_uncommitted" and set(wanted.values()) == {LATEST}:
            self.unanswered -= 1
            return {partition: OffsetAnswer(-1, LEADER_NOT_AVAILABLE) for partition in wanted}
        return await super().list_offsets(wanted, isolation)


@pytest.mark.parametrize("wanted", [VerifyRequest(), HEADERS])
@pytest.mark.parametrize("unanswered", [1, 5, 1000])
def test_a_leader_that_does_not_tell_where_its_log_ends(
    monkeypatch: pytest.MonkeyPatch, unanswered: int, wanted: VerifyRequest
) -> None:
    """It is asked again; without an answer it is not known what lies behind the acknowledged."""
    target = _Electing("B", {"A.orders": (0, 103, 103), STATE: (0, 0, 0)})
    target.unanswered = unanswered
    clusters = LogCluster("A", {"orders": (0, 100, 100)}), target
    (job,) = _plan_of(monkeypatch, clusters, _record(source_offset=100, target_offset=100), MAP, wanted)
    if unanswered < 1000:
        assert (job.reason, job.uncompared) == (None, ((100, 103),))
    else:
        assert "a leader does not answer" in str(job.reason)


def test_what_is_not_copied_of_a_partition_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it."""
    target = LogCluster("B", {STATE: (0, 0, 0)})
    (job,) = _plan_of(monkeypatch, (LogCluster("A", {"orders": (20, 100, 100)}), target))
    assert "is missing on cluster B" in str(job.reason)
    assert job.account == UncomparedAccount(not_copied=80)


def test_what_is_not_copied_by_other_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can't be compared; what lies behind the acknowledged is looked at all the same, and counted."""
    record = _record(source_offset=90, target_offset=90, transforms="another")
    job = _plan(monkeypatch, (0, 100, 100), (0, 93, 93), record=record, segments=[Segment(0, 0, 90, 0)])
    assert "by the transforms another" in str(job.reason)
    assert (job.uncompared, job.account) == (((90, 93),), UncomparedAccount(not_copied=10))


def test_headers_of_what_was_transformed_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """They say who wrote it all the same."""
    record = _record(source_offset=100, target_offset=100, transforms="another")
    job = _plan(monkeypatch, (0, 100, 100), (0, 103, 103), record=record, segments=MAP, wanted=HEADERS)
    assert (job.reason, job.uncompared) == (None, ((100, 103),))
    assert "by the transforms another" in str(job.irreproducible)


def test_headers_of_a_remote_topic_that_the_flow_has_no_record_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose records it holds is not known; where it holds none there is nothing to know."""
    occupied = _plan(monkeypatch, (0, 100, 100), (0, 50, 50), wanted=HEADERS)
    assert occupied.reason == "A.orders-0 holds records, and nothing was copied of it yet"
    assert occupied.account == UncomparedAccount(not_copied=100)
    empty = _plan(monkeypatch, (0, 100, 100), (50, 50, 50), wanted=HEADERS)
    assert (empty.reason, empty.account) == (None, UncomparedAccount(not_copied=100))
