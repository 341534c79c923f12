"""The topics of the audit: the plans of failovers, which is compacted, and the log, which is kept for a time."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing
from typing import Final

from mirror_ray.config.internal_topics import audit_log
from mirror_ray.config.settings import AuditSettings, ClusterSettings, MirrorSettings
from mirror_ray.kafka.audit_log import UNRECORDED, AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.audit import AuditEntry, AuditQuery, decode_entry, newest
from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.internal_topics import audit_log_topic

_log = logging.getLogger(__name__)

_CLIENT_ID: Final = "mirror-ray-audit"
#: Entries of one flow that are held while the newest ones are looked for.
_HELD: Final = 20_000


def create_audit_topic(target: ClusterSettings, topic: str, trail: AuditLog) -> None:
    """Make the topic of a flow's failovers where it is missing.

    Raises:
        MirrorError: It is missing and can't be created.
    """
    with closing(ClusterEditor(target, _CLIENT_ID, trail)) as admin:
        admin.ensure_compacted_topic(topic, 1, None)


def ensure_audit_log(target: ClusterSettings, source_alias: str, settings: AuditSettings) -> None:
    """Make a flow's audit log where it is missing: the one change that is not in it.

    Raises:
        MirrorError: It is missing and can't be created.
    """
    wanted = audit_log(source_alias, settings.retention_ms)
    with closing(ClusterEditor(target, _CLIENT_ID, UNRECORDED)) as admin:
        admin.ensure_internal_topic(wanted.name, 1, wanted.replication_factor, wanted.configs)


async def read_audit(settings: MirrorSettings, wanted: AuditQuery) -> list[AuditEntry]:
    """The newest entries of all flows, or of one, oldest first. A log that is missing says nothing.

    Raises:
        ConfigError: There is no such flow.
        OSError, MirrorError: A log can't be read now.
    """
    flows = [each for each in settings.flows if each.enabled and each.name.is_live]
    if wanted.flow is not None:
        flows = [settings.flow(each.name) for each in flows if str(each.name) == wanted.flow]
    found: list[AuditEntry] = []
    for target, source in sorted({(each.name.target, each.name.source) for each in flows}):
        found += await _read(settings.clusters[target], audit_log_topic(source), wanted)
    return newest(found, wanted)


async def _read(target: ClusterSettings, topic: str, wanted: AuditQuery) -> list[AuditEntry]:
    cluster = ClusterConnections(target, _CLIENT_ID)
    try:
        reader, found, complete = (
            InternalTopicReader(cluster, topic, from_ms=wanted.since_ms),
            list[AuditEntry](),
            False,
        )
        while not complete:
            _, records, complete = await reader.read()
            found += _entries(each.value for each in records if each.value is not None)
            if len(found) > _HELD:
                found = newest(found, wanted)
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
