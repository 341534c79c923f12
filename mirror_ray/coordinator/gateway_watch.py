"""Keeps the gateway up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import Emit, GatewayPort
from mirror_ray.model.errors import MirrorError

_EVERY_S = 1.0


class GatewayWatch:
    """Asks it every second; one that has died is started again by that."""

    def __init__(
        self,
        port: Callable[[MirrorSettings], GatewayPort],
        emit: Emit,
        refused: Callable[[str], Awaitable[object]],
    ) -> None:
        """``refused`` keeps in the audit log that somebody was not let in."""
        #: Where the page is; None: it is off, or not up yet.
        self.address: str | None = None
        self._make_port = port
        self._emit, self._refused = emit, refused
        self._port: GatewayPort | None = None
        self._told: str | None = None

    async def configure(self, settings: MirrorSettings) -> None:
        """Serve by these settings from now on."""
        before, self._port = self._port, self._make_port(settings) if settings.gateway.enabled else None
        if before is not None and self._port is None:
            self.address = None
            await before.stop()

    async def watch(self, begin: Callable[[], Awaitable[object]]) -> None:
        """Again and again, once ``begin`` is over."""
        await begin()
        while True:
            if self._port is not None:
                await self._look(self._port)
            await asyncio.sleep(_EVERY_S)

    async def _look(self, port: GatewayPort) -> None:
        try:
            address = await port.address()
        except MirrorError as error:
            self.address = None
            if str(error) != self._told:
                self._told = str(error)
                self._emit("warning", "gateway", f"{error}; tried again")
            return
        if address != self.address:
            self._emit("info", "gateway", f"the page and the metrics are at {address}")
        self.address, self._told = address, None
        for each in port.notices():
            self._emit(each.level, "gateway", each.text)
            if each.refused:
                await self._refused(each.text)

    async def stop(self) -> None:
        """End the gateway."""
        port, self._port = self._port, None
        if port is not None:
            await port.stop()
