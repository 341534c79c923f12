"""The Kubernetes API as a node uses it: one object at a time, and a watch."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

Object = dict[str, Any]

_NOT_FOUND, _CONFLICT, _GONE, _TOO_MANY, _SERVER_FAILED = 404, 409, 410, 429, 500
_LIMIT_BYTES = 16 << 20
_ANSWERS_WITHIN_S = 30
_WATCH_S = 240
_AGAIN_AFTER_S = 1.0
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


class ApiError(Exception):
    """The API server refused something."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_missing(self) -> bool:
        """Whether there is no such object."""
        return self.status == _NOT_FOUND

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered another time."""
        return self.status >= _SERVER_FAILED or self.status == _TOO_MANY

    @property
    def is_conflict(self) -> bool:
        """Whether it is there already, or is another one."""
        return self.status == _CONFLICT


#: What asking the API server may end in; another time it may not.
UNREACHABLE = (ApiError, aiohttp.ClientError, TimeoutError, OSError)


class NodeApi:
    """A connection to the API server, by a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self._server, self._tls, self._headers = _read(kubeconfig)
        #: The certificates of the cluster's authority.
        self.authority = certificate_authority(kubeconfig)

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, read_bufsize=_LIMIT_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, path: str, **parameters: str) -> Object:
        """An object, or a list."""
        return await self._ask("GET", path, parameters=parameters)

    async def create(self, path: str, body: Object) -> Object:
        """Make an object."""
        return await self._ask("POST", path, body=body)

    async def patch(self, path: str, body: Object, kind: str = STRATEGIC) -> Object:
        """Change an object."""
        return await self._ask("PATCH", path, body=body, content_type=kind)

    async def delete(self, path: str, body: Object) -> Object:
        """Delete an object."""
        return await self._ask("DELETE", path, body=body)

    async def follow(self, path: str, **parameters: str) -> AsyncIterator[tuple[str, Object]]:
        """All objects of a list (``LIST``, with the whole list), then each change, for ever.

        A watch that breaks goes on from where it was; one that is too old (410) begins with a list again.
        """
        version = ""
        while True:
            try:
                if not version:
                    listed = await self.get(path, **parameters)
                    version = listed["metadata"]["resourceVersion"]
                    yield "LIST", listed
                async for kind, changed in self._watch(path, parameters, version):
                    version = changed["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        yield kind, changed
            except ApiError as error:
                version = "" if error.status == _GONE else version
                await asyncio.sleep(_AGAIN_AFTER_S)
            except (aiohttp.ClientError, TimeoutError, OSError):
                await asyncio.sleep(_AGAIN_AFTER_S)

    async def _watch(self, path: str, parameters: dict[str, str], version: str) -> AsyncIterator[tuple[str, Object]]:
        asked = parameters | {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_S),
        }
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_ANSWERS_WITHIN_S, sock_read=_WATCH_S + _ANSWERS_WITHIN_S
        )
        async with self._session.get(self._server + path, params=asked, timeout=timeout) as answer:
            await _raise_for(answer)
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(event["object"].get("code", 0), event["object"].get("message", ""))
                yield event["type"], event["object"]

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        parameters: dict[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> Object:
        async with self._session.request(
            method,
            self._server + path,
            params=parameters,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type},
            timeout=aiohttp.ClientTimeout(total=_ANSWERS_WITHIN_S),
        ) as answer:
            await _raise_for(answer)
            found: Object = await answer.json()
            return found


async def _raise_for(answer: aiohttp.ClientResponse) -> None:
    if answer.ok:
        return
    text = await answer.text()
    try:
        message = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        message = text
    raise ApiError(answer.status, f"{answer.method} {answer.url.path}: {answer.status}: {message}")


def _read(kubeconfig: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """The server's address, what TLS to it takes, and headers that say who we are."""
    config = yaml.safe_load(kubeconfig.read_text())
    named = {kind: {one["name"]: one for one in config[f"{kind}s"]} for kind in ("context", "cluster", "user")}
    context = named["context"][config["current-context"]]["context"]
    cluster, user = named["cluster"][context["cluster"]]["cluster"], named["user"][context["user"]]["user"]
    tls = ssl.create_default_context(cadata=_content(kubeconfig, cluster, "certificate-authority"))
    certificate, key = (_content(kubeconfig, user, name) for name in ("client-certificate", "client-key"))
    if certificate and key:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(f"{certificate}\n{key}")
            file.flush()
            tls.load_cert_chain(file.name)
    return cluster["server"], tls, {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}


def certificate_authority(kubeconfig: Path) -> str:
    """The authority of a kubeconfig's first cluster, in PEM."""
    (cluster, *_) = yaml.safe_load(kubeconfig.read_text())["clusters"]
    return _content(kubeconfig, cluster["cluster"], "certificate-authority") or ""


def _content(kubeconfig: Path, where: Object, name: str) -> str | None:
    if f"{name}-data" in where:
        return base64.b64decode(where[f"{name}-data"]).decode()
    return (kubeconfig.parent / where[name]).read_text() if name in where else None
