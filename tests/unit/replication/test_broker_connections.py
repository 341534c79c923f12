"""How many connections a broker has, and which of them has a partition."""

from __future__ import annotations

from collections import Counter

from mirror_ray.model.names import TopicPartition
from mirror_ray.replication.broker_connections import FETCH_CONNECTIONS, PRODUCE_CONNECTIONS, connections, lane_of


def test_a_long_link_has_more_connections() -> None:
    """A lost packet halves what is under way on one of them, not on all."""
    assert [connections(0.019, near) for near in (FETCH_CONNECTIONS, PRODUCE_CONNECTIONS)] == [1, 2]
    assert [connections(0.020, near) for near in (FETCH_CONNECTIONS, PRODUCE_CONNECTIONS)] == [8, 8]


def test_eight_partitions_have_eight_connections() -> None:
    """Each its own."""
    assert {lane_of(TopicPartition("orders", number), connections(0.1, 1)) for number in range(8)} == set(range(8))


def test_a_topic_is_divided_evenly_among_the_senders() -> None:
    """Or one of them has most of the work."""
    shares = Counter(lane_of(TopicPartition("A.orders", partition), 2) for partition in range(8))
    assert sorted(shares.values()) == [4, 4]


def test_topics_of_one_partition_are_divided_too() -> None:
    """By their names."""
    shares = Counter(lane_of(TopicPartition(f"A.topic-{number}", 0), 2) for number in range(1000))
    assert min(shares.values()) > 400


def test_a_remote_partition_keeps_its_sender() -> None:
    """Also where two source partitions are copied into it: a request holds one batch of each remote partition."""
    assert lane_of(TopicPartition("merged", 3), 2) == lane_of(TopicPartition("merged", 3), 2)
