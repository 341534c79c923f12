"""Asks a schema registry over HTTP: several URLs, time-outs, attempts, a rate, credentials."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from mirror_ray.config.settings import RegistrySettings
from mirror_ray.kafka.oauth import OAuthBearer, OidcTokens
from mirror_ray.kafka.security import tls_context
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError
from mirror_ray.registry.answers import RegistryAnswerError, shown

if TYPE_CHECKING:
    # Half a second to import, for those who use it.
    import aiohttp

_MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
#: Requests under way at once.
_CONCURRENCY: Final = 16
_ATTEMPTS: Final = 4
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.2, 5.0
#: A registry that asks us to wait for longer is asked again in the next round.
_LONGEST_WAIT_S: Final = 30.0
#: The largest answers list all schemas.
_ANSWER_LIMIT_BYTES: Final = 256 << 20
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
_DENIED: Final = frozenset({401, 403})


class RegistryUnreachableError(ClusterUnreachableError):
    """No URL of a registry answers, or it does not let us in."""


class RegistryRefusedError(MirrorError):
    """A registry refused a request: ``status`` of HTTP, ``code`` of its own (0: it gave none)."""

    def __init__(self, text: str, status: int, code: int = 0) -> None:
        super().__init__(text, status, code)
        self.status, self.code = status, code

    def __str__(self) -> str:
        return str(self.args[0])


class RegistryClient:
    """One registry. An async context manager; requests may be made at the same time.

    A request that only asks is tried again on the next URL; so is one that registers or sets something, since all of
    them can be made twice.
    """

    def __init__(self, alias: str, settings: RegistrySettings, *, client_id: str = "mirror-ray") -> None:
        """``alias``: of the cluster that the registry belongs to."""
        self.alias, self._settings, self._client_id = alias, settings, client_id
        self._urls = [url.rstrip("/") for url in settings.urls]
        # aiohttp's own trust_env finds them out for each request, in threads: that doubles what a request costs.
        self._proxies = {url: _proxy(url) for url in self._urls}
        self._slots = asyncio.Semaphore(_CONCURRENCY)
        self._next_s = 0.0
        self._bearer = _bearer(alias, settings)
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession | None = None
        #: Requests that were sent.
        self.requests = 0

    async def __aenter__(self) -> Self:
        import aiohttp

        context = tls_context(f"{self.alias}.schema.registry", self._settings.ssl)
        connector = aiohttp.TCPConnector(limit=_CONCURRENCY, ssl=context)
        timeout = aiohttp.ClientTimeout(total=self._settings.request_timeout_ms / 1000)
        self._session = await self._stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, timeout=timeout)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def get(self, *path: object, **query: str | int) -> Any:
        """GET; the pieces of ``path`` are quoted. Raises as ``request`` does."""
        return await self.request("GET", path, query=query)

    async def find(self, *path: object, **query: str | int) -> Any:
        """GET; None where the registry has no such thing. Raises as ``request`` does."""
        try:
            return await self.get(*path, **query)
        except RegistryRefusedError as error:
            if error.status == 404:
                return None
            raise

    async def request(
        self,
        method: str,
        path: tuple[object, ...],
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | int] | None = None,
    ) -> Any:
        """Send a request, and return its answer's JSON.

        Raises:
            RegistryUnreachableError: No URL answers, or the credentials are refused.
            RegistryRefusedError: It can't be done; the text has what the registry says.
            RegistryAnswerError: The answer is no JSON.
        """
        tail = "/" + "/".join(quote(str(piece), safe="") for piece in path)
        if query:
            tail += f"?{urlencode(query)}"
        failed, pause_s = "", _FIRST_PAUSE_S
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(pause_s * (0.5 + random.random()))  # noqa: S311 - so that not all come at once
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)
            for url in list(self._urls):
                try:
                    status, wait_s, text = await self._send(method, url, tail, body)
                except (OSError, TimeoutError, ValueError) as error:
                    failed = f"{url}: {str(error) or type(error).__name__}"
                    self._last(url)
                    continue
                if status not in _BUSY:
                    return self._answer(method, tail, status, text)
                failed = f"{url}: status {status}{_message(text)[1]}"
                pause_s = max(pause_s, min(wait_s, _LONGEST_WAIT_S))
                self._last(url)
        raise RegistryUnreachableError(
            f"the schema registry of {self.alias} does not answer: {failed}; check {self.alias}.schema.registry.url"
        )

    def _last(self, url: str) -> None:
        """Ask the others first from now on."""
        self._urls.remove(url)
        self._urls.append(url)

    async def _send(self, method: str, url: str, tail: str, body: Mapping[str, Any] | None) -> tuple[int, float, bytes]:
        if self._session is None:
            raise RuntimeError("the client was not entered")
        headers = {"Accept": f"{_MEDIA_TYPE}, application/json", "User-Agent": self._client_id}
        headers |= await self._authorization()
        data = None
        if body is not None:
            headers["Content-Type"] = _MEDIA_TYPE
            data = json.dumps(body).encode()
        async with self._slots:
            await self._keep_to_rate()
            self.requests += 1
            import aiohttp

            try:
                async with self._session.request(
                    method, url + tail, data=data, headers=headers, allow_redirects=False, proxy=self._proxies[url]
                ) as response:
                    text = await response.content.read(_ANSWER_LIMIT_BYTES + 1)
                    while len(text) <= _ANSWER_LIMIT_BYTES and (more := await response.content.read(1 << 20)):
                        text += more
                    return response.status, _retry_after_s(response.headers.get("Retry-After")), text
            except aiohttp.ClientError as error:
                raise ConnectionError(str(error) or type(error).__name__) from error

    async def _keep_to_rate(self) -> None:
        rate = self._settings.requests_per_second
        if rate <= 0:
            return
        now_s = asyncio.get_running_loop().time()
        self._next_s = max(now_s, self._next_s + 1 / rate)
        await asyncio.sleep(self._next_s - now_s)

    async def _authorization(self) -> dict[str, str]:
        settings = self._settings
        try:
            if settings.user_info is not None:
                return {"Authorization": f"Basic {base64.b64encode(settings.user_info.reveal().encode()).decode()}"}
            if settings.bearer_token is not None:
                return {"Authorization": f"Bearer {settings.bearer_token.reveal()}"}
        except LookupError as error:
            raise RegistryUnreachableError(f"the schema registry of {self.alias}: {error.args[0]}") from error
        return {"Authorization": f"Bearer {await self._bearer()}"} if self._bearer is not None else {}

    def _answer(self, method: str, tail: str, status: int, text: bytes) -> Any:
        what = f"the schema registry of {self.alias}: {method} {tail}"
        if status in _DENIED:
            raise RegistryUnreachableError(
                f"{what}: refused with status {status}{_message(text)[1]}; check the credentials under "
                f"{self.alias}.schema.registry and what they may do"
            )
        if 300 <= status < 400:
            raise RegistryRefusedError(f"{what}: a redirect ({status}), which is not followed; name its end", status)
        if status >= 400:
            code, message = _message(text)
            raise RegistryRefusedError(f"{what}: status {status}{message}", status, code)
        if not text.strip():
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RegistryAnswerError(f"{what}: the answer is no JSON: {shown(text[:80])}") from error


def _bearer(alias: str, settings: RegistrySettings) -> Callable[[], Any] | None:
    if settings.token_endpoint_url is None or settings.client_id is None or settings.client_secret is None:
        return None
    tokens = OidcTokens(
        url=settings.token_endpoint_url,
        client_id=settings.client_id,
        client_secret=settings.client_secret,
        scope=settings.scope,
        allow_http=settings.allow_http,
    )
    return OAuthBearer(cluster=alias, principal=settings.client_id, tokens=tokens).token


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for a URL."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc.rpartition("@")[2]) else getproxies().get(parts.scheme)


def _retry_after_s(value: str | None) -> float:
    return float(value) if value is not None and value.isascii() and value.isdecimal() and len(value) < 10 else 0.0


def _message(text: bytes) -> tuple[int, str]:
    """The registry's own error code, and what it says."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return 0, ""
    if not isinstance(answer, dict):
        return 0, ""
    code, message = answer.get("error_code"), answer.get("message")
    number = code if isinstance(code, int) else 0
    return number, f" ({number}: {shown(message)})" if isinstance(message, str) else ""
