"""What the state persists of a partition that was handed back with an answer to all that was sent."""

from __future__ import annotations

from typing import cast

from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.coordinator.ports import FlowClusters, TargetLimits
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.names import FlowName, FlowPartition, TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FlowRecord
from tests.model.state_topic import StatePort, StateTopic, at_once

PARTITION = TopicPartition("t", 0)
FLOW = FlowRecord(producer_id=1, producer_epoch=0, source_cluster_id="a", target_cluster_id="b", selection="")
RECORD = PartitionRecord(
    source_topic_id=TopicId("s"), target_topic="A.t", target_topic_id=TopicId("r"), source_offset=0, target_offset=0
)


def opened(topic: StateTopic) -> FlowState:
    """As a coordinator that starts."""
    state = FlowState(cast(FlowClusters, StatePort(topic)), 4000)
    at_once(state.open())
    return state


def assigned(state: FlowState) -> Assignment:
    """Handed out."""
    limits = TargetLimits(max_message_bytes=1 << 20, compress_with=None)
    (assignment,) = at_once(state.assign({FlowPartition(FlowName("A", "B"), "t", 0): limits}, None))
    return assignment


def test_whoever_gets_a_settled_partition_knows_that_nothing_lies_behind_its_pair() -> None:
    """Also after the coordinator was started anew; until it is handed out, or has moved on without saying so."""
    topic = StateTopic()
    state = opened(topic)
    at_once(state.begin_flow(FLOW, {}))
    at_once(state.begin_partitions({PARTITION: RECORD}))
    assert not assigned(state).settled
    state.note_pair(PARTITION, OffsetPair(7, 7), settled=True)
    assert assigned(state).settled
    assert not assigned(state).settled
    for moved in (OffsetPair(9, 9), OffsetPair(9, 9)):
        state.note_pair(PARTITION, moved, settled=True)
        at_once(state.flush())
        state = opened(topic)
        found = assigned(state)
        assert (found.settled, found.anchor) == (True, moved)
        state = opened(topic)
        assert not assigned(state).settled
    state.note_pair(PARTITION, OffsetPair(11, 11), settled=True)
    state.note_pair(PARTITION, OffsetPair(12, 12))
    at_once(state.flush())
    assert not assigned(opened(topic)).settled


def test_the_target_s_epoch_is_kept_with_the_pair() -> None:
    """By it a target that lost its end is recognised, whoever asks for it next."""
    topic = StateTopic()
    state = opened(topic)
    at_once(state.begin_flow(FLOW, {}))
    at_once(state.begin_partitions({PARTITION: RECORD}))
    state.note_pair(PARTITION, OffsetPair(7, 7, target_epoch=5))
    at_once(state.flush())
    assert assigned(opened(topic)).anchor.target_epoch == 5
