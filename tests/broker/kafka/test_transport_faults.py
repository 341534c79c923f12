"""What a connection makes of servers that are no good Kafka brokers; the servers are ours, on loopback."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from mirror_ray.config.settings import SecuritySettings
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.security import ClientSecurity

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_FETCH = 1


async def _read_request(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    body = await reader.readexactly(size)
    key, _, correlation_id = struct.unpack_from(">hhi", body)
    return key, correlation_id, body


def _frame(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


async def _answer_api_versions(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As a broker before 2.4 would: version 3 is unknown to it, version 0 is not."""
    _, correlation_id, _ = await _read_request(reader)
    writer.write(_frame(correlation_id, struct.pack(">hi", 35, 0)))
    _, correlation_id, _ = await _read_request(reader)
    writer.write(_frame(correlation_id, struct.pack(">hihhh", 0, 1, _FETCH, 4, 12)))


@asynccontextmanager
async def _connected(
    serve: Serve, request_timeout_s: float = 5.0, setup_timeout_s: float = 5.0
) -> AsyncIterator[Connection]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        connection = await Connection.open(
            "127.0.0.1",
            server.sockets[0].getsockname()[1],
            security=ClientSecurity.build("A", SecuritySettings()),
            client_id="test",
            setup_timeout_s=setup_timeout_s,
            request_timeout_s=request_timeout_s,
        )
        yield connection
        connection.abort("the test is over")
    finally:
        server.close()


async def test_old_broker_is_asked_for_its_versions_in_the_old_form() -> None:
    """A broker that knows no ApiVersions 3 is asked again with version 0."""
    async with _connected(_answer_api_versions) as connection:
        assert connection.api_versions == {_FETCH: (4, 12)}
        assert connection.best_version(_FETCH, 11, 13) == 12


async def test_answers_of_every_size_arrive_whole_writable_and_in_order() -> None:
    """Small answers in one packet and a large one in many come out as they were sent, each in its own buffer."""
    sizes = [0, 1, 100, 4087, 4088, 4089, 5_000, 3_000_000, 7, 70_000]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer_api_versions(reader, writer)
        due = [await _read_request(reader) for _ in sizes]
        for size, (_, correlation_id, _) in zip(sizes, due, strict=True):
            writer.write(_frame(correlation_id, bytes([size % 251]) * size))
        await writer.drain()
        await reader.read()

    async with _connected(serve) as connection:
        bodies = await asyncio.gather(*(connection.send(_FETCH, 4, False, [b"x"]) for _ in sizes))
        assert [len(body) for body in bodies] == sizes
        assert all(bytes(body) == bytes([size % 251]) * size for body, size in zip(bodies, sizes, strict=True))
        bodies[2][0] = 0
        assert bodies[2][0] == 0


async def test_request_in_many_parts_arrives_as_one() -> None:
    """Parts beyond what one system call and the kernel's buffer take arrive in order, and drain waits for them."""
    parts = [bytes([index % 256]) * 3_000 for index in range(3_000)]
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer_api_versions(reader, writer)
        await asyncio.sleep(0.2)
        _, correlation_id, body = await _read_request(reader)
        seen.append(body)
        writer.write(_frame(correlation_id, b""))
        await reader.read()

    async with _connected(serve) as connection:
        answer = connection.send(_FETCH, 4, False, [memoryview(part) for part in parts])
        await connection.drain()
        await answer
        assert seen[0].endswith(b"".join(parts))


async def test_silent_server_fails_the_setup_in_time() -> None:
    """A server that accepts and never answers costs the setup timeout, and the error names it."""

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:\d+: no answer to the first request within 0\.2 s"):
        async with _connected(serve, setup_timeout_s=0.2):
            pass


async def test_head_of_line_timeout_fails_all_outstanding() -> None:
    """When the oldest request gets no answer in time, the connection is given up and every future says why."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer_api_versions(reader, writer)
        await reader.read()

    async with _connected(serve, request_timeout_s=0.3) as connection:
        answers = [connection.send(_FETCH, 4, False, [b"x"]) for _ in range(3)]
        results = await asyncio.gather(*answers, return_exceptions=True)
        assert all(
            isinstance(result, ConnectionError) and "no answer within 0.3 s" in str(result) for result in results
        )
        assert connection.closed
        with pytest.raises(ConnectionError):
            await connection.send(_FETCH, 4, False, [b"x"])


async def test_announced_silence_is_no_timeout() -> None:
    """A broker that throttles says for how long; the request timeout runs from then on."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer_api_versions(reader, writer)
        for silence_s in (0.0, 0.6):
            _, correlation_id, _ = await _read_request(reader)
            await asyncio.sleep(silence_s)
            writer.write(_frame(correlation_id, b""))
        await reader.read()

    async with _connected(serve, request_timeout_s=0.3) as connection:
        await connection.send(_FETCH, 11, False, [b""])
        connection.expect_silence(0.6)
        await connection.send(_FETCH, 11, False, [b""])
        with pytest.raises(ConnectionError, match="no answer"):
            await connection.send(_FETCH, 11, False, [b""])


async def test_slow_but_steady_answers_are_no_timeout() -> None:
    """The clock starts anew with every answer: a queue that is worked off slowly is not cut."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer_api_versions(reader, writer)
        for _ in range(4):
            _, correlation_id, _ = await _read_request(reader)
            await asyncio.sleep(0.3)
            writer.write(_frame(correlation_id, b""))
        await reader.read()

    async with _connected(serve, request_timeout_s=0.6) as connection:
        await asyncio.gather(*(connection.send(_FETCH, 4, False, [b"x"]) for _ in range(4)))


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\1x", b"\0\0\0\x08\0\0\0\x63abcd"])
async def test_garbage_is_not_taken_for_an_answer(garbage: bytes) -> None:
    """A length out of bounds or a correlation id that is not due ends the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _read_request(reader)
        writer.write(garbage)
        await reader.read()

    with pytest.raises(ConnectionError, match=r"not Kafka's protocol|does not speak Kafka|not due"):
        async with _connected(serve):
            pass


async def test_unreadable_api_versions_fail_the_setup() -> None:
    """A well-framed answer with nonsense inside is an error of the connection, not of ours."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, correlation_id, _ = await _read_request(reader)
        writer.write(_frame(correlation_id, b"\0\0\x7f\1"))
        await reader.read()

    with pytest.raises(ConnectionError, match="can't be read"):
        async with _connected(serve):
            pass


async def test_connection_cut_in_the_middle_of_an_answer_fails_its_future() -> None:
    """Half an answer is no answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer_api_versions(reader, writer)
        _, correlation_id, _ = await _read_request(reader)
        writer.write(_frame(correlation_id, bytes(1_000_000))[:500_000])

    async with _connected(serve) as connection:
        with pytest.raises(ConnectionError, match="closed by the broker"):
            await connection.send(_FETCH, 4, False, [b"x"])


async def test_abort_resets_the_peer() -> None:
    """An abort is seen by the peer as a reset, so that it does not read on what was in flight."""
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer_api_versions(reader, writer)
        try:
            await reader.readexactly(1 << 20)
        except (OSError, asyncio.IncompleteReadError) as error:
            ended.set_result(error)

    async with _connected(serve) as connection:
        answer = connection.send(_FETCH, 4, False, [b"x"])
        connection.abort("lease lost")
        with pytest.raises(ConnectionError, match="lease lost"):
            await answer
        assert isinstance(await ended, ConnectionResetError)


async def test_cancelled_request_leaves_the_order_intact() -> None:
    """An answer whose request was cancelled is dropped, and the next one still finds its future."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer_api_versions(reader, writer)
        for number in range(2):
            _, correlation_id, _ = await _read_request(reader)
            writer.write(_frame(correlation_id, bytes([number])))
        await reader.read()

    async with _connected(serve) as connection:
        connection.send(_FETCH, 4, False, [b"x"]).cancel()
        assert bytes(await connection.send(_FETCH, 4, False, [b"x"])) == b"\1"
