"""Leaders that brokers name when they refuse (KIP-951): read as kio writes them, taken where they are newer."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from mirror_ray.kafka import fetch, produce
from mirror_ray.kafka.leader_hints import LeaderHint, follows, with_leaders
from mirror_ray.kafka.metadata import EMPTY_METADATA, BrokerAddress, ClusterMetadata, PartitionMetadata, TopicMetadata
from mirror_ray.model.names import NO_TOPIC_ID, TopicPartition
from tests.unit.kafka.group_brokers import module, written

ID = uuid.UUID(int=7)
ORDERS = TopicPartition("orders", 0)
NOT_LEADER = ErrorCode(6)
AT_ONCE = i32Timedelta.parse(dt.timedelta(0))
SECOND = BrokerAddress(id=2, host="second", port=9092, rack=None)
IN_RACK = BrokerAddress(id=3, host="third", port=9093, rack="r")


def fetched(version: int, **leader: int) -> bytes:
    """An answer that refuses one partition."""
    m = module("fetch", version, EntityType.response)
    partition = m.PartitionData(
        partition_index=0,
        error_code=NOT_LEADER,
        high_watermark=-1,
        aborted_transactions=None,
        records=None,
        **({"current_leader": m.LeaderIdAndEpoch(**leader)} if leader else {}),
    )
    topic = m.FetchableTopicResponse(topic_id=ID, partitions=(partition,))
    nodes = {"node_endpoints": endpoints(m)} if version >= 16 else {}
    return written(m.FetchResponse(throttle_time=AT_ONCE, error_code=ErrorCode.none, responses=(topic,), **nodes))


def produced(version: int, **leader: int) -> bytes:
    """As above."""
    m = module("produce", version, EntityType.response)
    partition = m.PartitionProduceResponse(
        index=0,
        error_code=NOT_LEADER,
        base_offset=-1,
        record_errors=(),
        **({"current_leader": m.LeaderIdAndEpoch(**leader)} if leader else {}),
    )
    name = {"topic_id": ID} if version >= 13 else {"name": "orders"}
    topic = m.TopicProduceResponse(partition_responses=(partition,), **name)
    nodes = {"node_endpoints": endpoints(m)} if version >= 10 else {}
    return written(m.ProduceResponse(responses=(topic,), throttle_time=AT_ONCE, **nodes))


def endpoints(m: Any) -> tuple[Any, ...]:
    """Of both brokers."""
    return tuple(
        m.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in (SECOND, IN_RACK)
    )


def metadata(leader: int = 1, leader_epoch: int = 4) -> ClusterMetadata:
    """Of one topic with two partitions, and one broker."""
    partitions = {
        number: PartitionMetadata(
            partition=number, leader=leader, leader_epoch=leader_epoch, replicas=(1, 2), isr=(1, 2), error_code=0
        )
        for number in range(2)
    }
    topic = TopicMetadata(name="orders", topic_id=NO_TOPIC_ID, is_internal=False, error_code=0, partitions=partitions)
    broker = BrokerAddress(id=1, host="first", port=9092, rack=None)
    return replace(EMPTY_METADATA, brokers={1: broker}, topics={"orders": topic})


def leader_of(hints: Mapping[TopicPartition, LeaderHint], nodes: list[BrokerAddress]) -> int:
    """As the metadata has it afterwards, where broker 1 was it in epoch 4."""
    return with_leaders(metadata(), hints, nodes).leader(ORDERS)


@pytest.mark.parametrize("version", [13, 15, 16])
def test_a_fetch_that_is_refused_names_the_leader(version: int) -> None:
    """Its address, too, from version 16 on; before, it is looked up."""
    response = fetch.decode_fetch(version, memoryview(fetched(version, leader_id=2, leader_epoch=5)))
    assert response.partitions[0].leader == LeaderHint(2, 5)
    assert response.nodes == ([SECOND, IN_RACK] if version >= 16 else [])


@pytest.mark.parametrize("version", [10, 12, 13])
def test_a_batch_that_is_refused_names_the_leader(version: int) -> None:
    """And its address."""
    response = produce.decode_produce(version, memoryview(produced(version, leader_id=2, leader_epoch=5)))
    assert (response.partitions[0].leader, response.nodes) == (LeaderHint(2, 5), [SECOND, IN_RACK])
    assert response.throttle_ms == 0


def test_a_leader_that_the_broker_does_not_know_is_none() -> None:
    """It says -1, or nothing."""
    for body in (fetched(16), fetched(16, leader_id=-1, leader_epoch=5)):
        assert fetch.decode_fetch(16, memoryview(body)).partitions[0].leader is None
    for body in (produced(10), produced(10, leader_id=-1, leader_epoch=5)):
        assert produce.decode_produce(10, memoryview(body)).partitions[0].leader is None
    assert produce.decode_produce(9, memoryview(produced(9))).partitions[0].leader is None


def test_a_newer_leader_is_taken() -> None:
    """With its address; the other partition keeps its own."""
    known = with_leaders(metadata(), {ORDERS: LeaderHint(2, 5)}, [SECOND])
    assert (known.leader(ORDERS), known.leader(TopicPartition("orders", 1))) == (2, 1)
    assert known.brokers[2] == SECOND
    assert follows(known, ORDERS, LeaderHint(2, 5))
    assert not follows(metadata(), ORDERS, LeaderHint(2, 5))


def test_an_older_leader_is_not() -> None:
    """A broker that was cut off names the one that it has known."""
    assert leader_of({ORDERS: LeaderHint(2, 4)}, [SECOND]) == 1
    assert leader_of({ORDERS: LeaderHint(2, 3)}, [SECOND]) == 1


def test_a_leader_without_an_address_is_not() -> None:
    """It could not be connected to; metadata has to be asked for."""
    assert leader_of({ORDERS: LeaderHint(2, 5)}, []) == 1
    assert leader_of({ORDERS: LeaderHint(2, 5)}, [replace(SECOND, host="")]) == 1


def test_a_partition_that_is_not_known_changes_nothing() -> None:
    """It was not asked for."""
    hints = {TopicPartition("orders", 9): LeaderHint(2, 5), TopicPartition("other", 0): LeaderHint(2, 5)}
    assert with_leaders(metadata(), hints, []) == metadata()
