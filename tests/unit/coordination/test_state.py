"""The state topic's documents and what is decided from them."""

from __future__ import annotations

import json

import pytest

from mirror_ray.coordination import state
from mirror_ray.coordination.discovery import (
    LogBounds,
    TopicSide,
    cluster_refusal,
    identity_refusal,
    occupied_refusal,
    unaccounted,
)
from mirror_ray.coordination.naming import replicator_name, replicator_number
from mirror_ray.coordination.state import FlowRecord, PartitionRecord, Pause
from mirror_ray.model.names import FlowName, TopicId, TopicPartition

RECORD = PartitionRecord(
    source_topic_id=TopicId("s1"),
    target_topic="A.t",
    target_topic_id=TopicId("t1"),
    source_offset=5,
    target_offset=3,
    epoch=2,
)
FLOW_RECORD = FlowRecord(producer_id=7, producer_epoch=0, source_cluster_id="a", target_cluster_id="b", selection="s")
SOURCE = TopicSide(topic="t", topic_id=TopicId("s1"), partitions=2)
REMOTE = TopicSide(topic="A.t", topic_id=TopicId("t1"), partitions=2)


def test_documents_survive_json() -> None:
    """Everything that is written is read back as it was, through JSON."""
    pauses = {Pause(), Pause("t"), Pause("t", 4)}
    written = {
        state.FLOW_KEY: state.encode(FLOW_RECORD),
        state.partition_key(TopicPartition("my.topic-1", 12)): state.encode(RECORD),
        state.latest_key("t"): {},
        **{state.pause_key(pause): {} for pause in pauses},
    }
    memory = state.decode(json.loads(json.dumps(written)))
    assert memory.flow == FLOW_RECORD
    assert memory.partitions == {TopicPartition("my.topic-1", 12): RECORD}
    assert memory.latest == {"t"}
    assert memory.paused == pauses


def test_unknown_keys_and_fields_are_ignored() -> None:
    """A newer version's state can be read."""
    memory = state.decode({"segments/t/0": {"x": 1}, state.FLOW_KEY: {**state.encode(FLOW_RECORD), "new": 1}})
    assert memory.flow == FLOW_RECORD


@pytest.mark.parametrize(
    ("pause", "covered"), [(Pause(), True), (Pause("t"), True), (Pause("t", 1), True), (Pause("t", 2), False)]
)
def test_pause_covers_its_scope(pause: Pause, covered: bool) -> None:
    """A pause holds the flow, a topic, or one partition."""
    assert pause.covers(TopicPartition("t", 1)) is covered


def test_same_ids_may_be_copied_on() -> None:
    """A topic that is what it was is not refused."""
    assert identity_refusal(SOURCE, REMOTE, {0: RECORD}) is None
    assert identity_refusal(SOURCE, None, {}) is None


@pytest.mark.parametrize(
    ("source", "remote", "words"),
    [
        (TopicSide(topic="t", topic_id=TopicId("s2"), partitions=1), REMOTE, ("s1", "s2", "recreated")),
        (SOURCE, TopicSide(topic="A.t", topic_id=TopicId("t2"), partitions=1), ("t1", "t2", "recreated")),
        (SOURCE, None, ("A.t", "t1", "gone")),
        (SOURCE, TopicSide(topic="X.t", topic_id=TopicId("t1"), partitions=1), ("A.t", "X.t", "policy")),
    ],
)
def test_other_topics_under_known_names_are_refused(
    source: TopicSide, remote: TopicSide | None, words: tuple[str, ...]
) -> None:
    """A recreated, deleted or renamed topic is refused with both identities."""
    reason = identity_refusal(source, remote, {0: RECORD})
    assert reason is not None
    assert all(word in reason for word in words)


def test_only_partitions_on_both_sides_are_begun() -> None:
    """A partition that the target does not show yet waits."""
    assert unaccounted(SOURCE, TopicSide(topic="A.t", topic_id=TopicId("t1"), partitions=1), {}) == [0]
    assert unaccounted(SOURCE, REMOTE, {0: RECORD}) == [1]


def test_emptied_log_is_not_occupied() -> None:
    """A log whose start is its end holds nothing, whatever the offsets are; one record makes it occupied."""
    assert occupied_refusal("A.t", {0: LogBounds(start=500, end=500)}) is None
    reason = occupied_refusal("A.t", {0: LogBounds(start=0, end=0), 1: LogBounds(start=2, end=3)})
    assert reason is not None
    assert "partition 1" in reason


def test_moved_alias_is_refused() -> None:
    """Cluster ids other than the stored ones are refused; the first start knows none."""
    flow = FlowName("A", "B")
    assert cluster_refusal(flow, None, "a", "b") is None
    assert cluster_refusal(flow, FLOW_RECORD, "a", "b") is None
    reason = cluster_refusal(flow, FLOW_RECORD, "a", "other")
    assert reason is not None
    assert "other" in reason


def test_replicator_names_are_parsed_back() -> None:
    """A replicator's number is in its name; other names have none."""
    assert replicator_number("m", replicator_name("m", 12)) == 12
    assert replicator_number("m", "m:coordinator") is None
    assert replicator_number("m", "other:replicator:1") is None
