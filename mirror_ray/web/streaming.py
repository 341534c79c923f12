"""The live view: server-sent events, a picture every second, each event of the log once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from mirror_ray.observe.picture import Picture
from mirror_ray.web.guard import refuse, safe_headers
from mirror_ray.web.jsonable import dumps
from mirror_ray.web.watch import Seen, Watch

#: Each is a connection and a copy of every picture.
MOST_LOOKERS: Final = 50
_EVERY_S: Final = 1.0
#: Topics that lag most; the others are asked for.
_TOPICS: Final = 50


def stream(watch: Watch) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of ``/api/v1/stream``. ``Last-Event-ID`` is the number of the last event that was seen."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if watch.lookers >= MOST_LOOKERS:
            return refuse(503, f"{MOST_LOOKERS} look already: close a page")
        answer = web.StreamResponse(headers={**safe_headers(), "Content-Type": "text/event-stream"})
        await answer.prepare(request)
        watch.lookers += 1
        try:
            number = _last(request)
            while True:
                await watch.refresh(_EVERY_S / 2)
                text, number = frame(watch.seen(), number)
                await answer.write(text.encode())
                await asyncio.sleep(_EVERY_S)
        except (ConnectionError, asyncio.CancelledError):
            return answer
        finally:
            watch.lookers -= 1

    return handler


def frame(seen: Seen, after: int) -> tuple[str, int]:
    """One second's text, and the number of the newest event in it. ``after``: events up to this one were sent."""
    if seen.picture is None:
        return f"event: picture\ndata: {dumps({'up': False, 'age_seconds': None})}\n\n", after
    picture = seen.picture
    # A coordinator that began anew counts from one again.
    newest = picture.events[-1].number if picture.events else after
    fresh = [each for each in picture.events if each.number > after or newest < after]
    body = {
        "up": seen.up,
        "age_seconds": round(seen.age_s, 1),
        "time_ms": picture.time_ms,
        "status": picture.system,
        "topics": _furthest_behind(picture),
        "topics_in_all": len(picture.topics),
        "partitions_in_all": len(picture.partitions),
        "events": fresh,
    }
    return f"id: {newest}\nevent: picture\ndata: {dumps(body)}\n\n", newest


def _furthest_behind(picture: Picture) -> list[object]:
    def order(index: int) -> tuple[bool, int]:
        topic = picture.topics[index]
        return topic.state in ("copying", "paused"), -(topic.lag_records or 0)

    return [picture.topics[index] for index in sorted(range(len(picture.topics)), key=order)[:_TOPICS]]


def _last(request: web.Request) -> int:
    text = request.headers.get("Last-Event-ID", "")
    return int(text) if text.isdecimal() else 0
