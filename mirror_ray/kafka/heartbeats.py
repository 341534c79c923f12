"""Emits MM2's heartbeats. Blocking: asyncio callers wrap calls in ``asyncio.to_thread``.

Source: ``org.apache.kafka.connect.mirror.MirrorHeartbeatTask``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.credential_renewal import CredentialRenewal
from mirror_ray.kafka.librdkafka import client_config, mirror_error
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.names import FlowName
from mirror_ray.records.mm2_records import HeartbeatRecord

#: A heartbeat that did not get through by then is worth nothing: the next one says more.
_DELIVERY_TIMEOUT_MS: Final = 10_000


class HeartbeatEmitter:
    """Writes the heartbeats of all flows into one target cluster. One call at a time."""

    def __init__(
        self,
        target: ClusterSettings,
        flows: Sequence[FlowName],
        trail: AuditLog,
        *,
        replication_factor: int | None = None,
        topic: str = "heartbeats",
        client_id: str = "mirror-ray-heartbeat",
    ) -> None:
        self.target = target
        self.flows = tuple(flows)
        self.topic = topic
        self._replication_factor = replication_factor
        self._client_id = client_id
        self._trail = trail
        self._producer: Producer | None = None
        self._renewal = CredentialRenewal(target)
        self._acknowledged: dict[FlowName, int] = {}

    @property
    def acknowledged(self) -> Mapping[FlowName, int]:
        """Time of each flow's last heartbeat that the target has acknowledged, in ms since the epoch."""
        return dict(self._acknowledged)

    def emit(self, timestamp_ms: int | None = None, flows: Collection[FlowName] | None = None) -> None:
        """Write one heartbeat for each flow (all of them by default), and wait until the target has them.

        The first call creates the heartbeats topic where it is missing.

        Raises:
            ClusterUnreachableError: Not acknowledged within ten seconds; call again at the next interval.
            AdminError: The topic can't be created or written.
        """
        if self._producer is not None and not self._renewal.renew(self._producer):
            self.close()
        producer = self._producer or self._open()
        now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        failures: list[KafkaError] = []
        for flow in self.flows if flows is None else flows:
            self._send(producer, flow, now_ms, failures)
        producer.flush()
        if failures:
            raise mirror_error(self.target, f"write to topic {self.topic}", KafkaException(failures[0]))

    def close(self) -> None:
        """Let go of the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _open(self) -> Producer:
        admin = ClusterEditor(self.target, self._client_id, self._trail)
        admin.ensure_compacted_topic(self.topic, 1, self._replication_factor)
        self._renewal = CredentialRenewal(self.target)
        self._producer = Producer(
            client_config(self.target, self._client_id)
            | {"acks": "all", "linger.ms": 0, "message.timeout.ms": _DELIVERY_TIMEOUT_MS}
        )
        return self._producer

    def _send(self, producer: Producer, flow: FlowName, now_ms: int, failures: list[KafkaError]) -> None:
        beat = HeartbeatRecord(source_alias=flow.source, target_alias=flow.target, timestamp_ms=now_ms)
        key, value = beat.encode()

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)
            else:
                self._acknowledged[flow] = max(now_ms, self._acknowledged.get(flow, 0))

        producer.produce(self.topic, value=value, key=key, partition=0, timestamp=now_ms, on_delivery=delivered)
