"""Emits MM2's heartbeats. Blocking: asyncio callers wrap calls in ``asyncio.to_thread``.

Source: ``org.apache.kafka.connect.mirror.MirrorHeartbeatTask``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Final

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.internal_topic_writer import BlockingTopicWriter, KeyedRecord
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.names import FlowName
from mirror_ray.records.mm2_records import HeartbeatRecord

#: A heartbeat that did not get through by then is worth nothing: the next one says more.
_DELIVERY_TIMEOUT_S: Final = 10.0


class HeartbeatEmitter:
    """Writes the heartbeats of all flows into one target cluster. One call at a time."""

    def __init__(
        self,
        target: ClusterSettings,
        flows: Sequence[FlowName],
        audit_log: AuditLog,
        *,
        replication_factor: int | None = None,
        topic: str = "heartbeats",
        client_id: str = "mirror-ray-heartbeat",
    ) -> None:
        """Prepare; nothing is sent yet. ``audit_log``: where the creation of the topic is recorded."""
        self.target = target
        self.flows = tuple(flows)
        self.topic = topic
        self._replication_factor = replication_factor
        self._client_id = client_id
        self._audit_log = audit_log
        self._acknowledged: dict[FlowName, int] = {}
        self._writer = BlockingTopicWriter(
            target,
            topic,
            client_id,
            ensure_topic=self._ensure_topic,
            delivery_timeout_s=_DELIVERY_TIMEOUT_S,
            codec="none",
        )

    @property
    def acknowledged(self) -> Mapping[FlowName, int]:
        """Time of each flow's last heartbeat that the target has acknowledged, in ms since the epoch."""
        return dict(self._acknowledged)

    def emit(self, timestamp_ms: int | None = None, flows: Collection[FlowName] | None = None) -> None:
        """Write one heartbeat for each flow (all of them by default), and wait until all in-sync replicas have them.

        The first call, and one after a failure, creates the heartbeats topic where it is missing.

        Raises:
            ClusterUnreachableError: Not acknowledged within ten seconds; call again at the next interval.
            MirrorError: The topic can't be created or written.
        """
        now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        emitted = self.flows if flows is None else tuple(flows)
        heartbeats = [
            HeartbeatRecord(source_alias=flow.source, target_alias=flow.target, timestamp_ms=now_ms) for flow in emitted
        ]
        self._writer.append([KeyedRecord(*heartbeat.encode()) for heartbeat in heartbeats], now_ms)
        for flow in emitted:
            self._acknowledged[flow] = max(now_ms, self._acknowledged.get(flow, 0))

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()

    def _ensure_topic(self) -> None:
        with closing(ClusterEditor(self.target, self._client_id, self._audit_log)) as admin:
            admin.ensure_compacted_topic(self.topic, 1, self._replication_factor)
