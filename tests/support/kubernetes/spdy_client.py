"""A command in a container, asked for as the API server asks a kubelet."""

from __future__ import annotations

import asyncio
import struct
import zlib
from urllib.parse import urlencode

from tests.support.kubernetes.spdy import DICTIONARY

_SYN_STREAM = 0x80030001
_FIN = 1 << 24


async def execute(
    port: int, container: str, command: list[str], given: bytes = b"", *, protocol: str = "v4.channel.k8s.io"
) -> dict[str, bytes]:
    """What comes back on each stream; ``container`` as namespace/pod/container. ``head`` is what came before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    asked = [("input", "1"), ("output", "1"), ("error", "1"), *(("command", part) for part in command)]
    head = f"POST /exec/{container}?{urlencode(asked)} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    writer.write(f"{head}X-Stream-Protocol-Version: {protocol}\r\n\r\n".encode())
    came = {"head": await reader.readuntil(b"\r\n\r\n")}
    if not came["head"].startswith(b"HTTP/1.1 101"):
        return came | {"error": await reader.read()}
    numbers = {1: "error", 3: "stdin", 5: "stdout", 7: "stderr"}
    compressor = zlib.compressobj(zdict=DICTIONARY)
    for number, kind in numbers.items():
        words = [b"streamtype", kind.encode()]
        block = struct.pack(">I", 1) + b"".join(struct.pack(">I", len(word)) + word for word in words)
        packed = compressor.compress(block) + compressor.flush(zlib.Z_SYNC_FLUSH)
        writer.write(struct.pack(">IIIIH", _SYN_STREAM, 10 + len(packed), number, 0, 0) + packed)
    writer.write(struct.pack(">II", 3, len(given)) + given + struct.pack(">II", 3, _FIN))
    open_ones = set(numbers) - {3}
    while open_ones:
        number, flags_length = struct.unpack(">II", await reader.readexactly(8))
        data = await reader.readexactly(flags_length & 0xFFFFFF)
        if number in numbers:
            came[numbers[number]] = came.get(numbers[number], b"") + data
            if flags_length & _FIN:
                open_ones.discard(number)
    writer.close()
    return came


async def get(port: int, path: str) -> str:
    """What the kubelet answers, status line and all."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: kubelet\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer
