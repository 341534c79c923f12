"""What can be done from the page. Whoever has the token may; what was done, the audit log and the events tell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

from aiohttp import web

from mirror_ray.model.errors import MirrorError
from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.authorization import may_act, refuse
from mirror_ray.web.port import SystemPort
from mirror_ray.web.request_bodies import body_of, field
from mirror_ray.web.tokens import TokenHolder

#: What it returns is the answer; None: it is done.
_Act = Callable[[SystemPort, dict[str, Any]], Awaitable[dict[str, Any] | None]]
#: What the token may set. Not code to be run (transforms, policy classes), nor clusters, credentials and the gateway.
_SETTABLE: Final = (
    *(
        "topics.",
        "groups.",
        "limits.",
        "heartbeats.",
        "offset_syncs.",
        "statistics.",
        "trouble.",
        "alerts.",
        "cost.",
        "elastic.",
    ),
    *("enabled", "replicators"),
)


def routes(system: SystemPort, door: GatewayAccess) -> list[web.RouteDef]:
    """Everything that changes something."""
    return [web.post(f"/api/v1/{name}", _guarded(system, door, act)) for name, act in _ACTS.items()]


def _guarded(system: SystemPort, door: GatewayAccess, act: _Act) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        holder = may_act(request, door)
        if isinstance(holder, web.Response):
            return holder
        try:
            body = await body_of(request, door.bounds)
            answer = await act(system.by(_operator(request, holder)), body)
        except ValueError as error:
            return refuse(400, str(error))
        except MirrorError as error:
            return refuse(409, str(error))
        return web.json_response(answer or {"done": True})

    return handler


def _operator(request: web.Request, holder: TokenHolder) -> str:
    address = request.remote or "unknown"
    return f"page {holder.user}@{address}" if holder.user else f"page {address}"


async def _pause(system: SystemPort, body: dict[str, Any]) -> None:
    await system.pause(*_scope(body))


async def _resume(system: SystemPort, body: dict[str, Any]) -> None:
    await system.resume(*_scope(body))


async def _scale(system: SystemPort, body: dict[str, Any]) -> None:
    await system.scale(field(body, "replicators", int))


async def _set(system: SystemPort, body: dict[str, Any]) -> dict[str, Any]:
    flow = field(body, "flow", str) if body.get("flow") is not None else None
    changes, dry_run = body.get("changes"), body.get("dry_run", False)
    if not isinstance(changes, dict) or not all(each is None or isinstance(each, str) for each in changes.values()):
        raise ValueError("changes: an object of keys with texts, or null for the default")
    refused = [key for key in changes if not key.startswith(_SETTABLE)]
    if refused:
        raise ValueError(
            f"{', '.join(refused)}: not from here; use mirror-ray set, or mirror-ray up with a changed file"
        )
    if not isinstance(dry_run, bool):
        raise ValueError(f"dry_run: {dry_run!r} is neither true nor false")  # noqa: TRY004 - as above
    found = await system.set(flow, changes, dry_run)
    return {"done": not dry_run, "text": str(found), **asdict(found)}


_ACTS: Final[dict[str, _Act]] = {"pause": _pause, "resume": _resume, "scale": _scale, "set": _set}


def _scope(body: dict[str, Any]) -> tuple[str, str | None, int | None]:
    topic = field(body, "topic", str) if body.get("topic") is not None else None
    partition = field(body, "partition", int) if body.get("partition") is not None else None
    if partition is not None and topic is None:
        raise ValueError("a partition needs its topic")
    return field(body, "flow", str), topic, partition
