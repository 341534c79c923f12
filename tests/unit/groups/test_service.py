"""What a checkpoint actor does between its rounds."""

from __future__ import annotations

import asyncio

import pytest

from mirror_ray.groups import service
from mirror_ray.groups.service import pause


async def test_a_long_pause_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """However rare the rounds are; it ends when somebody wakes it, and a look that fails ends it, too."""
    monkeypatch.setattr(service, "_HISTORY_S", 0.001)
    wake, looks = asyncio.Event(), 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            wake.set()
        if looks == 4:
            raise ConnectionError("lost")

    await pause(wake, 3600, look)
    assert looks == 3
    with pytest.raises(ConnectionError):
        await pause(wake, 3600, look)


async def test_a_pause_ends_by_itself() -> None:
    """Without a look that is due."""
    for pause_s in (-1.0, 0.0, 0.01):
        await pause(asyncio.Event(), pause_s, None)
