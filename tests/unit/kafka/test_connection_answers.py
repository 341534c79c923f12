"""Which answer is whose, and what becomes of requests when a connection ends or has to prove itself."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, cast

import pytest

from mirror_ray.kafka import produce
from mirror_ray.kafka.connection import Answer, Connection

LIMIT_S = 30.0


class Wire(asyncio.Transport):
    """A transport that keeps what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.most_waiting: int | None = -1

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.most_waiting = high

    def abort(self) -> None: ...


class Socket:
    """Remembers which options were set."""

    def __init__(self) -> None:
        self.options: dict[int, bytes] = {}

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        self.options[option] = value


class Scene:
    """A connection with its wire and socket."""

    def __init__(self) -> None:
        self.wire, self.socket = Wire(), Socket()
        self.connection = Connection("broker", 1, "test", LIMIT_S)
        self.connection._socket = cast("socket.socket", self.socket)
        self.connection.connection_made(self.wire)

    def ask(self) -> Answer:
        """A request goes out."""
        return self.connection.send(produce.API_KEY, 8, False, [b"asked"])

    def answer(self, correlation_id: int, body: bytes) -> None:
        """Bytes come from the broker."""
        frame = struct.pack(">ii", 4 + len(body), correlation_id) + body
        self.connection.get_buffer(-1)[: len(frame)] = frame
        self.connection.buffer_updated(len(frame))


@pytest.fixture
async def scene() -> Scene:
    """With nothing under way."""
    return Scene()


async def test_answers_come_in_the_order_of_requests(scene: Scene) -> None:
    """Each to its own."""
    first, second = scene.ask(), scene.ask()
    scene.answer(1, b"one")
    scene.answer(2, b"two")
    assert [bytes(await answer) for answer in (first, second)] == [b"one", b"two"]


@pytest.mark.parametrize("number", [2, 3])
async def test_an_answer_that_is_not_due_ends_the_connection(scene: Scene, number: int) -> None:
    """It is nobody's, and what comes behind it may be anybody's."""
    answers = [scene.ask(), scene.ask()]
    scene.answer(number, b"late")
    assert scene.connection.closed
    for answer in answers:
        with pytest.raises(ConnectionError, match="was not due"):
            await answer


async def test_what_was_not_sent_yet_is_thrown_away_by_an_abort(scene: Scene) -> None:
    """By a reset: what waits in the kernel must not be carried out once somebody else has the partition."""
    scene.connection.abort("enough")
    on, seconds = struct.unpack("ii", scene.socket.options[socket.SO_LINGER])
    assert (on, seconds) == (1, 0)


async def test_nothing_may_wait_in_the_process(scene: Scene) -> None:
    """It would be sent after the process had stood still, whatever its lease says."""
    assert scene.wire.most_waiting == 0


async def test_requests_wait_behind_a_re_authentication(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker wants nothing else meanwhile; where that fails, so do they, and the connection with them."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def authenticate(*_: object) -> None:
        await over

    class Mechanism:
        async def begin(self) -> None:
            return None

    monkeypatch.setattr(scene.connection, "_authenticate", authenticate)
    scene.connection._begin_reauthentication(cast("Any", Mechanism()))
    await asyncio.sleep(0.001)
    answer = scene.ask()
    assert not scene.wire.sent
    over.set_exception(OSError("refused"))
    with pytest.raises(ConnectionError, match="re-authentication failed: refused"):
        await asyncio.wait_for(answer, 1)
    assert scene.connection.closed
    assert not scene.wire.sent


async def test_a_stall_is_noticed_where_requests_are_behind_each_other(scene: Scene) -> None:
    """One alone may take as long as it takes."""
    scene.connection.stall_timeout_s = 1.5
    scene.ask()
    assert scene.connection._watch.patience_s == LIMIT_S
    scene.ask()
    assert scene.connection._watch.patience_s == 1.5
