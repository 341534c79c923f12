"""Cluster metadata, topic ids, error codes and bootstrap addresses."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.kafka.cluster import host_and_port
from mirror_ray.kafka.errors import error_info, protocol_error
from mirror_ray.kafka.metadata import EMPTY_METADATA, described, merged_metadata, topic_id_bytes, topic_id_text
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition

ID = uuid.UUID(int=7)


def _response(*topics: Any) -> Any:
    return SimpleNamespace(cluster_id="c", controller_id=1, brokers=(), topics=topics)


def _topic(leader: int, epoch: int, topic_id: uuid.UUID | None = ID, name: str = "t") -> Any:
    partition = SimpleNamespace(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=(1, 2), isr_nodes=(1, 2), error_code=0
    )
    return SimpleNamespace(name=name, topic_id=topic_id, is_internal=False, error_code=0, partitions=(partition,))


@pytest.mark.parametrize(
    ("second", "leader"),
    [
        pytest.param(_topic(2, 6), 2, id="newer epoch"),
        pytest.param(_topic(2, 4), 1, id="an older view does not go back"),
        pytest.param(_topic(2, 0, uuid.UUID(int=8)), 2, id="a recreated topic starts anew"),
        pytest.param(_topic(2, 0, None), 2, id="without ids nothing can be told"),
    ],
)
def test_leader_of_the_highest_epoch_stays(second: Any, leader: int) -> None:
    """Two brokers may know differently much; the newer knowledge wins, as long as it is the same topic."""
    known = merged_metadata(EMPTY_METADATA, described(_response(_topic(1, 5))), complete=True)
    partition = merged_metadata(known, described(_response(second)), complete=False).partition(TopicPartition("t", 0))
    assert partition is not None
    assert partition.leader == leader


def test_complete_answer_forgets_topics_and_a_partial_one_does_not() -> None:
    """What a complete answer does not name is gone; what a partial one does not name was not asked for."""
    known = merged_metadata(EMPTY_METADATA, described(_response(_topic(1, 5), _topic(1, 5, name="u"))), complete=True)
    assert set(merged_metadata(known, described(_response(_topic(1, 5))), complete=False).topics) == {"t", "u"}
    assert set(merged_metadata(known, described(_response(_topic(1, 5))), complete=True).topics) == {"t"}


@given(st.binary(min_size=16, max_size=16))
def test_topic_id_survives_its_text(raw: bytes) -> None:
    """Sixteen bytes and Kafka's text stand for each other; zeros are no id."""
    text = topic_id_text(raw)
    assert topic_id_bytes(text) == raw
    assert (text == NO_TOPIC_ID) == (not any(raw))


def test_wrong_topic_id_is_refused() -> None:
    """A text of another length is no topic id."""
    with pytest.raises(ValueError, match="not a topic id"):
        topic_id_bytes(TopicId("abcd"))


def test_error_codes_say_what_to_do() -> None:
    """Names, retriability and stale metadata as in Kafka's table; an unknown code is not retried."""
    moved = error_info(6)
    assert (moved.name, moved.retriable, moved.invalid_metadata) == ("NOT_LEADER_OR_FOLLOWER", True, True)
    assert not error_info(45).retriable
    assert error_info(9999).name == "UNKNOWN_9999"
    assert str(protocol_error(29, "Produce to orders-3")) == "Produce to orders-3: TOPIC_AUTHORIZATION_FAILED (29)"


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("kafka:9092", ("kafka", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("SSL://kafka.example:9093", ("kafka.example", 9093)),
    ],
)
def test_bootstrap_address_is_read_as_kafka_reads_it(server: str, address: tuple[str, int]) -> None:
    """Names, IPv6 in brackets, and a protocol in front."""
    assert host_and_port(server) == address


@pytest.mark.parametrize("server", ["kafka", "kafka:", "kafka:port"])
def test_bootstrap_address_without_a_port_is_refused(server: str) -> None:
    """There is no default port."""
    with pytest.raises(ConfigError, match="HOST:PORT"):
        host_and_port(server)
