"""Which answer is whose, what a connection holds back, and what becomes of requests when it ends or proves itself."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from typing import Any, cast

import pytest

from mirror_ray.kafka import produce
from mirror_ray.kafka.connection import Answer, Connection

LIMIT_S = 30.0


class Wire(asyncio.Transport):
    """A transport that keeps what it gets; ``waiting_bytes`` have not been taken by the kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.waiting_bytes = 0
        self.most_waiting: int | None = -1

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.most_waiting = high

    def abort(self) -> None: ...


class Socket:
    """Remembers which options were set."""

    def __init__(self) -> None:
        self.options: dict[int, bytes] = {}

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        self.options[option] = value


class Session:
    """A connection with its wire and socket, whose session can be made to end, and re-authentication to be over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wire, self.socket = Wire(), Socket()
        self.connection = Connection("broker", 1, "test", LIMIT_S)
        self.connection._socket = cast("socket.socket", self.socket)
        self.connection.connection_made(self.wire)
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(self.connection, "_authenticate", self._authenticate)

    async def begin(self) -> None:
        """Return an exchange, as a mechanism does."""

    async def _authenticate(self, *_: object) -> None:
        await self.over

    async def ends(self) -> None:
        """The session's timer has gone off, and re-authentication has begun."""
        self.connection._begin_reauthentication(cast("Any", self))
        await _turns()

    def produce(self, parts: Sequence[bytes] = (b"late",)) -> None:
        """As the sender does, with nothing awaited since ``drain``."""
        self.connection.send_together(produce.API_KEY, 9, True, [parts])

    def ask(self) -> Answer:
        """A request goes out."""
        return self.connection.send(produce.API_KEY, 8, False, [b"asked"])

    def answer(self, correlation_id: int, body: bytes) -> None:
        """Bytes come from the broker."""
        frame = struct.pack(">ii", 4 + len(body), correlation_id) + body
        self.connection.get_buffer(-1)[: len(frame)] = frame
        self.connection.buffer_updated(len(frame))


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
async def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """With nothing under way."""
    return Session(monkeypatch)


async def test_answers_come_in_the_order_of_requests(session: Session) -> None:
    """Each to its own."""
    first, second = session.ask(), session.ask()
    session.answer(1, b"one")
    session.answer(2, b"two")
    assert [bytes(await answer) for answer in (first, second)] == [b"one", b"two"]


@pytest.mark.parametrize("number", [2, 3])
async def test_an_answer_that_is_not_due_ends_the_connection(session: Session, number: int) -> None:
    """It is nobody's, and what comes behind it may be anybody's."""
    answers = [session.ask(), session.ask()]
    session.answer(number, b"late")
    assert session.connection.closed
    for answer in answers:
        with pytest.raises(ConnectionError, match="was not due"):
            await answer


async def test_what_was_not_sent_yet_is_thrown_away_by_an_abort(session: Session) -> None:
    """By a reset: what waits in the kernel must not be carried out once somebody else has the partition."""
    session.connection.abort("enough")
    on, seconds = struct.unpack("ii", session.socket.options[socket.SO_LINGER])
    assert (on, seconds) == (1, 0)


async def test_nothing_may_wait_in_the_process(session: Session) -> None:
    """It would be sent after the process had stood still, whatever its lease says."""
    assert session.wire.most_waiting == 0


async def test_requests_wait_behind_a_re_authentication(session: Session) -> None:
    """The broker wants nothing else meanwhile; where that fails, so do they, and the connection with them."""
    await session.ends()
    answer = session.ask()
    assert not session.wire.sent
    session.over.set_exception(OSError("refused"))
    with pytest.raises(ConnectionError, match="re-authentication failed: refused"):
        await asyncio.wait_for(answer, 1)
    assert session.connection.closed
    assert not session.wire.sent


async def test_a_stall_is_noticed_where_requests_are_behind_each_other(session: Session) -> None:
    """One alone may take as long as it takes."""
    session.connection.stall_timeout_s = 1.5
    session.ask()
    assert session.connection._watch.patience_s == LIMIT_S
    session.ask()
    assert session.connection._watch.patience_s == 1.5


async def test_a_frozen_broker_is_noticed_though_its_kernel_takes_what_is_sent(session: Session) -> None:
    """Requests that keep coming would wait in its socket, and be carried out when it goes on."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        session.connection._socket = ours
        session.connection.stall_timeout_s = 0.2
        asked = [session.ask()]
        for _ in range(20):
            ours.send(session.wire.sent[-1])
            await asyncio.sleep(0.05)
            if session.connection.closed:
                break
            asked.append(session.ask())
        assert session.connection.closed
        assert 4 <= len(asked) < 15
        for answer in asked:
            with pytest.raises(ConnectionError, match="no answer within"):
                await answer


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
    session.over.set_result(None)
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
    session.over.set_result(None)
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
    session.over.set_result(None)
    with pytest.raises(ConnectionError, match="closed by the broker"):
        await asyncio.wait_for(drained, 1)
