"""What can be done from the page. Whoever has the token may; what was done, the audit log and the events tell."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

from aiohttp import web

from mirror_ray.model.errors import MirrorError
from mirror_ray.web.guard import denied, refuse
from mirror_ray.web.port import System

#: What it returns is the answer; None: it is done.
_Act = Callable[[System, dict[str, Any]], Awaitable[dict[str, Any] | None]]
#: Bytes of a body; an act is a few words.
_LARGEST: Final = 65_536
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


def routes(system: System, token: str | None) -> list[web.RouteDef]:
    """Everything that changes something."""
    return [web.post(f"/api/v1/{name}", _guarded(system, token, act)) for name, act in _ACTS.items()]


def _guarded(system: System, token: str | None, act: _Act) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        if (refusal := denied(request, token)) is not None:
            return refusal
        try:
            operator = f"page {request.remote or 'unknown'}"
            answer = await act(system.by(operator), _body(await request.content.read(_LARGEST)))
        except ValueError as error:
            return refuse(400, str(error))
        except MirrorError as error:
            return refuse(409, str(error))
        return web.json_response(answer or {"done": True})

    return handler


def _body(text: bytes) -> dict[str, Any]:
    body = json.loads(text or b"{}")
    if not isinstance(body, dict):
        raise ValueError("the body is not a JSON object")  # noqa: TRY004 - what was sent is wrong, not our code
    return body


async def _pause(system: System, body: dict[str, Any]) -> None:
    await system.pause(*_scope(body))


async def _resume(system: System, body: dict[str, Any]) -> None:
    await system.resume(*_scope(body))


async def _scale(system: System, body: dict[str, Any]) -> None:
    await system.scale(_field(body, "replicators", int))


async def _set(system: System, body: dict[str, Any]) -> dict[str, Any]:
    flow = _field(body, "flow", str) if body.get("flow") is not None else None
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
    topic = _field(body, "topic", str) if body.get("topic") is not None else None
    partition = _field(body, "partition", int) if body.get("partition") is not None else None
    if partition is not None and topic is None:
        raise ValueError("a partition needs its topic")
    return _field(body, "flow", str), topic, partition


def _field(body: dict[str, Any], name: str, kind: type) -> Any:
    value = body.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        what = "a number" if kind is int else "a name"
        raise ValueError(f"{name}: {value!r} is not {what}")  # noqa: TRY004 - as above
    return value
