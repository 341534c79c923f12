"""Who may do what: acts need the token, and a page of another origin gets nothing."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

#: Everything comes from us, nothing inline; nobody may frame the page.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def refuse(status: int, text: str) -> web.Response:
    """An error that names the thing and the next step, as JSON."""
    return web.json_response({"error": text}, status=status)


def guard(*, loopback: bool) -> Middleware:
    """A middleware: safe headers on every answer.

    ``loopback``: the server listens there alone. Then a name that is none of this machine's comes from a page that had
    its own name point here, and is refused.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: _Handler) -> web.StreamResponse:
        if loopback and not _is_local(request.host):
            return _safe(refuse(403, f"{request.host} is not this machine: use 127.0.0.1, or set gateway.host"))
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            answer = refuse(error.status, f"{request.path}: {error.reason}")
        return _safe(answer)

    return middleware


def _safe(answer: web.StreamResponse) -> web.StreamResponse:
    if not answer.prepared:
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
    return answer


def safe_headers() -> dict[str, str]:
    """For an answer that is sent bit by bit."""
    return dict(_HEADERS)


def _is_local(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    name = name.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def denied(request: web.Request, token: str | None) -> web.Response | None:
    """Why an act is refused; None: it may be done. It needs the token, and JSON, which no foreign form can send."""
    if token is None:
        return refuse(403, "acts are off: set gateway.token in the configuration and run mirror-ray up")
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), token.encode()):
        return refuse(401, "the token is not right: it is gateway.token of the configuration")
    if request.content_type != "application/json":
        return refuse(415, "send JSON, with Content-Type: application/json")
    return None
