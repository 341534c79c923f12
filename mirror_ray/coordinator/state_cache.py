"""A flow's state topic in memory. Every change is written to the topic in a transaction; one writer at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from mirror_ray.coordinator.ports import FlowClusters
from mirror_ray.model.errors import StateFencedError
from mirror_ray.state.schema import Document, FlowStateRecords, RecordKind, decode

_Key = TypeVar("_Key")
_Record = TypeVar("_Record")

#: Kind, key and record; None removes it.
Change = tuple[RecordKind[Any, Any], Any, Any]


def additions(kind: RecordKind[_Key, _Record], records: Mapping[_Key, _Record]) -> list[Change]:
    """Changes that write records of one kind."""
    return [(kind, key, record) for key, record in records.items()]


def removals(kind: RecordKind[_Key, Any], keys: Iterable[_Key]) -> list[Change]:
    """Changes that remove records of one kind."""
    return [(kind, key, None) for key in keys]


class StateCache:
    """The records of a flow's state topic.

    Guarantee: ``write`` changes memory only once the topic has the change. Every method that reads or writes the topic
    raises a MirrorError where that fails.
    """

    def __init__(self, port: FlowClusters) -> None:
        self.records = FlowStateRecords()
        #: Another coordinator has opened the topic: nothing can be written any more.
        self.fenced = False
        self._port = port
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        """Read the topic, fencing an older coordinator."""
        self.records = decode(await self._port.open())

    async def put(self, kind: RecordKind[_Key, _Record], key: _Key, record: _Record) -> None:
        """Write one record."""
        await self.write([(kind, key, record)])

    async def delete(self, kind: RecordKind[_Key, Any], *keys: _Key) -> None:
        """Remove records."""
        await self.write(removals(kind, keys))

    async def write(self, changes: Iterable[Change]) -> None:
        """Write changes to the topic in one transaction, then to memory."""
        changes = list(changes)
        await self.publish(changes)
        self.apply(changes)

    def apply(self, changes: Iterable[Change]) -> None:
        """Make changes in memory only; ``publish`` writes them."""
        for kind, key, record in changes:
            self.records.put(kind, key, record)

    async def publish(self, changes: Iterable[Change]) -> int:
        """Write changes that memory has already to the topic, in one transaction.

        Returns an offset from which on all of them can be read in the topic; -1 for its start.
        """
        documents: dict[str, Document | None] = {}
        for kind, key, record in changes:
            documents |= kind.documents(key, record)
        async with self._lock:
            try:
                return await self._port.write_state(documents)
            except StateFencedError:
                self.fenced = True
                raise
