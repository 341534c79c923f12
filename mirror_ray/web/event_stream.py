"""The live view: server-sent events, a snapshot every second, each event of the log once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from aiohttp import web

from mirror_ray.observe.system_snapshot import SystemSnapshot
from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.authorization import holder_of, safe_headers
from mirror_ray.web.connections import victim
from mirror_ray.web.jsonable import dumps
from mirror_ray.web.snapshot_cache import CachedSnapshot, SnapshotCache

_EVERY_S: Final = 1.0
#: Topics that lag most; the others are asked for.
_TOPICS: Final = 50
#: Of an event's number.
_DIGITS: Final = 20


class Subscribers:
    """Who follows. When there is no room, whoever has most loses the oldest: a page comes back by itself."""

    def __init__(self, most: int) -> None:
        """``most``: so many at a time."""
        self._most = most
        self._numbers = itertools.count()
        self._there: dict[int, tuple[str, web.Request, asyncio.Event]] = {}

    @contextlib.contextmanager
    def entered(self, request: web.Request, who: str) -> Iterator[asyncio.Event]:
        """Be one of them, until what this gives is set."""
        if len(self._there) >= self._most:
            self._end(victim({key: (name, True, key) for key, (name, _, _) in self._there.items()}))
        number, over = next(self._numbers), asyncio.Event()
        self._there[number] = who, request, over
        try:
            yield over
        finally:
            self._there.pop(number, None)

    def _end(self, number: int) -> None:
        _, request, over = self._there.pop(number)
        over.set()
        if request.transport is not None:
            request.transport.abort()

    async def close(self, _: web.Application) -> None:
        """End them all."""
        for number in list(self._there):
            self._end(number)


def stream(
    cache: SnapshotCache, access: GatewayAccess, subscribers: Subscribers
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of ``/api/v1/stream``. ``Last-Event-ID`` is the number of the last event that was seen."""

    async def handler(request: web.Request) -> web.StreamResponse:
        holder = holder_of(request, access)
        who = holder.user if holder is not None and holder.user else str(request.remote)
        answer = web.StreamResponse(headers={**safe_headers(), "Content-Type": "text/event-stream"})
        with subscribers.entered(request, who) as over, cache.streamed():
            try:
                await answer.prepare(request)
                await _follow(cache, answer, _last(request), access.bounds.write_s, over)
            except TimeoutError:
                if request.transport is not None:
                    request.transport.abort()
            except (ConnectionError, asyncio.CancelledError):
                pass
        return answer

    return handler


async def _follow(
    cache: SnapshotCache, answer: web.StreamResponse, number: int, write_s: float, over: asyncio.Event
) -> None:
    while not over.is_set():
        await cache.refresh(_EVERY_S / 2)
        text, number = frame(cache.seen(), number)
        async with asyncio.timeout(write_s):
            await answer.write(text.encode())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EVERY_S):
                await over.wait()


def frame(seen: CachedSnapshot, after: int) -> tuple[str, int]:
    """One second's text, and the number of the newest event in it. ``after``: events up to this one were sent."""
    if seen.snapshot is None:
        return f"event: picture\ndata: {dumps({'up': False, 'age_seconds': None})}\n\n", after
    snapshot = seen.snapshot
    # A coordinator that began anew counts from one again.
    newest = snapshot.events[-1].number if snapshot.events else after
    fresh = [event for event in snapshot.events if event.number > after or newest < after]
    body = {
        "up": seen.up,
        "age_seconds": round(seen.age_s, 1),
        "time_ms": snapshot.time_ms,
        "status": snapshot.system,
        "topics": _furthest_behind(snapshot),
        "topics_in_all": len(snapshot.topics),
        "partitions_in_all": len(snapshot.partitions),
        "events": fresh,
    }
    return f"id: {newest}\nevent: picture\ndata: {dumps(body)}\n\n", newest


def _furthest_behind(snapshot: SystemSnapshot) -> list[object]:
    def order(index: int) -> tuple[bool, int]:
        topic = snapshot.topics[index]
        return topic.state in ("copying", "paused"), -(topic.lag_records or 0)

    return [snapshot.topics[index] for index in sorted(range(len(snapshot.topics)), key=order)[:_TOPICS]]


def _last(request: web.Request) -> int:
    text = request.headers.get("Last-Event-ID", "")
    return int(text) if text.isdecimal() and len(text) < _DIGITS else 0
