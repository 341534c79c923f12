"""Asks for many things at once, a piece at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from mirror_ray.registry.registration import pieces

_K = TypeVar("_K")
_V = TypeVar("_V")

#: So many are begun together; the client keeps to its own number of requests.
_TOGETHER: Final = 256


async def each(keys: Iterable[_K], ask: Callable[[_K], Awaitable[_V]]) -> dict[_K, _V]:
    """What is answered for each key."""
    found: dict[_K, _V] = {}
    for together in pieces(list(keys), _TOGETHER):
        found |= dict(zip(together, await asyncio.gather(*map(ask, together)), strict=True))
    return found
