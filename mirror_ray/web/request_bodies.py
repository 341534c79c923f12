"""The body of an act: read to its end, within bounds, and nothing in it that is no text."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from aiohttp import web

from mirror_ray.web.client_limits import ClientLimits

#: Characters of a name; Kafka's are shorter.
_LONGEST_NAME: Final = 1_000
#: Numbers are Kafka's: partitions and counts are 32 bits wide.
_LARGEST: Final = 2**31 - 1


async def body_of(request: web.Request, bounds: ClientLimits) -> dict[str, Any]:
    """The JSON object that was sent; nothing at all is an empty one.

    Raises:
        ValueError: It is none.
        HTTPRequestEntityTooLarge: It is longer than it may be.
        HTTPRequestTimeout: It does not come to an end.
    """
    if (request.content_length or 0) > bounds.body_bytes:
        raise web.HTTPRequestEntityTooLarge(bounds.body_bytes, request.content_length or 0)
    try:
        async with asyncio.timeout(bounds.body_s):
            text = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    return parsed(text)


def parsed(text: bytes) -> dict[str, Any]:
    """A body as an object.

    Raises:
        ValueError: It is none, is nested too deeply, or has a text that is no Unicode.
    """
    try:
        body = json.loads(text or b"{}")
        json.dumps(body, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None
    except UnicodeError:
        raise ValueError("the body has a text that is no Unicode: half of a surrogate pair, or no UTF-8") from None
    except ValueError as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise ValueError("the body is not a JSON object")  # noqa: TRY004 - what was sent is wrong, not our code
    return body


def field(body: dict[str, Any], name: str, kind: type) -> Any:
    """A number or a name of a body.

    Raises:
        ValueError: It is missing, or none that Kafka could have.
    """
    value = body.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        what = "a number" if kind is int else "a name"
        raise ValueError(f"{name}: {str(value)[:100]!r} is not {what}")  # noqa: TRY004 - as above
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{name}: out of range, which ends at {_LARGEST:,}")
    if isinstance(value, str) and len(value) > _LONGEST_NAME:
        raise ValueError(f"{name}: {len(value):,} characters; no name has more than {_LONGEST_NAME:,}")
    return value
