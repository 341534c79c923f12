"""A TCP proxy on loopback that makes a long link of it, holds everything back, or cuts."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Self

_PIECE_BYTES = 1 << 18
#: What is on its way in one direction of one connection: 100 ms of 600 MB/s.
_ON_THE_WAY_BYTES = 64 << 20


class Proxy:
    """Stands before one port of 127.0.0.1. An async context manager."""

    def __init__(self, port: int) -> None:
        self._upstream_port = port
        self.port = 0
        #: Each way; however much follows closely, it arrives so much later and as closely.
        self.delay_s = 0.0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, limit=_PIECE_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def hold(self) -> None:
        """Let nothing through; connections stay open, and new ones are accepted."""
        self._flowing.clear()

    def release(self) -> None:
        """Let through what was held back, and what comes."""
        self._flowing.set()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port, limit=_PIECE_BYTES)
            await asyncio.gather(self._pass(reader, up_writer), self._pass(up_reader, writer))
        writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        way = _Way()
        taking = asyncio.create_task(self._take(reader, way))
        with contextlib.suppress(ConnectionError):
            while data := await way.arrived():
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        # What a dead client had sent still arrives, as through a network that woke up.
        writer.close()
        self._writers.discard(writer)
        taking.cancel()

    async def _take(self, reader: asyncio.StreamReader, way: _Way) -> None:
        data = b"begun"
        while data:
            try:
                data = await reader.read(_PIECE_BYTES)
            except ConnectionError:
                data = b""
            await way.put(data, asyncio.get_running_loop().time() + self.delay_s)


class _Way:
    """Pieces on their way, each with the time when it arrives; the empty one is the end."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()

    async def put(self, data: bytes, at_s: float) -> None:
        while self._bytes >= _ON_THE_WAY_BYTES:
            self._changed.clear()
            await self._changed.wait()
        self._pieces.append((at_s, data))
        self._bytes += len(data)
        self._changed.set()

    async def arrived(self) -> bytes:
        while not self._pieces:
            self._changed.clear()
            await self._changed.wait()
        at_s, data = self._pieces.popleft()
        self._bytes -= len(data)
        self._changed.set()
        wait_s = at_s - asyncio.get_running_loop().time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        return data


@contextlib.contextmanager
def long_link(ports: Sequence[int], delay_s: float) -> Iterator[dict[int, int]]:
    """A process of its own that stands before ``ports``, ``delay_s`` each way; gives the port before each of them."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_stand, args=(theirs, ports, delay_s), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _stand(told: Connection, ports: Sequence[int], delay_s: float) -> None:
    asyncio.run(_serve(told, ports, delay_s))


async def _serve(told: Connection, ports: Sequence[int], delay_s: float) -> None:
    async with AsyncExitStack() as stack:
        proxies = {port: await stack.enter_async_context(Proxy(port)) for port in ports}
        for proxy in proxies.values():
            proxy.delay_s = delay_s
        told.send({port: proxy.port for port, proxy in proxies.items()})
        await asyncio.Event().wait()
