"""Waiting for something no longer than that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


async def within(timeout_s: float, act: Awaitable[_T]) -> _T | None:
    """What ``act`` returns; None when it fails, or when the time is over: then it is cancelled, and not waited for."""
    task = asyncio.ensure_future(act)
    done, _ = await asyncio.wait({task}, timeout=timeout_s)
    task.cancel()
    if not done:
        return None
    if (error := task.exception()) is not None:
        _log.warning("while going down: %s", error)
        return None
    return task.result()
