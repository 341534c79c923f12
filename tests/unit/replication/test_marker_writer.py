"""Markers that nobody answers for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_ray.replication import marker_writer
from mirror_ray.replication.marker_writer import MarkerWriter
from tests.support.factories import assignment, replication


class Silent:
    """A connection to a broker that hangs."""

    def __init__(self) -> None:
        self.aborted: list[str] = []
        self.lost: asyncio.Future[dict[Any, str]] = asyncio.get_running_loop().create_future()

    def abort(self, reason: str) -> None:
        """What is outstanding fails."""
        self.aborted.append(reason)
        if not self.lost.done():
            self.lost.set_exception(ConnectionError(reason))


async def test_a_released_partition_takes_its_markers_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is reset, so that a broker that wakes up finds nothing; those of other brokers are left alone."""
    connections = {1: Silent(), 2: Silent()}

    async def connect(leader: int, _: str) -> Silent:
        return connections[leader]

    async def write(connection: Silent, *_: object) -> dict[Any, str]:
        return await connection.lost

    async def init_producer_id() -> tuple[int, int]:
        return 7, 0

    monkeypatch.setattr(marker_writer, "write_markers", write)
    metadata = SimpleNamespace(leader=lambda partition: partition.partition)
    target: Any = SimpleNamespace(metadata=metadata, connect=connect, init_producer_id=init_producer_id)
    writer = MarkerWriter(target)
    one, two = (replication(assignment("t", number)) for number in (1, 2))
    writing = asyncio.create_task(writer.write({one: 1, two: 3}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    writer.forget(one)
    assert [len(connection.aborted) for connection in connections.values()] == [1, 0]
    # It is not known what became of either before both have answered.
    assert not writing.done()
    connections[2].lost.set_result({})
    with pytest.raises(ConnectionError, match="released"):
        await writing
    writer.forget(two)
    assert connections[2].aborted == []
