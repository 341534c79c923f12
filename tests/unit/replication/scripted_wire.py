"""A sender's connection that a test answers, and its lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from mirror_ray.kafka import produce
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Answer
from mirror_ray.model.names import TopicPartition
from mirror_ray.replication.sender import Sender
from tests.unit.replication.recorded_events import RecordedEvents


class Wire:
    """A connection, and its cluster. ``version`` of Produce requests: the lowest has topics by name."""

    name = "broker 1"

    def __init__(self, version: int = produce.LOWEST_VERSION) -> None:
        self.stall_timeout_s: float | None = None
        self.sent: list[bytes] = []
        self.answers: list[Answer] = []
        self.closed = False
        self.aborted: list[str] = []
        self.connections = 0
        self.silent_s: list[float] = []
        #: What happens while what was sent before goes to the kernel.
        self.draining: Callable[[], object] = bool
        self._version = version

    async def connect(self, broker: int, purpose: str, **_: int) -> Wire:
        self.closed = False
        self.connections += 1
        return self

    def best_version(self, api_key: int, lowest: int, highest: int) -> int:
        return self._version

    async def drain(self) -> None:
        await asyncio.sleep(0)
        self.draining()
        if self.closed:
            raise ConnectionError("closed")

    def send_together(self, key: int, version: int, flexible: bool, bodies: Sequence[Sequence[Any]]) -> list[Answer]:
        """See ``Connection``; the test answers."""
        self.sent += [b"".join(parts) for parts in bodies]
        answers: list[Answer] = [asyncio.get_running_loop().create_future() for _ in bodies]
        self.answers += answers
        return answers

    def expect_silence(self, seconds: float) -> None:
        self.silent_s.append(seconds)

    def abort(self, reason: str) -> None:
        """See ``Connection``: whatever is outstanding fails."""
        self.closed = True
        self.aborted.append(reason)
        for answer in self.answers:
            if not answer.done():
                answer.set_exception(ConnectionError(reason))


class ScriptedLease:
    """A lease as a test says; ``held`` None: of every partition."""

    def __init__(self) -> None:
        self.held: Collection[TopicPartition] | None = None
        self.lasting = True

    def holds(self, partition: TopicPartition) -> bool:
        return self.held is None or partition in self.held

    def lasts(self) -> bool:
        return self.lasting


def sender_of(wire: Wire, lease: ScriptedLease, events: RecordedEvents, max_request_bytes: int) -> Sender:
    """A sender to broker 1."""
    return Sender(
        cast("ClusterConnections", wire),
        1,
        purpose="produce",
        max_request_bytes=max_request_bytes,
        timeout_ms=1000,
        send_buffer_bytes=-1,
        lease=lease,
        events=events,
    )


async def turns() -> None:
    """Let everything happen that can."""
    for _ in range(30):
        await asyncio.sleep(0)
