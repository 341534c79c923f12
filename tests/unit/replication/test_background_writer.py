"""What publishes a flow's topics in the background goes on, whatever happens."""

from __future__ import annotations

import asyncio

import pytest

from mirror_ray.replication import supervision
from mirror_ray.replication.supervision import BackgroundWriter
from tests.support.waiting import wait_until_async


async def test_an_unforeseen_error_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged in the event log once, tried again, and so is that it works again."""
    monkeypatch.setattr(supervision, "_FIRST_PAUSE_S", 0.001)
    events: list[str] = []
    wanted, published = asyncio.Event(), 0
    failures = [ValueError("no such thing"), ValueError("nor this")]

    async def wait() -> None:
        await wanted.wait()
        wanted.clear()

    async def publish() -> bool:
        nonlocal published
        if failures:
            raise failures.pop()
        published += 1
        return True

    async def was_published() -> bool:
        return published == 1

    writer = BackgroundWriter(
        "A->B", "offsets", wait=wait, publish=publish, on_event=lambda level, text: events.append(f"{level}: {text}")
    )
    wanted.set()
    await wait_until_async(was_published, 10, "published")
    await writer.close()
    assert events == [
        "warning: flow A->B: offsets are not published: ValueError('nor this')",
        "info: flow A->B: offsets are published again",
    ]
