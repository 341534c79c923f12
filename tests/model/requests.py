"""What is on its way between a replicator and a target broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from mirror_ray.kafka import produce
from mirror_ray.kafka.connection import Buffer
from mirror_ray.replication.partition import PartitionReplication
from tests.model.broker import Answer
from tests.model.stepped import SteppedLoop
from tests.model.wire import Written, read_request, write_answer

#: What may be wrong with an answer: it can't be parsed, or says nothing of the last batch.
Spoilt = Literal["corrupt", "incomplete"]


@dataclass(slots=True, eq=False)
class Part:
    """One partition's batch in a request."""

    copy: PartitionReplication
    number: int
    #: The topic's id as the request carries it, or its name.
    topic: bytes
    data: bytes
    #: Of the target's leader when the copy heard from it last.
    leader_epoch: int
    #: No broker helps against it once it has forgotten the producer: ``Network`` says when.
    late: bool = False
    answer: Answer | None = None


@dataclass(slots=True, eq=False)
class Request:
    """A Produce request, and from when the broker has it until it was answered."""

    parts: list[Part]
    #: Answered once all in-sync replicas have it, else at once.
    by_all: bool
    version: int
    sent_s: float
    future: asyncio.Future[memoryview]

    def fail(self, why: str) -> None:
        """No answer comes."""
        self.future.set_exception(ConnectionError(why))
        self.future.exception()

    def answered(self, spoilt: Spoilt | None, throttle_ms: int) -> bytearray:
        """The body of its answer."""
        answers = [(part.topic, part.number, part.answer) for part in self.parts if part.answer is not None]
        if spoilt == "incomplete":
            answers.pop()
        body = write_answer(self.version, answers, throttle_ms)
        return body[: len(body) // 2] if spoilt == "corrupt" else body


class Process(Protocol):
    """Who holds the other end of a connection."""

    loop: SteppedLoop

    def may_send(self, broker: int) -> bool:
        """Whether something waits to be sent there."""

    def part(self, written: Written) -> Part:
        """Whose batch it is."""

    def stops_sending(self) -> bool:
        """Whether it is stopped right here, before its kernel gets the request."""

    def reset(self, connection: Connection) -> None:
        """It has given the connection up itself."""


@dataclass(slots=True, eq=False)
class Connection:
    """To one broker, which handles its requests one at a time, in order; for the real sender a ``Connection`` of ours.

    What is to be sent waits in ``drain`` until ``let_send``, as it would behind a kernel that takes nothing.
    """

    broker: int
    process: Process
    highest_version: int
    #: Sent as far as the process knows, which was stopped before its kernel got them.
    unsent: deque[Request] = field(default_factory=deque)
    sent: deque[Request] = field(default_factory=deque)
    handled: deque[Request] = field(default_factory=deque)
    #: The broker is gone, and a frozen process has not seen it yet.
    broken: bool = False
    closed: bool = False
    stall_timeout_s: float | None = None
    silent_s: float = 0.0
    _gate: asyncio.Future[None] | None = None

    @property
    def waits(self) -> bool:
        """Whether ``let_send`` has something to do."""
        return self._gate is not None and not self._gate.done()

    def let_send(self) -> None:
        """The kernel takes what comes."""
        if self._gate is not None and not self._gate.done():
            self._gate.set_result(None)

    def refused(self, copy: PartitionReplication) -> bool:
        """Whether a batch of the copy was refused, which it does not know yet."""
        parts = (part for request in self.handled for part in request.parts)
        return any(part.copy is copy and part.answer is not None and bool(part.answer.error) for part in parts)

    def fail(self, why: str) -> None:
        """Nothing more is answered."""
        self.closed = True
        for request in (*self.handled, *self.sent, *self.unsent):
            request.fail(why)
        if self._gate is not None and not self._gate.done():
            self._gate.set_exception(ConnectionError(why))

    # ---- what the sender calls

    def best_version(self, api_key: int, lowest: int, highest: int) -> int:
        assert api_key == produce.API_KEY
        assert lowest <= self.highest_version
        return min(highest, self.highest_version)

    async def drain(self) -> None:
        if not self.closed and self.process.may_send(self.broker):
            self._gate = self.process.loop.create_future()
            await self._gate
        if self.closed:
            raise ConnectionError("lost")

    def send_together(
        self, api_key: int, version: int, flexible: bool, bodies: Sequence[Sequence[Buffer]]
    ) -> list[asyncio.Future[memoryview]]:
        assert (api_key, flexible) == (produce.API_KEY, version >= produce.FIRST_FLEXIBLE_VERSION)
        requests = [self._request(version, b"".join(parts)) for parts in bodies]
        if self.closed:
            for request in requests:
                request.fail("closed")
        elif self.process.stops_sending():
            self.unsent += requests
        else:
            self.sent += requests
        return [request.future for request in requests]

    def abort(self, reason: str) -> None:
        if not self.closed:
            self.fail(reason)
            self.process.reset(self)

    def expect_silence(self, seconds: float) -> None:
        self.silent_s = seconds

    def _request(self, version: int, body: bytes) -> Request:
        acks, batches = read_request(version, body)
        assert acks in (produce.ALL_REPLICAS, produce.LEADER_ALONE)
        loop = self.process.loop
        parts = [self.process.part(batch) for batch in batches]
        return Request(parts, acks == produce.ALL_REPLICAS, version, loop.time(), loop.create_future())
