"""What MM2 could not go on with."""

from __future__ import annotations

from dataclasses import replace

from mirror_ray.config.settings import FlowSettings, PolicySettings
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.policy import IDENTITY_POLICY_CLASS
from mirror_ray.takeover.handback import named_otherwise
from tests.unit.takeover.test_mm2_offset_syncs import record_at


def test_topics_of_other_names() -> None:
    """MM2 names remote topics by its policy alone."""
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True)
    record = record_at(5, 5)
    assert named_otherwise(flow, {TopicPartition("t", 0): record}) is None
    reason = named_otherwise(flow, {TopicPartition("t", 0): replace(record, target_topic="mapped")})
    assert reason is not None
    assert all(word in reason for word in ("mapped", "A.t", "topics.map", "topics.exclude"))
    same = flow.model_copy(update={"policy": PolicySettings(class_name=IDENTITY_POLICY_CLASS)})
    assert named_otherwise(same, {TopicPartition("t", 0): replace(record, target_topic="t")}) is None
