"""Requests as bytes: what no HTTP client sends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

#: A header, and the body of an act.
JSON = ("Content-Type", b"application/json")
PAUSE = b'{"flow": "A->B"}'


async def send(port: int, *parts: bytes, pause_s: float = 0.02, wait_s: float = 5.0) -> bytes:
    """All that comes back until the other side closes; ``parts`` are sent a pause apart, as on a slow link."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for number, part in enumerate(parts):
            if number:
                await asyncio.sleep(pause_s)
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(wait_s):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.transport.abort()


def request(
    method: str, path: str, body: bytes = b"", headers: Sequence[tuple[str, bytes]] = (), *, close: bool = True
) -> bytes:
    """A request with those headers, besides those that every one has."""
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: 127.0.0.1"]
    lines += [b"Connection: close"] if close else []
    lines += [f"{name}: ".encode() + value for name, value in headers]
    lines += [b"Content-Length: %d" % len(body)] if method == "POST" else []
    return b"\r\n".join([*lines, b"", body])


def act(body: bytes, token: bytes, path: str = "/api/v1/pause") -> bytes:
    """An act with a token."""
    return request("POST", path, body, [JSON, ("Authorization", b"Bearer " + token)])


def status(answer: bytes) -> int:
    """Of an answer; 0: there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0
