"""The topics of the audit on a flow's target: the failovers' plans, compacted, and the log, kept for a time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Final

from mirror_ray.config import internal_topics
from mirror_ray.config.settings import AuditSettings, ClusterSettings, MirrorSettings
from mirror_ray.kafka.audit_log import UNRECORDED, AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.internal_topic_writer import BlockingTopicWriter, KeyedRecord
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.audit import AuditEntry, AuditQuery, decode_entry, encode_entry, newest
from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.internal_topics import audit_log_topic

_log = logging.getLogger(__name__)

_CLIENT_ID: Final = "mirror-ray-audit"
_DELIVERY_TIMEOUT_S: Final = 10.0
#: Entries of one flow that are kept in memory while the newest ones are searched for.
_HELD: Final = 20_000


class AuditWriter:
    """Appends entries to a flow's audit log, in order, acknowledged by all in-sync replicas. Blocking.

    One call at a time.
    """

    def __init__(self, target: ClusterSettings, source_alias: str, settings: AuditSettings) -> None:
        """Prepare; nothing is sent before the first ``write``."""
        #: Within which a write is done or has failed, also the first one on a cluster that is slow to answer.
        self.timeout_s = _DELIVERY_TIMEOUT_S + target.request_timeout_ms / 1000
        self._writer = BlockingTopicWriter(
            target,
            audit_log_topic(source_alias),
            _CLIENT_ID,
            ensure_topic=lambda: ensure_audit_log(target, source_alias, settings),
            delivery_timeout_s=_DELIVERY_TIMEOUT_S,
            cleanup_policy="delete",
        )

    def write(self, entries: Sequence[AuditEntry]) -> None:
        """Append all; the topic is created where it is missing.

        Raises:
            MirrorError: Some of them may not be there: write all again, readers know double ones by their ids.
        """
        self._writer.append([KeyedRecord(*encode_entry(entry)) for entry in entries])

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()


def create_audit_topic(target: ClusterSettings, topic: str, audit_log: AuditLog) -> None:
    """Create the topic of a flow's failovers where it is missing.

    Raises:
        MirrorError: It is missing and can't be created.
    """
    with closing(ClusterEditor(target, _CLIENT_ID, audit_log)) as admin:
        admin.ensure_compacted_topic(topic, 1, None)


def ensure_audit_log(target: ClusterSettings, source_alias: str, settings: AuditSettings) -> None:
    """Create a flow's audit log where it is missing: the one change that is not in it.

    Raises:
        MirrorError: It is missing and can't be created.
    """
    topic = internal_topics.audit_log(source_alias, settings.retention_ms)
    with closing(ClusterEditor(target, _CLIENT_ID, UNRECORDED)) as admin:
        admin.ensure_internal_topic(topic.name, 1, topic.replication_factor, topic.configs)


async def read_audit(settings: MirrorSettings, query: AuditQuery) -> list[AuditEntry]:
    """The newest entries of all flows, or of one, oldest first. A log that is missing is an empty one.

    Raises:
        ConfigError: There is no such flow.
        OSError, MirrorError: A log can't be read now.
    """
    flows = [flow for flow in settings.flows if flow.enabled and flow.name.is_live]
    if query.flow is not None:
        flows = [settings.flow(flow.name) for flow in flows if str(flow.name) == query.flow]
    found: list[AuditEntry] = []
    for target, source in sorted({(flow.name.target, flow.name.source) for flow in flows}):
        found += await _read(settings.clusters[target], audit_log_topic(source), query)
    return newest(found, query)


async def _read(target: ClusterSettings, topic: str, query: AuditQuery) -> list[AuditEntry]:
    cluster = ClusterConnections(target, _CLIENT_ID)
    try:
        reader = InternalTopicReader(cluster, topic, from_ms=query.since_ms)
        found, complete = list[AuditEntry](), False
        while not complete:
            _, records, complete = await reader.read()
            found += _entries(record.value for record in records if record.value is not None)
            if len(found) > _HELD:
                found = newest(found, query)
        return found
    finally:
        await cluster.close()


def _entries(values: Iterable[bytes]) -> list[AuditEntry]:
    found = []
    for value in values:
        try:
            found.append(decode_entry(value))
        except CorruptRecordError as error:
            _log.warning("%s", error)
    return found
