"""The gateway actor: the web UI, its JSON and the metrics of one system. It serves while the coordinator is away."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mirror_ray.config.gateway import GatewaySettings
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.mirror import CoordinatorClient
from mirror_ray.model.audit import AuditEntry, AuditQuery
from mirror_ray.model.errors import NoAnswerError
from mirror_ray.model.notice import Notice
from mirror_ray.observe.system_snapshot import SystemSnapshot
from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.client_limits import BOUNDS, ClientLimits
from mirror_ray.web.server import application, serving
from mirror_ray.web.snapshot_cache import SnapshotCache

_AUDIT_S: Final = 30.0


class GatewayService:
    """Serves from ``configure`` until ``stop``."""

    def __init__(
        self,
        client: CoordinatorClient,
        read_audit: Callable[[MirrorSettings, AuditQuery], Awaitable[Sequence[AuditEntry]]],
        *,
        on_snapshot: Callable[[SystemSnapshot], None],
        bounds: ClientLimits = BOUNDS,
    ) -> None:
        """Serve nothing yet. ``read_audit`` reads the audit logs of the system's flows from Kafka.

        ``on_snapshot`` is called with each new snapshot, every few seconds; ``bounds``: what clients may take.
        """
        self._client, self._read_audit, self._bounds = client, read_audit, bounds
        self._cache = SnapshotCache(client, clock=time.monotonic, on_snapshot=on_snapshot)
        self._settings: GatewaySettings | None = None
        self._access: GatewayAccess | None = None
        self._open = contextlib.AsyncExitStack()
        self._address = ""
        self._configuring = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def configure(self, settings: GatewaySettings) -> tuple[str, Sequence[Notice]]:
        """Serve by these settings from now on; the address, and notices since the last call. Idempotent.

        Raises:
            ConfigError: The address can't be had, or the certificate can't be used.
        """
        async with self._configuring:
            if not self._tasks:
                self._tasks = [asyncio.create_task(loop) for loop in (self._cache.run(), self._renew())]
            if settings != self._settings:
                await self._open.aclose()
                self._settings = self._access = None
                access = await asyncio.to_thread(GatewayAccess, settings, clock=time.monotonic, bounds=self._bounds)
                app = application(self._cache, self._client, self._audit, settings, access)
                self._address = await self._open.enter_async_context(serving(app, settings, access))
                self._settings, self._access = settings, access
            return self._address, self._access.notices() if self._access is not None else ()

    async def _audit(self, wanted: AuditQuery) -> Sequence[AuditEntry]:
        """Read the audit logs here: the coordinator has better things to do."""
        settings = await self._client.configuration()
        try:
            async with asyncio.timeout(_AUDIT_S):
                return await self._read_audit(settings, wanted)
        except TimeoutError:
            raise NoAnswerError(f"the audit log was not read within {_AUDIT_S:g} s: ask for a shorter time") from None
        except OSError as error:
            raise NoAnswerError(f"the audit log can't be read now: {error}") from error

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._bounds.renewal_s)
            if self._access is not None:
                await asyncio.to_thread(self._access.renew)

    async def stop(self) -> None:
        """Close every connection."""
        for task in self._tasks:
            task.cancel()
        await self._open.aclose()
