"""Answers about all topics: decoded where they differ, once for all connections of a process."""

from __future__ import annotations

import io
import uuid
from dataclasses import replace
from typing import Any

import pytest
from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.constants import EntityType

from mirror_ray.kafka.metadata import EMPTY_METADATA, merged_metadata
from mirror_ray.kafka.metadata_answers import TopicAnswers
from mirror_ray.lab.bench.stub_broker import NOT_THROTTLED
from mirror_ray.model.names import TopicPartition

VERSIONS = (9, 10, 11, 12)


def _answer(version: int, *, leader: int = 1, controller: int = 1, cluster_id: str | None = "c") -> memoryview:
    """Of a cluster of two brokers with one topic."""
    schema: Any = load_entity_module("metadata", version, EntityType.response)
    brokers = (
        schema.MetadataResponseBroker(node_id=1, host="one", port=9092, rack="a"),
        schema.MetadataResponseBroker(node_id=2, host="two", port=9093, rack=None),
    )
    partition = schema.MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=0,
        leader_id=leader,
        leader_epoch=leader,
        replica_nodes=(1, 2),
        isr_nodes=(1, 2),
        offline_replicas=(),
    )
    with_id = {"topic_id": uuid.UUID(int=7)} if version >= 10 else {}
    topic = schema.MetadataResponseTopic(
        error_code=ErrorCode.none, name="orders", is_internal=False, partitions=(partition,), **with_id
    )
    answer = schema.MetadataResponse(
        throttle_time=NOT_THROTTLED, brokers=brokers, cluster_id=cluster_id, controller_id=controller, topics=(topic,)
    )
    body = io.BytesIO()
    entity_writer(type(answer))(body, answer)
    return memoryview(body.getvalue())


def _request(version: int) -> Any:
    module: Any = load_entity_module("metadata", version, EntityType.request)
    return module.MetadataRequest


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_said_before_is_not_decoded_again(version: int) -> None:
    """Whoever asks, and whichever broker KRaft names as the controller; topics are the same objects."""
    answers, request = TopicAnswers(), _request(version)
    first = answers.read(request, _answer(version))
    again = answers.read(request, _answer(version, controller=2))
    assert answers.decoded == 1
    assert again.topics["orders"] is first.topics["orders"]
    assert (first.controller_id, again.controller_id) == (1, 2)
    assert (first.cluster_id, first.brokers[1].rack, first.brokers[2].host) == ("c", "a", "two")
    merged = merged_metadata(merged_metadata(EMPTY_METADATA, first, complete=True), again, complete=True)
    assert merged.topics["orders"] is first.topics["orders"]
    assert merged.topics["orders"].leaders == {0: 1}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_differs_is_decoded(version: int) -> None:
    """A new leader; another cluster's answer takes nobody's place."""
    answers, request = TopicAnswers(), _request(version)
    first = answers.read(request, _answer(version))
    moved = answers.read(request, _answer(version, leader=2))
    assert moved.leader(TopicPartition("orders", 0)) == 2
    assert first.leader(TopicPartition("orders", 0)) == 1
    answers.read(request, _answer(version, cluster_id=None))
    answers.read(request, _answer(version, leader=2))
    assert answers.decoded == 3


def test_an_answer_that_ends_too_early_is_refused() -> None:
    """At whichever byte: an error of the room, never another one."""
    whole = _answer(12)
    for size in range(len(whole)):
        with pytest.raises(ValueError, match="can't be read"):
            TopicAnswers().read(_request(12), whole[:size])


def test_an_older_view_does_not_go_back() -> None:
    """Answers that are shared keep to the rule of epochs."""
    answers, request = TopicAnswers(), _request(12)
    newer = merged_metadata(EMPTY_METADATA, answers.read(request, _answer(12, leader=2)), complete=True)
    merged = merged_metadata(newer, answers.read(request, _answer(12, leader=1)), complete=True)
    assert merged.leader(TopicPartition("orders", 0)) == 2
    assert replace(merged, controller_id=1).topics == newer.topics
