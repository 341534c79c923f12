"""Waiting for something to become true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

_POLL_S = 0.05
#: Limits of waits, and of tests, are those of a machine where nothing else runs; another one may be so much slower.
PATIENCE = 3.0

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float, message: str, *, every_s: float = _POLL_S) -> T:
    """Call ``condition`` until its result is true, and return that.

    Raises:
        AssertionError: It was not within ``timeout_s`` times `PATIENCE`; the text is ``message`` and the last result.
    """
    timeout_s *= PATIENCE
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {message} (last: {result!r})")
        time.sleep(every_s)
    return result


async def wait_until_async(condition: Callable[[], Awaitable[T]], timeout_s: float, message: str) -> T:
    """`wait_until` for a coroutine function."""
    timeout_s *= PATIENCE
    deadline = time.monotonic() + timeout_s
    while not (result := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {message} (last: {result!r})")
        await asyncio.sleep(_POLL_S)
    return result
