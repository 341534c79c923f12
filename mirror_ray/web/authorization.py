"""Who may do what: tokens for acts and, where that is asked, for reading; a page of another origin gets nothing."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Middleware

from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.tokens import TokenHolder

_log = logging.getLogger(__name__)

#: Everything comes from us, nothing inline; nobody may frame the page.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    # Whoever looks for old versions learns none.
    "Server": "mirror-ray",
}
#: What is answered whoever asks: whether we live, and the page itself, which then asks for a token.
_OPEN: Final = frozenset({"/", "/healthz", "/readyz"})
_ASSETS: Final = "/assets/"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def refuse(status: int, text: str) -> web.Response:
    """An error that names the thing and the next step, as JSON."""
    headers = {"WWW-Authenticate": "Bearer"} if status == web.HTTPUnauthorized.status_code else None
    return web.json_response({"error": text}, status=status, headers=headers)


def guard(access: GatewayAccess, *, loopback: bool) -> Middleware:
    """A middleware: safe headers on every answer, nothing that is no text, and reading by token where that is asked.

    ``loopback``: the server listens there alone. Then a name that is none of this machine's comes from a page that had
    its own name point here, and is refused.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not is_text(request.path_qs) or not is_text(f"{request.path}{request.query}"):
            return with_safe_headers(refuse(400, "the address is no UTF-8"))
        if loopback and not _is_local(request.host):
            return with_safe_headers(
                refuse(403, f"{request.host} is not this machine: use 127.0.0.1, or set gateway.host")
            )
        if access.needs_token_to_read and not _is_open(request.path) and holder_of(request, access) is None:
            return with_safe_headers(unknown(request, access))
        return with_safe_headers(await _answer(request, handler))

    return middleware


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return refuse(error.status, f"{request.path}: {error.reason}")
    except (web.RequestPayloadError, HttpProcessingError):
        return refuse(400, "the body can't be read: it is not in the encoding that its headers name")
    except ConnectionError:
        raise
    except Exception as error:
        _log.error("%s can't be answered: %r", request.path, error)
        _log.debug("by this", exc_info=True)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already") from error
        return refuse(500, "this can't be answered: the gateway's log says why")


def with_safe_headers(answer: web.StreamResponse) -> web.StreamResponse:
    """The same answer, with the headers that every one has."""
    if not answer.prepared:
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
    return answer


def safe_headers() -> dict[str, str]:
    """For an answer that is sent bit by bit."""
    return dict(_HEADERS)


def is_text(value: str) -> bool:
    """Whether a string is Unicode: bytes that are no UTF-8 are decoded into halves of surrogate pairs."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith(_ASSETS)


def _is_local(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    name = name.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def holder_of(request: web.Request, access: GatewayAccess) -> TokenHolder | None:
    """Whose token the request carries; None: nobody's."""
    return access.tokens.holder(request.headers.getall("Authorization", ()))


def unknown(request: web.Request, access: GatewayAccess) -> web.Response:
    """The answer to somebody who has no right token. A page that was opened without one is not counted."""
    if "Authorization" in request.headers or request.method != "GET":
        access.unknown.count(request.remote or "an unknown address")
    return refuse(401, "the token is not right: it is gateway.token, or one of gateway.tokens, of the configuration")


def may_act(request: web.Request, access: GatewayAccess) -> TokenHolder | web.Response:
    """Who asks for an act, or why it is refused: it needs a token, and JSON, which no foreign form can send."""
    if not access.tokens.lets_act:
        return refuse(403, "acts are off: set gateway.token in the configuration and run mirror-ray up")
    holder = holder_of(request, access)
    if holder is None:
        return unknown(request, access)
    if not holder.acts:
        return refuse(403, f"{holder.user} may look, and not act: gateway.tokens says what each may")
    if request.content_type != "application/json":
        return refuse(415, "send JSON, with Content-Type: application/json")
    return holder
