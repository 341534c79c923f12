"""May a source topic be copied into its remote topic? Only into the one, and from the one, that it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror_ray.model.names import FlowName, TopicId
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.records import FlowRecord, ReversalRecord
from mirror_ray.state.schema import FlowStateRecords
from mirror_ray.topics.discovery_rules import (
    TargetLogBounds,
    TopicSide,
    cluster_refusal,
    first_record,
    flow_refusal,
    identity_faults,
    occupied_refusal,
    renamed_refusal,
    shared_record,
)

FLOW = FlowName("A", "B")
SOURCE = TopicSide(topic="t", topic_id=TopicId("s"), partitions=2)
REMOTE = TopicSide(topic="A.t", topic_id=TopicId("r"), partitions=2)
RECORD = first_record(SOURCE, REMOTE, OffsetPair(3, 7))
KNOWN = FlowRecord(producer_id=1, producer_epoch=0, source_cluster_id="a", target_cluster_id="b", selection="")


@pytest.mark.parametrize(("source", "target", "named"), [("a", "b", None), ("x", "b", "A"), ("a", "x", "B")])
def test_a_flow_stays_between_its_clusters(source: str, target: str, named: str | None) -> None:
    """An address that leads to another one is a mistake."""
    refusal = cluster_refusal(FLOW, KNOWN, source, target)
    assert refusal is None if named is None else refusal is not None and f"cluster {named} has" in refusal


def test_a_flow_that_was_handed_back_is_not_copied() -> None:
    """MM2 copies it."""
    assert flow_refusal(FLOW, FlowStateRecords(flow=KNOWN), "a", "b") is None
    assert "handed back" in (flow_refusal(FLOW, FlowStateRecords(flow=KNOWN, handed_back_ms=1), "a", "b") or "")


@pytest.mark.parametrize("away", [True, False])
def test_a_flow_that_is_reversed_is_not_copied(away: bool) -> None:
    """The flow back copies in its place, until it is turned round again."""
    state = FlowStateRecords(flow=KNOWN, reversal=ReversalRecord(turn=1, away=away, time_ms=1))
    assert ("B->A copies" in (flow_refusal(FLOW, state, "a", "b") or "")) is away


def test_another_remote_topic_than_before_is_refused() -> None:
    """What was copied is in the former one."""
    assert renamed_refusal("t", "A.t", {0: RECORD}) is None
    assert "was copied into A.t" in (renamed_refusal("t", "other", {0: RECORD}) or "")


@pytest.mark.parametrize(
    ("source", "remote", "kind"),
    [
        (SOURCE, REMOTE, None),
        (SOURCE, None, "target_missing"),
        (SOURCE, replace(REMOTE, topic_id=TopicId("x")), "target_recreated"),
        (replace(SOURCE, topic_id=TopicId("x")), REMOTE, "source_recreated"),
    ],
)
def test_topics_are_told_apart_by_their_ids(source: TopicSide, remote: TopicSide | None, kind: str | None) -> None:
    """One of the same name may be another one."""
    found = identity_faults(source, remote, {0: RECORD})
    assert [trouble.kind for trouble in found.values()] == ([] if kind is None else [kind])


@pytest.mark.parametrize(("start", "end", "refused"), [(0, 0, False), (5, 5, False), (0, 1, True), (5, 6, True)])
def test_a_remote_topic_that_nothing_accounts_for_is_not_written_to(start: int, end: int, refused: bool) -> None:
    """One record of somebody else is enough."""
    refusal = occupied_refusal("A.t", {0: TargetLogBounds(start=0, end=0), 1: TargetLogBounds(start=start, end=end)})
    assert (refusal is not None) == refused


def test_only_what_is_committed_is_sure_to_last() -> None:
    """As far as that is known."""
    assert [TargetLogBounds(start=0, end=9, high_watermark=high).committed for high in (-1, 5, 9, 12)] == [9, 5, 9, 9]


def test_a_topic_that_becomes_shared_goes_on_with_its_sequence() -> None:
    """Offsets say nothing any more."""
    shared = shared_record(RECORD)
    assert (shared.shared, shared.pair, shared.sequence) == (True, OffsetPair(3, 7, 7), 7)
