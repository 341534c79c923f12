"""A TCP proxy on loopback that delays, holds back or cuts connections."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Self

_CHUNK_BYTES = 1 << 18
#: Most bytes in flight in one direction of one connection: 100 ms of 600 MB/s.
_MOST_BYTES_IN_FLIGHT = 64 << 20


class Proxy:
    """A proxy in front of one port of 127.0.0.1. An async context manager."""

    def __init__(self, port: int, listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        """``listen``: its own address; port 0 is any free one."""
        self._upstream_port, self._listen = port, listen
        self.port = 0
        #: In each direction; it delays every byte, and does not limit the rate.
        self.delay_s = 0.0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, *self._listen, limit=_CHUNK_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def hold(self) -> None:
        """Forward nothing; connections stay open, and new ones are accepted."""
        self._flowing.clear()

    def release(self) -> None:
        """Forward what was held back, and go on."""
        self._flowing.set()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port, limit=_CHUNK_BYTES)
            await asyncio.gather(self._forward(reader, up_writer), self._forward(up_reader, writer))
        writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        stream = _DelayedStream()
        receiving = asyncio.create_task(self._receive(reader, stream))
        with contextlib.suppress(ConnectionError):
            while data := await stream.next_chunk():
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        # What a dead client had sent still arrives, as through a network that works again.
        writer.close()
        self._writers.discard(writer)
        receiving.cancel()

    async def _receive(self, reader: asyncio.StreamReader, stream: _DelayedStream) -> None:
        data = b"begin"
        while data:
            try:
                data = await reader.read(_CHUNK_BYTES)
            except ConnectionError:
                data = b""
            await stream.put(data, asyncio.get_running_loop().time() + self.delay_s)


class _DelayedStream:
    """Chunks in flight, each with the time of its arrival; an empty one is the end."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()

    async def put(self, data: bytes, at_s: float) -> None:
        while self._bytes >= _MOST_BYTES_IN_FLIGHT:
            self._changed.clear()
            await self._changed.wait()
        self._chunks.append((at_s, data))
        self._bytes += len(data)
        self._changed.set()

    async def next_chunk(self) -> bytes:
        while not self._chunks:
            self._changed.clear()
            await self._changed.wait()
        at_s, data = self._chunks.popleft()
        self._bytes -= len(data)
        self._changed.set()
        wait_s = at_s - asyncio.get_running_loop().time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        return data


@contextlib.contextmanager
def long_link(ports: Sequence[int], delay_s: float) -> Iterator[dict[int, int]]:
    """Proxies in a process of their own that delay by ``delay_s`` in each direction; yields each port's proxy port."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_run_proxies, args=(theirs, ports, delay_s), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _run_proxies(answer: Connection, ports: Sequence[int], delay_s: float) -> None:
    asyncio.run(_serve(answer, ports, delay_s))


async def _serve(answer: Connection, ports: Sequence[int], delay_s: float) -> None:
    async with AsyncExitStack() as stack:
        proxies = {port: await stack.enter_async_context(Proxy(port)) for port in ports}
        for proxy in proxies.values():
            proxy.delay_s = delay_s
        answer.send({port: proxy.port for port, proxy in proxies.items()})
        await asyncio.Event().wait()
