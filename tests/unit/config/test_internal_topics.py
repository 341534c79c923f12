"""What a flow's internal topics are created with."""

from __future__ import annotations

from mirror_ray.config.internal_topics import InternalTopic


def test_a_topic_is_compacted_unless_it_has_a_retention() -> None:
    """Without a retention everything stays that is newest of its key."""
    topic = InternalTopic(name="t", segment_bytes=5, why="to be tested")
    assert topic.configs == {"cleanup.policy": "compact", "segment.bytes": "5"}


def test_records_are_deleted_soon_after_their_retention() -> None:
    """A segment is closed long before its records are old enough, so that they go when they are."""
    topic = InternalTopic(name="t", retention_ms=8_000_000, why="to be tested")
    assert topic.configs == {"cleanup.policy": "delete", "retention.ms": "8000000", "segment.ms": "1000000"}
    assert InternalTopic(name="t", retention_ms=1, why="").configs["segment.ms"] == str(60_000)
