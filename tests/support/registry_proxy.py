"""A proxy in front of a registry, whose answers a test can delay, replace or take away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Thread
from typing import Self
from urllib.parse import urlsplit

from aiohttp import ClientSession, ClientTimeout, web
from yarl import URL

from mirror_ray.lab.devcluster.ports import free_port
from tests.support.registry_faults import Fault, FaultyAnswers, make_app

#: Those that change something.
WRITING = ("POST", "PUT", "DELETE", "PATCH")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-encoding"})


class RegistryProxy:
    """On loopback, in a thread of its own; a context manager. Faults hold until `heal` or another one.

    ``answers`` has what was asked (`FaultyAnswers.requests`) and takes any `Fault`.
    """

    def __init__(self, upstream: str, *, user_info: str = "") -> None:
        """``upstream``: the registry's URL. ``user_info``: ``user:password`` that every request has to show."""
        self._upstream = urlsplit(upstream)
        self.answers = FaultyAnswers(user_info)
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None
        self._session: ClientSession | None = None

    @property
    def url(self) -> str:
        """As ``schema.registry.url`` has it."""
        return f"http://127.0.0.1:{self.port}{self._upstream.path}"

    def __enter__(self) -> Self:
        self._thread = Thread(target=self._loop.run_forever, name="registry-proxy", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10.0)
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10.0)
        asyncio.run_coroutine_threadsafe(_end_tasks(), self._loop).result(10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()

    def down(self) -> None:
        """Refuse connections, and end those that are there."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(10.0)

    def up(self) -> None:
        """Listen again after `down`."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10.0)

    def heal(self) -> None:
        """Let requests through again."""
        self.answers.set(None)

    def slow(self, delay_ms: int, methods: Sequence[str] = ()) -> None:
        """Answer late."""
        self.answers.set(Fault(delay_ms=delay_ms, methods=tuple(methods)))

    def fail(self, status: int = 503, methods: Sequence[str] = (), *, times: int = 0) -> None:
        """Answer an error as load balancers do, without the registry."""
        body = "<html><body>no server is available</body></html>"
        self.answers.set(Fault(status=status, body=body, methods=tuple(methods), times=times))

    def too_many(self, retry_after_s: int, times: int = 1) -> None:
        """Answer 429 with ``Retry-After``."""
        headers = {"Retry-After": str(retry_after_s)}
        self.answers.set(Fault(status=429, body="slow down", headers=headers, times=times))

    def nonsense(self, body: str = "<html>not a registry</html>", methods: Sequence[str] = ()) -> None:
        """Answer 200 with something that is no registry's."""
        self.answers.set(Fault(status=200, body=body, methods=tuple(methods)))

    def read_only(self) -> None:
        """Refuse what changes something as a registry does that is READONLY."""
        body = '{"error_code":42205,"message":"Subject is in read-only mode"}'
        self.answers.set(Fault(status=422, body=body, methods=WRITING))

    def lose_answers(self, methods: Sequence[str] = WRITING, *, times: int = 0) -> None:
        """Let the registry do what it is asked, and close the connection in place of its answer."""
        self.answers.set(Fault(drop=True, carried_out=True, methods=tuple(methods), times=times))

    async def _open(self) -> None:
        self._session = ClientSession(timeout=ClientTimeout(total=60.0))

    async def _close(self) -> None:
        await self._shut()
        if self._session is not None:
            await self._session.close()

    async def _listen(self) -> None:
        if self._runner is None:
            self._runner = web.AppRunner(make_app(self.answers, self._forward), access_log=None, shutdown_timeout=0.1)
            await self._runner.setup()
            await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def _shut(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        url = URL(f"http://{self._upstream.netloc}{request.raw_path}", encoded=True)
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _OWN_HEADERS}
        async with self._session.request(
            request.method, url, data=await request.read(), headers=headers, allow_redirects=False
        ) as response:
            passed = {key: value for key, value in response.headers.items() if key.lower() not in _OWN_HEADERS}
            return web.Response(status=response.status, body=await response.read(), headers=passed)


async def _end_tasks() -> None:
    """End what still answers somebody who does not listen any more."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
