"""Background loops that log a failure, wait, and go on; and the background writers of a flow's topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from mirror_ray.model.errors import MirrorError
from mirror_ray.replication.backoff import Backoff

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LAST_PAUSE_S = 1.0, 30.0


def log_failure(what: str, error: Exception, level: int = logging.INFO) -> None:
    """Log why something failed; with its traceback where that was not to be expected."""
    log.log(level, "%s: %s", what, error, exc_info=not isinstance(error, OSError | MirrorError))


async def supervise(
    work: Callable[[], Awaitable[object]],
    what: str,
    backoff: Backoff,
    on_failure: Callable[[Exception], object],
    *,
    level: int = logging.INFO,
) -> NoReturn:
    """Do ``work`` again and again; after an exception call ``on_failure`` and wait for the backoff."""
    while True:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the loop goes on
            log_failure(what, error, level)
            pause_s = backoff.failed()
            on_failure(error)
            await asyncio.sleep(pause_s)


class BackgroundWriter:
    """Publishes to topics of a flow when there is something to publish, until ``close``.

    What fails is tried again with a backoff, and the event log says once that it fails, and once that it works again.
    """

    def __init__(
        self,
        flow: str,
        what: str,
        *,
        wait: Callable[[], Awaitable[object]],
        publish: Callable[[], Awaitable[bool]],
        on_event: Callable[[str, str], None],
    ) -> None:
        """``wait()`` returns when there is something to publish; ``publish()`` is True if all of it was written.

        ``what`` is published, in the words of an event.
        """
        self._flow, self._what = flow, what
        self._wait, self._publish = wait, publish
        self._on_event = on_event
        self._failing: set[str] = set()
        self._unforeseen = False
        self._lock = asyncio.Lock()
        self._task = asyncio.create_task(self._run(), name=f"flow {flow}: publishing {what}")

    async def flush(self) -> bool:
        """Publish now; returns whether all was written."""
        async with self._lock:
            return await self._publish()

    async def write(self, topic: str, append: Callable[[], Awaitable[object]]) -> bool:
        """Write to a topic by ``append``; returns whether that was done.

        Raises:
            Exception: Any that is not an ``OSError`` or a ``MirrorError``.
        """
        try:
            await append()
        except (OSError, MirrorError) as error:
            self.failed(topic, error)
            return False
        self.succeeded(topic)
        return True

    def failed(self, topic: str, error: Exception) -> None:
        """Note that a topic can't be written."""
        log.info("flow %s: %s", self._flow, error)
        if topic not in self._failing:
            self._failing.add(topic)
            self._on_event("warning", f"flow {self._flow}: {self._what} are not published: {error}")

    def succeeded(self, topic: str) -> None:
        """Note that a topic was written."""
        if topic in self._failing:
            self._failing.discard(topic)
            self._on_event("info", f"flow {self._flow}: topic {topic} can be written again")

    async def close(self) -> None:
        """End the loop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        backoff = Backoff(_FIRST_PAUSE_S, _LAST_PAUSE_S)
        while True:
            await self._wait()
            written = await self._flushed()
            while not written:
                await asyncio.sleep(backoff.failed())
                written = await self._flushed()
            backoff.succeeded()

    async def _flushed(self) -> bool:
        try:
            written = await self.flush()
        except Exception as error:  # noqa: BLE001 - whatever it is, the loop goes on
            log_failure(f"flow {self._flow}: publishing {self._what}", error, logging.WARNING)
            if not self._unforeseen:
                self._on_event("warning", f"flow {self._flow}: {self._what} are not published: {error!r}")
            self._unforeseen = True
            return False
        if self._unforeseen:
            self._on_event("info", f"flow {self._flow}: {self._what} are published again")
        self._unforeseen = False
        return written
