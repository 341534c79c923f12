"""Publishes blocks of a flow's offset map that no replicator has published."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mirror_ray.config.internal_topics import offset_topics
from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.kafka.retries import retry
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.segment import SegmentBlock
from mirror_ray.records.segment_block import encode_key, encode_value


async def publish_blocks(
    flow: FlowSettings, target: ClusterConnections, blocks: Sequence[SegmentBlock], audit_log: AuditLog, purpose: str
) -> None:
    """Append blocks to the flow's segments topic, which is created where it is missing. Nobody else writes there now.

    Raises:
        MirrorError: Not all of them may be there: publish them again.
    """
    if not blocks:
        return
    topic = segments_topic(flow.name.source)
    await asyncio.to_thread(_ensure, flow, target, audit_log, purpose)
    await target.refresh([topic])
    writer = InternalTopicWriter(target, topic)
    records = [KeyedRecord(encode_key(block.key), encode_value(block)) for block in blocks]
    time_limit_s = target.settings.request_timeout_ms / 1000
    # A topic that was created just now may have no leader yet.
    await retry(target, f"write to topic {topic}", lambda: writer.append(records), time_limit_s)


def _ensure(flow: FlowSettings, target: ClusterConnections, audit_log: AuditLog, purpose: str) -> None:
    editor = ClusterEditor(target.settings, f"mirror-ray-{purpose}", audit_log)
    topic = segments_topic(flow.name.source)
    try:
        for needed in offset_topics(flow):
            if needed.name == topic:
                editor.ensure_internal_topic(topic, 1, needed.replication_factor, needed.configs)
    finally:
        editor.close()
