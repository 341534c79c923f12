"""Asks a registry for many things at once, a piece at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")

#: So many are begun together; the client keeps to its own number of requests.
_TOGETHER: Final = 256


def pieces(values: Sequence[_K]) -> Iterator[Sequence[_K]]:
    """``values``, as many at a time as are asked for together."""
    return (values[first : first + _TOGETHER] for first in range(0, len(values), _TOGETHER))


async def each(keys: Iterable[_K], ask: Callable[[_K], Awaitable[_V]]) -> dict[_K, _V]:
    """What is answered for each key."""
    found: dict[_K, _V] = {}
    for together in pieces(list(keys)):
        found |= dict(zip(together, await asyncio.gather(*map(ask, together)), strict=True))
    return found
