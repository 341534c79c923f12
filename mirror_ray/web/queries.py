"""What can be read: the JSON of every view, what Prometheus scrapes, and whether we are well."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from aiohttp import web

from mirror_ray.mirror import CoordinatorClient
from mirror_ray.model.audit import AuditQuery
from mirror_ray.model.errors import MirrorError
from mirror_ray.observe.exposition import CONTENT_TYPE, exposition
from mirror_ray.observe.system_snapshot import SystemSnapshot
from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.answer_cache import AuditReader, CachedAnswer, CachedAudit
from mirror_ray.web.authorization import holder_of, refuse, unknown
from mirror_ray.web.jsonable import dumps
from mirror_ray.web.schema_list import SchemaList, SchemaQuery
from mirror_ray.web.snapshot_cache import SnapshotCache

_T = TypeVar("_T")
_View = Callable[[SystemSnapshot, web.Request], object]

#: A snapshot this old is good enough for a question.
_FRESH_S: Final = 1.0
#: The list of all schemas may be long: of tens of thousands the coordinator passes it on for a second.
_SCHEMAS_FRESH_S: Final = 2.0
_SCHEMAS_REST: Final = 20.0
_EVENTS: Final = 200
_DAY_MS: Final = 86_400_000
#: Rows of one answer, unless it is asked for others.
_ROWS: Final = 10_000
#: The last time that JavaScript and Python can tell.
_LAST_MS: Final = 253_402_300_799_999


def routes(
    cache: SnapshotCache,
    client: CoordinatorClient,
    read_audit: AuditReader,
    access: GatewayAccess,
    *,
    version: str,
    most_partitions: int,
) -> list[web.RouteDef]:
    """Everything that changes nothing."""
    cached_groups = CachedAnswer(lambda: client.groups(None), _FRESH_S, time.monotonic)
    cached_schemas = CachedAnswer(lambda: _schema_list(client), _SCHEMAS_FRESH_S, time.monotonic, rest=_SCHEMAS_REST)
    cached_audit = CachedAudit(read_audit, clock=time.monotonic, wall_ms=lambda: int(time.time() * 1000))

    async def metrics(_: web.Request) -> web.Response:
        await cache.refresh(_FRESH_S)
        seen = cache.seen()
        text = exposition(seen.snapshot, version=version, up=seen.up, age_s=seen.age_s, most_partitions=most_partitions)
        answer = web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})
        answer.enable_compression()
        return answer

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    async def readyz(_: web.Request) -> web.Response:
        seen = cache.seen()
        return web.json_response({"coordinator": seen.up, "age_seconds": seen.age_s}, status=200 if seen.up else 503)

    async def groups(request: web.Request) -> web.Response:
        try:
            return _json(_of_flow(request, await cached_groups.get(), lambda row: row.flow))
        except MirrorError as error:
            return refuse(503, str(error))

    async def schemas(request: web.Request) -> web.Response:
        try:
            page = (await cached_schemas.get()).page(_wanted_schemas(request))
        except ValueError as error:
            return refuse(400, str(error))
        except MirrorError as error:
            return refuse(503, str(error))
        answer = _json(page.rows)
        answer.headers["Mirror-Ray-Total"] = str(page.total)
        return answer

    async def audit(request: web.Request) -> web.Response:
        try:
            wanted = _wanted(request)
            holder = holder_of(request, access)
            # It is read from Kafka: nobody who has no token may cause that, unless there are none at all.
            if holder is None and access.tokens.has_holders:
                return unknown(request, access)
            return _json(await (cached_audit.read if holder is None else read_audit)(wanted))
        except ValueError as error:
            return refuse(400, str(error))
        except MirrorError as error:
            return refuse(503, str(error))

    async def history(request: web.Request) -> web.Response:
        return _json(cache.history.of(request.query.get("flow")))

    return [
        web.get("/metrics", metrics),
        web.get("/healthz", healthz),
        web.get("/readyz", readyz),
        web.get("/api/v1/groups", groups),
        web.get("/api/v1/schemas", schemas),
        web.get("/api/v1/audit", audit),
        web.get("/api/v1/history", history),
        *(web.get(f"/api/v1/{name}", _shown(cache, view)) for name, view in _VIEWS.items()),
    ]


def _shown(cache: SnapshotCache, view: _View) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        await cache.refresh(_FRESH_S)
        seen = cache.seen()
        if seen.snapshot is None:
            return refuse(503, "the coordinator has not answered yet: mirror-ray status says whether it runs")
        try:
            answer = _json(view(seen.snapshot, request))
        except ValueError as error:
            return refuse(400, str(error))
        answer.headers["Mirror-Ray-Age"] = f"{seen.age_s:.1f}"
        return answer

    return handler


def _partitions(snapshot: SystemSnapshot, request: web.Request) -> object:
    topic = request.query.get("topic")
    there = _of_flow(request, snapshot.partitions, lambda row: row.flow)
    return _rows(request, [row for row in there if topic in (None, row.topic)])


_VIEWS: Final[dict[str, _View]] = {
    "status": lambda snapshot, _: snapshot.system,
    "topics": lambda snapshot, request: _rows(request, _of_flow(request, snapshot.topics, lambda row: row.flow)),
    "partitions": _partitions,
    "events": lambda snapshot, request: snapshot.events[-_number(request, "limit", _EVENTS) :],
    "gaps": lambda snapshot, request: _of_flow(request, snapshot.gaps, lambda row: row.flow),
    "problems": lambda snapshot, _: snapshot.problems,
    "replicators": lambda snapshot, _: snapshot.system.replicators,
}


def _wanted(request: web.Request) -> AuditQuery:
    """By ``since_ms``, ``flow``, ``cluster``, ``kind`` (which may be given again) and ``limit``."""
    day_ago_ms = int(time.time() * 1000) - _DAY_MS
    return AuditQuery(
        since_ms=_number(request, "since_ms", day_ago_ms, _LAST_MS),
        flow=request.query.get("flow"),
        cluster=request.query.get("cluster"),
        kinds=frozenset(request.query.getall("kind", ())),
        limit=min(_ROWS, _number(request, "limit", _EVENTS)),
    )


async def _schema_list(client: CoordinatorClient) -> SchemaList:
    return await asyncio.to_thread(SchemaList, await client.schemas(None))


def _wanted_schemas(request: web.Request) -> SchemaQuery:
    """By ``flow``, ``search``, ``problems``, ``offset`` and ``limit``."""
    problems = request.query.get("problems", "false")
    if problems not in ("true", "false"):
        raise ValueError(f"problems={problems[:100]!r} is neither true nor false")
    return SchemaQuery(
        flow=request.query.get("flow"),
        search=request.query.get("search", ""),
        problems=problems == "true",
        offset=_number(request, "offset", 0, least=0),
        limit=min(_ROWS, _number(request, "limit", _ROWS)),
    )


def _of_flow(request: web.Request, values: Iterable[_T], flow_of: Callable[[_T], str]) -> list[_T]:
    flow = request.query.get("flow")
    return [value for value in values if flow in (None, flow_of(value))]


def _rows(request: web.Request, values: list[_T]) -> list[_T]:
    return values[: _number(request, "limit", _ROWS)]


def _number(request: web.Request, name: str, default: int, most: int = 2**31 - 1, *, least: int = 1) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and least <= int(text) <= most):
        raise ValueError(f"{name}={text[:100]!r} is not a number from {least} to {most}")
    return int(text)


def _json(value: object) -> web.Response:
    answer = web.Response(text=dumps(value), content_type="application/json")
    answer.enable_compression()
    return answer
