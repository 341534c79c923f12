"""Writes entries into a flow's audit log on its target. Blocking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror_ray.config.settings import AuditSettings, ClusterSettings
from mirror_ray.kafka.audit_topics import ensure_audit_log
from mirror_ray.kafka.internal_topic_writer import BlockingTopicWriter, KeyedRecord
from mirror_ray.model.audit import AuditEntry, encode_entry
from mirror_ray.model.internal_topics import audit_log_topic

_CLIENT_ID: Final = "mirror-ray-audit"
_DELIVERY_TIMEOUT_S: Final = 10.0


class AuditWriter:
    """Appends in order, acknowledged by all in-sync replicas. One call at a time."""

    def __init__(self, target: ClusterSettings, source_alias: str, settings: AuditSettings) -> None:
        """Prepare; nothing is sent before the first ``write``."""
        self.topic = audit_log_topic(source_alias)
        #: Within which a write is done or has failed, the first one on a cluster that is slow to answer, too.
        self.timeout_s = _DELIVERY_TIMEOUT_S + target.request_timeout_ms / 1000
        self._writer = BlockingTopicWriter(
            target,
            self.topic,
            _CLIENT_ID,
            ensure_topic=lambda: ensure_audit_log(target, source_alias, settings),
            delivery_timeout_s=_DELIVERY_TIMEOUT_S,
            cleanup_policy="delete",
        )

    def write(self, entries: Sequence[AuditEntry]) -> None:
        """Append all; the topic is created where it is missing.

        Raises:
            MirrorError: Some of them may not be there: write all again, their ids tell the doubled ones.
        """
        self._writer.append([KeyedRecord(*encode_entry(entry)) for entry in entries])

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()
