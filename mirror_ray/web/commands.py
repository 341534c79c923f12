"""Commands that clients with a token may give: those that are declared so. The audit log and the events have them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

from aiohttp import web

from mirror_ray.config.difference import SettingsDifference
from mirror_ray.mirror import VERBS, CoordinatorClient
from mirror_ray.model.errors import MirrorError
from mirror_ray.verb import Verb
from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.authorization import may_act, refuse
from mirror_ray.web.request_bodies import body_of, field
from mirror_ray.web.tokens import TokenHolder

#: What a token may set. Not code to be run (transforms, policy classes), nor clusters, credentials and the gateway.
_SETTABLE: Final = (
    *("topics.", "groups.", "limits.", "heartbeats.", "offset_syncs.", "statistics."),
    *("trouble.", "alerts.", "cost.", "elastic.", "enabled", "replicators"),
)
_KINDS: Final = {"str": str, "int": int}


def routes(client: CoordinatorClient, access: GatewayAccess) -> list[web.RouteDef]:
    """``POST /api/v1/NAME`` for each command."""
    return [web.post(f"/api/v1/{verb.name}", _handler(client, access, verb)) for verb in VERBS.values() if verb.web]


def _handler(
    client: CoordinatorClient, access: GatewayAccess, verb: Verb
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        holder = may_act(request, access)
        if isinstance(holder, web.Response):
            return holder
        try:
            body = await body_of(request, access.bounds)
            args = _set_arguments(body) if verb is VERBS["set"] else _arguments(verb, body)
            answer = await client.by(_operator(request, holder)).send(verb, args)
        except ValueError as error:
            return refuse(400, str(error))
        except MirrorError as error:
            return refuse(409, str(error))
        if isinstance(answer, SettingsDifference):
            return web.json_response({"done": not args[-1], "text": str(answer), **asdict(answer)})
        return web.json_response({"done": True})

    return handler


def _operator(request: web.Request, holder: TokenHolder) -> str:
    address = request.remote or "unknown"
    return f"page {holder.user}@{address}" if holder.user else f"page {address}"


def _arguments(verb: Verb, body: dict[str, Any]) -> tuple[object, ...]:
    """A command's arguments, by its parameters' names and types; those that may be None may be left out."""
    values: dict[str, object] = {}
    for name, kind in verb.kinds().items():
        optional = kind.endswith(" | None") and body.get(name) is None
        values[name] = None if optional else field(body, name, _KINDS[kind.removesuffix(" | None")])
    if values.get("partition") is not None and values["topic"] is None:
        raise ValueError("a partition needs its topic")
    return tuple(values.values())


def _set_arguments(body: dict[str, Any]) -> tuple[object, ...]:
    flow = field(body, "flow", str) if body.get("flow") is not None else None
    changes, dry_run = body.get("changes"), body.get("dry_run", False)
    if not isinstance(changes, dict) or not all(isinstance(value, str | None) for value in changes.values()):
        raise ValueError("changes: an object of keys with texts, or null for the default")
    refused = [key for key in changes if not key.startswith(_SETTABLE)]
    if refused:
        raise ValueError(
            f"{', '.join(refused)}: not from here; use mirror-ray set, or mirror-ray up with a changed file"
        )
    if not isinstance(dry_run, bool):
        raise ValueError(f"dry_run: {dry_run!r} is neither true nor false")  # noqa: TRY004 - as above
    return flow, changes, dry_run
