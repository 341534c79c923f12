"""Which sender has which remote partition."""

from __future__ import annotations

from collections import Counter

from mirror_ray.model.names import TopicPartition
from mirror_ray.replication.broker_loops import lane_of


def test_a_topic_is_divided_evenly_among_the_senders() -> None:
    """Or one of them has most of the work."""
    shares = Counter(lane_of(TopicPartition("A.orders", partition)) for partition in range(8))
    assert sorted(shares.values()) == [4, 4]


def test_topics_of_one_partition_are_divided_too() -> None:
    """By their names."""
    shares = Counter(lane_of(TopicPartition(f"A.topic-{number}", 0)) for number in range(1000))
    assert min(shares.values()) > 400


def test_a_remote_partition_keeps_its_sender() -> None:
    """Also where two source partitions are copied into it: a request holds one batch of each remote partition."""
    assert lane_of(TopicPartition("merged", 3)) == lane_of(TopicPartition("merged", 3))
