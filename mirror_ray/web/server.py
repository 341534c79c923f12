"""The HTTP server of a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from ipaddress import ip_address

from aiohttp import web

from mirror_ray import __version__
from mirror_ray.config.gateway import GATEWAY_PORT, GatewaySettings
from mirror_ray.mirror import CoordinatorClient
from mirror_ray.model.errors import ConfigError
from mirror_ray.web import commands, pages, queries
from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.answer_cache import AuditReader
from mirror_ray.web.authorization import guard
from mirror_ray.web.connections import ClientConnection, ConnectionLimiter, marking
from mirror_ray.web.event_stream import Subscribers, stream
from mirror_ray.web.snapshot_cache import SnapshotCache


def application(
    cache: SnapshotCache,
    client: CoordinatorClient,
    read_audit: AuditReader,
    settings: GatewaySettings,
    access: GatewayAccess,
) -> web.Application:
    """Every address that is served."""
    app = web.Application(
        middlewares=[marking, guard(access, loopback=_is_loopback(settings.host))],
        client_max_size=access.bounds.body_bytes,
    )
    limit = settings.metrics_partitions
    app.add_routes(queries.routes(cache, client, read_audit, access, version=__version__, most_partitions=limit))
    app.add_routes(commands.routes(client, access))
    subscribers = Subscribers(access.bounds.streams)
    app.add_routes([web.get("/api/v1/stream", stream(cache, access, subscribers))])
    app.on_shutdown.append(subscribers.close)
    app.add_routes(pages.routes())
    return app


@contextlib.asynccontextmanager
async def serving(app: web.Application, settings: GatewaySettings, access: GatewayAccess) -> AsyncIterator[str]:
    """Serve, and give the address as others reach it: ``http://host:port``.

    Raises:
        ConfigError: The port that the configuration names can't be had, or the host is none of ours.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    server = runner.server
    assert server is not None  # noqa: S101 - set up in the line before
    async with contextlib.AsyncExitStack() as open_:
        listening = open_.enter_context(_listen(settings))
        bounds = access.bounds
        reception = ConnectionLimiter(
            listening, lambda: ClientConnection(server, bounds, access.malformed), lambda: access.context, bounds
        )
        open_.push_async_callback(reception.close)
        open_.push_async_callback(runner.cleanup)
        open_.push_async_callback(_ended, asyncio.create_task(reception.accept()))
        scheme = "http" if access.context is None else "https"
        yield f"{scheme}://{_name(settings.host)}:{listening.getsockname()[1]}"


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _listen(settings: GatewaySettings) -> socket.socket:
    ports = (GATEWAY_PORT, 0) if settings.port is None else (settings.port,)
    for port in ports:
        try:
            return socket.create_server((settings.host, port), family=_family(settings.host))
        except OSError as error:
            if port == ports[-1]:
                what = f"the gateway can't listen on {settings.host}:{port}: {error.strerror or error}"
                raise ConfigError(f"{what}; change gateway.host or gateway.port") from error
    raise AssertionError("a port is tried")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _name(host: str) -> str:
    if host in ("0.0.0.0", "::"):  # noqa: S104 - said, not listened on
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"
