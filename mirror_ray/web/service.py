"""The gateway actor: the page, its JSON and the metrics of one system. It goes on when the coordinator does not."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from mirror_ray.config.gateway import GatewaySettings
from mirror_ray.model.notice import Notice
from mirror_ray.observe.system_snapshot import SystemSnapshot
from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.client_limits import BOUNDS, ClientLimits
from mirror_ray.web.port import SystemPort
from mirror_ray.web.server import application, serving
from mirror_ray.web.snapshot_cache import SnapshotCache


class GatewayService:
    """Serves from ``configure`` until ``stop``."""

    def __init__(
        self, system: SystemPort, *, on_picture: Callable[[SystemSnapshot], None], bounds: ClientLimits = BOUNDS
    ) -> None:
        """``on_picture`` is called with each new picture, every few seconds."""
        self._system, self._bounds = system, bounds
        self._watch = SnapshotCache(system, clock=time.monotonic, on_picture=on_picture)
        self._settings: GatewaySettings | None = None
        self._door: GatewayAccess | None = None
        self._open = contextlib.AsyncExitStack()
        self._address = ""
        self._configuring = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def configure(self, settings: GatewaySettings) -> tuple[str, Sequence[Notice]]:
        """Serve by these settings from now on; say where, and what is to be told since it was asked last. Idempotent.

        Raises:
            ConfigError: The address can't be had, or the certificate can't be used.
        """
        async with self._configuring:
            if not self._tasks:
                self._tasks = [asyncio.create_task(each) for each in (self._watch.run(), self._renew())]
            if settings != self._settings:
                await self._open.aclose()
                self._settings = self._door = None
                door = await asyncio.to_thread(GatewayAccess, settings, clock=time.monotonic, bounds=self._bounds)
                app = application(self._watch, self._system, settings, door)
                self._address = await self._open.enter_async_context(serving(app, settings, door))
                self._settings, self._door = settings, door
            return self._address, self._door.notices() if self._door is not None else ()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._bounds.renewal_s)
            if self._door is not None:
                await asyncio.to_thread(self._door.renew)

    async def stop(self) -> None:
        """Close every connection."""
        for each in self._tasks:
            each.cancel()
        await self._open.aclose()
