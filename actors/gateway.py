"""The gateway actor: the page, its JSON and the metrics of one system. It goes on when the coordinator does not."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from mirror_ray.config.gateway import GatewaySettings
from mirror_ray.observe.picture import Picture
from mirror_ray.web.port import System
from mirror_ray.web.server import application, serving
from mirror_ray.web.watch import Watch


class Gateway:
    """Serves from ``configure`` until ``stop``."""

    def __init__(self, system: System, *, on_picture: Callable[[Picture], None]) -> None:
        """``on_picture`` is called with each new picture, every few seconds."""
        self._system = system
        self._watch = Watch(system, clock=time.monotonic, on_picture=on_picture)
        self._settings: GatewaySettings | None = None
        self._open = contextlib.AsyncExitStack()
        self._address = ""
        self._configuring = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def configure(self, settings: GatewaySettings) -> str:
        """Serve by these settings from now on, and say where. Idempotent.

        Raises:
            ConfigError: The address can't be had.
        """
        async with self._configuring:
            if self._task is None:
                self._task = asyncio.create_task(self._watch.run())
            if settings != self._settings:
                await self._open.aclose()
                self._settings = None
                app = application(self._watch, self._system, settings)
                self._address = await self._open.enter_async_context(serving(app, settings))
                self._settings = settings
            return self._address

    async def stop(self) -> None:
        """Close every connection."""
        if self._task is not None:
            self._task.cancel()
        await self._open.aclose()
