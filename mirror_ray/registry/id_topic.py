"""The internal topic on the target that says what a flow's schema ids become: read, and written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.internal_topics import schemas_topic
from mirror_ray.records.schema_id_records import (
    FieldDecision,
    Forgotten,
    GuidTranslation,
    IdsDecision,
    IdsWay,
    IdTranslation,
    SchemaField,
    SchemaIdEntry,
    decode,
    encode,
)

_PATIENCE_S: Final = 10.0


class SchemaIdTopic:
    """What the topic says, as its one writer knows it. One call at a time."""

    def __init__(self, target: ClusterConnections, source_alias: str, replication_factor: int | None) -> None:
        """``replication_factor``: of the topic, where it has to be created; None: the broker's default."""
        self._target, self._topic = target, schemas_topic(source_alias)
        self._replication_factor = replication_factor
        self._writer = InternalTopicWriter(target, self._topic)
        self.ids: dict[int, int | None] = {}
        self.guids: dict[bytes, bytes | None] = {}
        self.framed: dict[tuple[str, SchemaField], bool] = {}
        self.way: IdsWay | None = None

    async def open(self, client_id: str, audit_log: AuditLog) -> None:
        """Create the topic where it is missing, and read all of it.

        Raises:
            OSError, MirrorError: It can't be created or read now.
        """
        await asyncio.to_thread(self._ensure, client_id, audit_log)
        self.ids, self.guids, self.framed, self.way = {}, {}, {}, None
        async for chunk in InternalTopicReader(self._target, self._topic).to_end(_PATIENCE_S):
            for record in chunk.records:
                key, value, _ = record.fields()
                entry = decode(key, value)
                if entry is not None:
                    self._learn(entry)

    async def write(self, entries: Iterable[SchemaIdEntry]) -> None:
        """Append entries, and know them once they are on all in-sync replicas.

        Raises:
            OSError, MirrorError: Some of them may not be there: write all again.
        """
        fresh = list(dict.fromkeys(entries))
        if fresh:
            await self._writer.append([KeyedRecord(*encode(entry)) for entry in fresh])
        for entry in fresh:
            self._learn(entry)

    def _ensure(self, client_id: str, audit_log: AuditLog) -> None:
        editor = ClusterEditor(self._target.settings, client_id, audit_log)
        try:
            editor.ensure_compacted_topic(self._topic, 1, self._replication_factor)
        finally:
            editor.close()

    def _learn(self, entry: SchemaIdEntry | Forgotten) -> None:
        match entry:
            case IdTranslation(source, target):
                self.ids[source] = target
            case GuidTranslation(guid, target_guid):
                self.guids[guid] = target_guid
            case FieldDecision(topic, field, framed):
                self.framed[topic, field] = framed
            case IdsDecision(way):
                self.way = way
            case Forgotten(None):
                self.way = None
            case Forgotten(int() as source):
                self.ids.pop(source, None)
            case Forgotten(bytes() as guid):
                self.guids.pop(guid, None)
            case Forgotten((topic, field)):
                self.framed.pop((topic, field), None)
