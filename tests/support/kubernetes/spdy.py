"""SPDY/3.1 as the API server speaks it to kubelets: streams both ways over one connection, without flow control.

Source: the draft "SPDY Protocol - Draft 3", and what https://github.com/moby/spdystream 0.5 reads and writes of it.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GO_AWAY = 1, 2, 3, 6, 7
_FIN = 1
_CONTROL = 1 << 31
_FRAME_BYTES = 32 << 10

_NAMES = """
options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow
authorization cache-control connection content-base content-encoding content-language content-length
content-location content-md5 content-range content-type date etag expect expires from host if-match
if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma
proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade
user-agent vary via warning www-authenticate method get status
"""
_MORE_NAMES = ["200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"]
_VALUES = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    b"404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    b"publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
#: What both sides' compression of headers begins with.
DICTIONARY = b"".join(struct.pack(">I", len(name)) + name.encode() for name in _NAMES.split() + _MORE_NAMES) + _VALUES


@dataclass
class SpdyStream:
    """A stream that the other side has opened."""

    number: int
    headers: dict[str, str]
    connection: SpdyConnection
    _received: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)

    async def read(self) -> bytes:
        """What came next; empty: no more will come."""
        return await self._received.get()

    def take(self, data: bytes) -> None:
        """Something came, or (empty) nothing more will."""
        self._received.put_nowait(data)

    async def write(self, data: bytes) -> None:
        """Send, in frames of a bounded size."""
        for start in range(0, len(data), _FRAME_BYTES):
            await self.connection.send_data(self.number, data[start : start + _FRAME_BYTES])

    async def finish(self) -> None:
        """Send no more."""
        await self.connection.send_data(self.number, b"", flags=_FIN)


class SpdyConnection:
    """The server's side of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._streams: dict[int, SpdyStream] = {}
        self._decompressor, self._compressor = zlib.decompressobj(zdict=DICTIONARY), zlib.compressobj(zdict=DICTIONARY)

    async def streams(self) -> AsyncIterator[SpdyStream]:
        """Each stream that is opened, until the other side closes the connection; reads what comes to all of them."""
        try:
            while True:
                head, flags_length = struct.unpack(">II", await self._reader.readexactly(8))
                payload = await self._reader.readexactly(flags_length & 0xFFFFFF)
                flags = flags_length >> 24
                if not head & _CONTROL:
                    self._take_data(head, payload, flags)
                elif (opened := await self._take_control(head & 0xFFFF, payload, flags)) is not None:
                    yield opened
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            for stream in self._streams.values():
                stream.take(b"")

    def _take_data(self, number: int, data: bytes, flags: int) -> None:
        stream = self._streams.get(number)
        if stream is not None and data:
            stream.take(data)
        if stream is not None and flags & _FIN:
            stream.take(b"")

    async def _take_control(self, kind: int, payload: bytes, flags: int) -> SpdyStream | None:
        if kind == _PING:
            await self._send_control(_PING, payload)
        elif kind == _RST_STREAM:
            self._take_data(struct.unpack_from(">I", payload)[0], b"", _FIN)
        elif kind == _SYN_STREAM:
            number = struct.unpack_from(">I", payload)[0]
            headers = parse_headers(self._decompressor.decompress(payload[10:]))
            self._streams[number] = stream = SpdyStream(number, headers, self)
            if flags & _FIN:
                stream.take(b"")
            await self._send_control(_SYN_REPLY, struct.pack(">I", number) + self._compressed(struct.pack(">I", 0)))
            return stream
        return None

    def _compressed(self, block: bytes) -> bytes:
        return self._compressor.compress(block) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    async def _send_control(self, kind: int, payload: bytes) -> None:
        self._writer.write(struct.pack(">HHI", _VERSION | 1 << 15, kind, len(payload)) + payload)
        await self._writer.drain()

    async def send_data(self, number: int, data: bytes, *, flags: int = 0) -> None:
        """Send a frame of data."""
        self._writer.write(struct.pack(">II", number, flags << 24 | len(data)) + data)
        await self._writer.drain()

    async def go_away(self) -> None:
        """Say that no more streams are taken."""
        await self._send_control(_GO_AWAY, struct.pack(">II", max(self._streams, default=0), 0))


def parse_headers(block: bytes) -> dict[str, str]:
    """Names and values of a block of headers."""
    (count,), at = struct.unpack_from(">I", block), 4
    words = []
    for _ in range(2 * count):
        (length,) = struct.unpack_from(">I", block, at)
        words.append(block[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return dict(zip(words[::2], words[1::2], strict=True))
