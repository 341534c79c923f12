"""How a registry is reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mirror_ray.config.settings import RegistrySettings
from mirror_ray.registry.client import RegistryClient


@asynccontextmanager
async def server(lines: list[str]) -> AsyncIterator[str]:
    """Answers every request with an empty list; ``lines``: takes what was asked."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines.append(head.split(b"\r\n", 1)[0].decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")
        await writer.drain()
        writer.close()

    served = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with served:
        yield f"http://127.0.0.1:{served.sockets[0].getsockname()[1]}"


async def ask(url: str) -> object:
    """What a registry answers about its subjects."""
    async with RegistryClient("A", RegistrySettings(urls=(url,))) as client:
        return await client.get("subjects")


async def test_by_the_environments_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As curl does; hosts in NO_PROXY are asked without it."""
    lines: list[str] = []
    async with server(lines) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
        assert await ask("http://registry.invalid:8081") == []
        monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
        assert await ask(proxy) == []
    assert lines == ["GET http://registry.invalid:8081/subjects HTTP/1.1", "GET /subjects HTTP/1.1"]
