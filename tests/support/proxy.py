"""A TCP proxy on loopback that can be slow, hold everything back, or cut."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self


class Proxy:
    """Stands before one port of 127.0.0.1. An async context manager."""

    def __init__(self, port: int) -> None:
        self._upstream_port = port
        self.port = 0
        #: Each way, for every piece that passes.
        self.delay_s = 0.0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
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
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
            await asyncio.gather(self._pass(reader, up_writer), self._pass(up_reader, writer))
        writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        # What a dead client had sent still arrives, as through a network that woke up.
        writer.close()
        self._writers.discard(writer)
