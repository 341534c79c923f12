"""What is sent after ``drain`` goes to the kernel at once, whatever began while it waited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from mirror_ray.kafka import produce
from mirror_ray.kafka.connection import Connection


class Wire(asyncio.Transport):
    """A transport that keeps what it gets; ``waiting_bytes`` have not been taken by the kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.waiting_bytes = 0

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def abort(self) -> None: ...


class Session:
    """A connection whose session can be made to end, and re-authentication to be over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wire, self.connection = Wire(), Connection("broker", 1, "test", 30.0)
        self.connection.connection_made(self.wire)
        self.over = asyncio.Event()
        monkeypatch.setattr(self.connection, "_authenticate", lambda *_: self.over.wait())

    async def begin(self) -> None:
        """Return an exchange, as a mechanism does."""

    async def ends(self) -> None:
        """The session's timer has gone off, and re-authentication has begun."""
        self.connection._begin_reauthentication(cast("Any", self))
        await _turns()

    def produce(self, parts: Sequence[bytes] = (b"late",)) -> None:
        """As the sender does, with nothing awaited since ``drain``."""
        self.connection.send_together(produce.API_KEY, 9, True, [parts])


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
async def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """With nothing under way."""
    return Session(monkeypatch)


@pytest.mark.parametrize("waits_for", ["the kernel", "what lies beneath TLS"])
async def test_drain_waits_for_a_re_authentication_that_began_while_it_waited(session: Session, waits_for: str) -> None:
    """Otherwise what is sent next would be held back in this process, and leave when its lease has run out."""
    if waits_for == "the kernel":
        session.connection.pause_writing()
    else:
        session.wire.waiting_bytes = 1
    drained = asyncio.create_task(session.connection.drain())
    await _turns()
    await session.ends()
    session.connection.resume_writing()
    session.wire.waiting_bytes = 0
    await asyncio.sleep(0.01)
    assert not drained.done()
    session.over.set()
    await asyncio.wait_for(drained, 1)
    session.produce()
    assert b"late" in session.wire.sent[-1]


async def test_drain_waits_for_what_a_re_authentication_let_go(session: Session) -> None:
    """What was held back meanwhile may be more than the kernel takes."""
    await session.ends()
    drained = asyncio.create_task(session.connection.drain())
    session.produce([b"held back"])
    await _turns()
    session.connection.pause_writing()
    session.over.set()
    await _turns()
    assert b"held back" in session.wire.sent[-1]
    assert not drained.done()
    session.connection.resume_writing()
    await asyncio.wait_for(drained, 1)


async def test_drain_of_a_lost_connection(session: Session) -> None:
    """It ends with the connection, whatever it waits for."""
    session.connection.pause_writing()
    drained = asyncio.create_task(session.connection.drain())
    await _turns()
    session.connection.connection_lost(None)
    with pytest.raises(ConnectionError, match="closed by the broker"):
        await asyncio.wait_for(drained, 1)


async def test_drain_of_a_connection_that_is_lost_in_a_re_authentication(session: Session) -> None:
    """As above: nothing is sent any more."""
    await session.ends()
    drained = asyncio.create_task(session.connection.drain())
    await _turns()
    session.connection.connection_lost(None)
    session.over.set()
    with pytest.raises(ConnectionError, match="closed by the broker"):
        await asyncio.wait_for(drained, 1)
