"""Offsets of the past belong to the topics of the past."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from mirror_ray.groups.bulk import of_another
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition

OLD, NEW = TopicId("old"), TopicId("new")


@pytest.mark.parametrize(
    ("then", "now", "error_code", "another"),
    [
        (OLD, NEW, 0, True),
        (OLD, OLD, 0, False),
        (NO_TOPIC_ID, NEW, 0, False),
        (OLD, NO_TOPIC_ID, 0, False),
        (OLD, NEW, 3, False),
        (OLD, None, 0, False),
    ],
)
def test_an_offset_of_a_topic_that_was_is_none_of_the_one_that_is(
    then: TopicId, now: TopicId | None, error_code: int, another: bool
) -> None:
    """Where both are known; that a topic is missing is said elsewhere."""
    topics = {} if now is None else {"t": SimpleNamespace(topic_id=now, error_code=error_code)}
    source = SimpleNamespace(metadata=SimpleNamespace(topics=topics), settings=SimpleNamespace(alias="A"))
    why = of_another(cast(ClusterConnections, source), TopicPartition("t", 0), CommittedOffset(7, topic_id=then))
    assert why == ("topic t on cluster A was created anew since the group had committed 7 there" if another else None)
