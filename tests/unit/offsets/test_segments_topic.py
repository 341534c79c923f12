"""Publishing blocks of an offset map that no replicator publishes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from mirror_ray.config.settings import ClusterSettings, FlowSettings
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.errors import KafkaProtocolError
from mirror_ray.model.names import FlowName, TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.offsets import segments_topic

BLOCK = SegmentBlock(
    source=TopicPartition("t", 0),
    source_topic_id=TopicId("one"),
    target_topic_id=TopicId("other"),
    epoch=1,
    segments=(Segment(0, 0, 0, 0),),
    source_next=0,
)


class Cluster:
    """Connections that nothing goes through."""

    settings = ClusterSettings(alias="B", bootstrap_servers=("127.0.0.1:1",))

    async def refresh(self, _topics: Sequence[str]) -> None:
        """Nothing is known anyway."""


async def test_a_topic_that_has_no_leader_yet_is_written_to_a_little_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been created just now."""
    written: list[Sequence[KeyedRecord]] = []

    async def append(_writer: InternalTopicWriter, records: Sequence[KeyedRecord]) -> None:
        written.append(records)
        if len(written) == 1:
            raise KafkaProtocolError(6, "NOT_LEADER_OR_FOLLOWER", "write to topic mm2-ray-segments.A.internal")

    monkeypatch.setattr(InternalTopicWriter, "append", append)
    monkeypatch.setattr(segments_topic, "_ensure", lambda *_: None)
    await segments_topic.publish_blocks(
        FlowSettings(name=FlowName("A", "B")), cast("Any", Cluster()), [BLOCK], cast("Any", None), "test"
    )
    assert len(written) == 2
    assert written[0] == written[1]
    assert written[0]
