"""Writes entries into a flow's audit log on its target. Blocking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mirror_ray.config.settings import AuditSettings, ClusterSettings
from mirror_ray.kafka.audit_topics import ensure_audit_log
from mirror_ray.kafka.credential_renewal import CredentialRenewal
from mirror_ray.kafka.librdkafka import client_config, mirror_error
from mirror_ray.model.audit import AuditEntry, encode_entry
from mirror_ray.model.internal_topics import audit_log_topic

_CLIENT_ID: Final = "mirror-ray-audit"
_DELIVERY_TIMEOUT_MS: Final = 10_000


class AuditWriter:
    """Appends in order, acknowledged by all in-sync replicas. One call at a time."""

    def __init__(self, target: ClusterSettings, source_alias: str, settings: AuditSettings) -> None:
        """Nothing is sent before the first ``write``."""
        self._target, self._source_alias, self._settings = target, source_alias, settings
        self.topic = audit_log_topic(source_alias)
        #: Within which a write is done or has failed, the first one on a cluster that is slow to answer, too.
        self.timeout_s = (_DELIVERY_TIMEOUT_MS + target.request_timeout_ms) / 1000
        self._producer: Producer | None = None
        self._renewal = CredentialRenewal(target)

    def write(self, entries: Sequence[AuditEntry]) -> None:
        """Append all; the topic is made where it is missing.

        Raises:
            MirrorError: Some of them may not be there: write all again, their ids tell the doubled ones.
        """
        if self._producer is not None and not self._renewal.renew(self._producer):
            self.close()
        producer = self._producer or self._open()
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        for entry in entries:
            key, value = encode_entry(entry)
            producer.produce(self.topic, value=value, key=key, partition=0, on_delivery=delivered)
            producer.poll(0)
        producer.flush()
        if failures:
            # The topic may be gone: it is looked for again.
            self.close()
            raise mirror_error(self._target, f"write to topic {self.topic}", KafkaException(failures[0]))

    def close(self) -> None:
        """Let go of the connections."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _open(self) -> Producer:
        ensure_audit_log(self._target, self._source_alias, self._settings)
        told = {
            "acks": "all",
            "compression.type": "zstd",
            "enable.idempotence": False,
            "allow.auto.create.topics": False,
            "linger.ms": 0,
            "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
        }
        self._renewal = CredentialRenewal(self._target)
        self._producer = Producer(client_config(self._target, _CLIENT_ID) | told)
        return self._producer
