"""What a test may do to a registry's answers: late ones, errors, none at all; and counts of what was asked."""

from __future__ import annotations

import asyncio
import base64
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

#: Paths of the tests' own, beside the registry's.
FAULTS_PATH, REQUESTS_PATH = "/_faults", "/_requests"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Fault:
    """What happens to requests from now on; without ``status`` and ``drop`` they are answered, after ``delay_ms``."""

    #: Answered in place of the registry, with ``body`` and ``headers``.
    status: int | None = None
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay_ms: int = 0
    #: The connection is closed without an answer.
    drop: bool = False
    #: Whether the registry does what was asked before the fault takes its answer away.
    carried_out: bool = False
    #: Of these methods only; empty: of all.
    methods: tuple[str, ...] = ()
    #: Of paths in which this regular expression is found.
    path: str = ""
    #: For this many requests; 0: until it is cleared.
    times: int = 0

    def hits(self, request: web.Request) -> bool:
        """Whether a request is among those."""
        return (not self.methods or request.method in self.methods) and bool(re.search(self.path, request.raw_path))


class FaultyAnswers:
    """The faults of one server, and what it was asked."""

    def __init__(self, user_info: str = "") -> None:
        """``user_info``: ``user:password`` that every request has to show; empty: none."""
        self.fault: Fault | None = None
        self._left = 0
        self._authorization = f"Basic {base64.b64encode(user_info.encode()).decode()}" if user_info else ""
        self._path = re.compile("")
        #: How often what was asked, by method and path.
        self.requests: Counter[str] = Counter()
        #: Requests under way, and the most that ever were at once.
        self.open, self.most_open = 0, 0

    def set(self, fault: Fault | None) -> None:
        """Another fault in place of the one before; None: none."""
        self.fault, self._left = fault, fault.times if fault is not None else 0

    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """What a request is answered, where ``handler`` is the registry."""
        self.requests[f"{request.method} {request.raw_path}"] += 1
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            return await self._answer(request, handler)
        finally:
            self.open -= 1

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        fault = self.fault
        if fault is None or not fault.hits(request):
            return await self._registry(request, handler)
        if fault.times:
            self._left -= 1
            if self._left <= 0:
                self.fault = None
        if fault.delay_ms:
            await asyncio.sleep(fault.delay_ms / 1000)
        if fault.status is None and not fault.drop:
            return await self._registry(request, handler)
        if fault.carried_out:
            await self._registry(request, handler)
        if fault.drop:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the fault's")
        return web.Response(status=fault.status or 500, text=fault.body, headers=fault.headers)

    async def _registry(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._authorization and request.headers.get("Authorization") != self._authorization:
            return web.json_response({"error_code": 401, "message": "Unauthorized"}, status=401)
        return await handler(request)

    async def admin(self, request: web.Request) -> web.StreamResponse:
        """Answer a request to one of the tests' own paths."""
        if request.path == REQUESTS_PATH:
            if request.method == "DELETE":
                self.requests.clear()
                self.most_open = 0
            counts = {"total": self.requests.total(), "most_open": self.most_open, "by_path": dict(self.requests)}
            return web.json_response(counts)
        if request.method == "DELETE":
            self.set(None)
        elif request.method == "POST":
            self.set(fault_of(await request.json()))
        return web.json_response({"fault": repr(self.fault)})


def fault_of(fields: dict[str, Any]) -> Fault:
    """A fault as JSON has it."""
    return Fault(**{**fields, "methods": tuple(fields.get("methods", ()))})


def make_app(answers: FaultyAnswers, registry: Handler) -> web.Application:
    """A server that answers as ``registry`` does, but for the faults."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path in {FAULTS_PATH, REQUESTS_PATH}:
            return await answers.admin(request)
        return await answers.answer(request, registry)

    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", handle)
    return app
