"""What schema ids in a flow's records become, as its internal topic on the target says, and who waits for more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from mirror_ray.config.settings import FlowSettings
from mirror_ray.config.transforms import translates_schema_ids
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.model.internal_topics import schemas_topic
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.records.schema_id_records import Forgotten, SchemaIdEntry, decode
from mirror_ray.replication.backoff import Backoff
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_events import PartitionEvents
from mirror_ray.replication.supervision import supervise
from mirror_ray.transforms.schema_ids import SchemaIdMap

#: How long a read waits for more; and so how soon it is noticed that the topic was created, or a wait is overdue.
_LOOK_MS: Final = 500
_FIRST_RETRY_S: Final = 0.1
_LAST_RETRY_S: Final = 2.0


class FlowSchemaIds:
    """Reads the topic until ``close``, where the flow translates ids; else there is no map, and no task.

    ``wake()`` is called when partitions may begin; ``on_event(level, text)`` is for the event log.
    """

    def __init__(
        self,
        settings: FlowSettings,
        target: ClusterConnections,
        *,
        events: PartitionEvents,
        wake: Callable[[], None],
        on_event: Callable[[str, str], None],
    ) -> None:
        self._settings, self._target = settings, target
        self._events, self._wake, self._on_event = events, wake, on_event
        self._topic = schemas_topic(settings.name.source)
        self._reader = InternalTopicReader(target, self._topic)
        self.known: SchemaIdMap | None = None
        #: Whether the end of the topic was read, and since the topic is this one.
        self._began = self._complete = False
        self._problem = ""
        self._backoff = Backoff(_FIRST_RETRY_S, _LAST_RETRY_S)
        #: Since when each partition waits.
        self._waiting: dict[PartitionReplication, float] = {}
        self._task: asyncio.Task[None] | None = None
        if translates_schema_ids(settings):
            self.known = SchemaIdMap()
            self._task = asyncio.create_task(self._run(self.known), name=f"flow {settings.name}: schema ids")

    @property
    def not_ready(self) -> str | None:
        """Why partitions must not be copied yet; None: they may be."""
        if self.known is None or self._began:
            return None
        alias = self._target.settings.alias
        why = f": {self._problem}" if self._problem else ""
        return f"topic {self._topic} on {alias}, which has what schema ids become, is not read yet{why}"

    @property
    def needs(self) -> set[SchemaNeed]:
        """What partitions wait for; nothing while the topic is read anew."""
        if not self._complete:
            return set()
        return {
            SchemaNeed(self._settings.name, copy.source.topic, lack.field, lack.schema)
            for copy in self._waiting
            if (waits := copy.schema_ids_awaited) is not None
            for lack in waits.lacks
        }

    def changed(self, copy: PartitionReplication) -> None:
        """Look at a partition with transforms, after anything happened to it."""
        if copy.schema_ids_awaited is None:
            self._waiting.pop(copy, None)
        else:
            self._waiting.setdefault(copy, asyncio.get_running_loop().time())

    def forget(self, copy: PartitionReplication) -> None:
        """Forget a partition that is not replicated here any more."""
        self._waiting.pop(copy, None)

    async def close(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, known: SchemaIdMap) -> None:
        async def look() -> None:
            await self._look(known)

        what = f"flow {self._settings.name}: schema ids"
        await supervise(look, what, self._backoff, self._failed, level=logging.WARNING)

    async def _look(self, known: SchemaIdMap) -> None:
        chunk = await self._reader.read(_LOOK_MS if self._complete else 0)
        if chunk.restarted:
            self._on_event("warning", f"flow {self._settings.name}: {self._topic} was created anew: it is read again")
            known.clear()
            self._complete = False
        try:
            known.update(_entries(chunk.records))
        except Exception:
            # What was read is not read again by this reader.
            self._reader = InternalTopicReader(self._target, self._topic)
            known.clear()
            self._complete = False
            raise
        self._complete |= chunk.complete
        if chunk.records:
            for copy in list(self._waiting):
                self._events.schema_ids_learned(copy)
        self._look_at_waiting()
        if self._complete and not self._began:
            self._began = True
            self._wake()
        if self._problem and self._complete:
            self._problem = ""
            self._on_event("info", f"flow {self._settings.name}: {self._topic} can be read again")
        self._backoff.succeeded()

    def _look_at_waiting(self) -> None:
        """Have those that wait for long shown."""
        now_s, patience_s = asyncio.get_running_loop().time(), self._settings.schemas.wait_ms / 1000
        for copy, since_s in list(self._waiting.items()):
            if now_s - since_s > patience_s and copy.fault is None:
                self._events.schema_ids_overdue(copy)

    def _failed(self, error: Exception) -> None:
        if not self._problem:
            what = f"{self._topic} can't be read, so no new schema ids are learned"
            self._on_event("warning", f"flow {self._settings.name}: {what}: {error}")
        self._problem = str(error) or type(error).__name__
        self._look_at_waiting()
        self._wake()


def _entries(records: list[DecodedRecord]) -> list[SchemaIdEntry | Forgotten]:
    """What the records say.

    Raises:
        CorruptRecordError: One of them can't be read.
    """
    found = (decode(key, value) for key, value, _ in (record.fields() for record in records))
    return [entry for entry in found if entry is not None]
