"""What a flow's state becomes when it is left for the flow back, and taken up again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.reversal.flow_states import BothStates
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FlowRecord
from mirror_ray.state.schema import FlowStateRecords, decode
from tests.support.factories import audit_logs, partition_record

_ORDERS, _HEARTBEATS = TopicPartition("orders", 0), TopicPartition("heartbeats", 0)
_FLOW = FlowRecord(
    producer_id=50, producer_epoch=2, source_cluster_id="b", target_cluster_id="a", selection="", starts=""
)


def taken_up(flow: FlowRecord, heartbeats: PartitionRecord) -> FlowStateRecords:
    """The state of ``B->A`` once it goes on, as its coordinator reads it."""
    settings = MirrorSettings(
        clusters={alias: ClusterSettings(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in "AB"},
        flows=(FlowSettings(name=FlowName("A", "B")), FlowSettings(name=FlowName("B", "A"))),
    )
    there, back = settings.flows
    states = BothStates(settings, there, back, audit_logs().of(settings, there.name))
    states.back.records = FlowStateRecords(
        flow=flow, partitions={_ORDERS: partition_record("orders"), _HEARTBEATS: heartbeats}
    )
    orders = partition_record("orders", source_offset=90, target_offset=90, settled=True)
    documents = states.taken_up({_ORDERS: orders}, set(), 2, 0)
    return decode({key: document for key, document in documents.items() if document is not None})


def test_partitions_that_are_not_reversed_keep_their_producer() -> None:
    """Killed before it told its last offsets, the flow has written behind them: that is known by its producer."""
    found = taken_up(_FLOW, partition_record("heartbeats"))
    assert found.flow is not None
    assert found.flow.producer_id == -1
    assert (found.partitions[_HEARTBEATS].producer_id, found.partitions[_HEARTBEATS].producer_epoch) == (50, 2)
    assert found.partitions[_ORDERS].producer_id is None


@pytest.mark.parametrize("own", [None, 7])
def test_a_partition_with_a_producer_of_its_own_keeps_that(own: int | None) -> None:
    """And one that is copied at least once has none."""
    found = taken_up(_FLOW if own else replace(_FLOW, producer_id=-1), partition_record("heartbeats", producer_id=own))
    assert found.partitions[_HEARTBEATS].producer_id == own
