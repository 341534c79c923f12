"""The state topic: an ordered log with one writer at a time, and a port to it for the real flow state."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from mirror_ray.model.errors import StateFencedError
from mirror_ray.model.names import TopicPartition
from mirror_ray.replication.leases import Tenure
from mirror_ray.state.schema import Document, read_grant

T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of what has nothing to wait for."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError("it waits for something")


class StateTopic:
    """``identity`` is another one when the topic was lost and made anew."""

    def __init__(self) -> None:
        self.identity = 0
        #: How many producers of single partitions were made on its cluster.
        self.producers = 0
        self.entries: list[tuple[str, Document | None]] = []
        self.owner: StatePort | None = None

    @property
    def end(self) -> int:
        """Next offset to be written."""
        return len(self.entries)

    def grants(self, start: int, end: int) -> list[tuple[TopicPartition, Tenure]]:
        """What a read from ``start`` to ``end`` shows."""
        read = [read_grant(key, document) for key, document in self.entries[start:end] if document is not None]
        return [(grant[0], Tenure(grant[1].epoch, grant[1].owner)) for grant in read if grant is not None]

    def lose(self) -> None:
        """Deleted, with all that was in it."""
        self.identity += 1
        self.entries = []
        self.owner = None


class StatePort:
    """One coordinator's way to it; what the flow state calls of ``FlowClusters``."""

    def __init__(self, topic: StateTopic) -> None:
        self.topic = topic

    async def open(self) -> Mapping[str, Document]:
        """Fence whoever wrote before, and read all."""
        self.topic.owner = self
        documents: dict[str, Document] = {}
        for key, document in self.topic.entries:
            if document is None:
                documents.pop(key, None)
            else:
                documents[key] = document
        return documents

    async def write_state(self, documents: Mapping[str, Document | None]) -> int:
        """Write in one transaction, if nobody else has opened the topic since."""
        if self.topic.owner is not self:
            raise StateFencedError("another coordinator has opened the state since")
        offset = self.topic.end
        self.topic.entries += documents.items()
        return offset

    async def close(self) -> None:
        """Nothing is to be closed."""
