"""Probes: when a container is asked, and what becomes of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

Object = dict[str, Any]
#: Runs a command in the container: its exit code (None: it took too long) and what it printed.
Execute = Callable[[list[str], float], Awaitable[tuple[int | None, str]]]

_SHOWN = 1024


@dataclass
class ProbeState:
    """What the answers so far make of a probe: it changes when enough in a row say the same."""

    success_threshold: int
    failure_threshold: int
    #: What is taken for true; none: nothing yet.
    holds: bool | None = None
    _same: int = 0
    _last: bool | None = None

    def take(self, *, success: bool) -> bool:
        """Take an answer; whether what holds is another thing now."""
        self._same = self._same + 1 if success == self._last else 1
        self._last = success
        if self._same < (self.success_threshold if success else self.failure_threshold):
            return False
        changed = self.holds != success
        self.holds = success
        return changed


def named_port(container: Object, port: str | int) -> int:
    """A port's number, which may be named among the container's.

    Raises:
        ValueError: The container has no port of this name.
    """
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for one in container.get("ports", []):
        if one.get("name") == port:
            return int(one["containerPort"])
    raise ValueError(f"couldn't find port: {port} in container {container['name']}")


async def ask(probe: Object, container: Object, address: str, execute: Execute) -> tuple[bool, str]:
    """Ask once: whether it went well, and what to tell if it did not."""
    timeout_s = float(probe.get("timeoutSeconds", 1))
    try:
        match probe:
            case {"exec": {"command": command}}:
                return await _ask_command(command, timeout_s, execute)
            case {"httpGet": request}:
                return await _ask_http(request, container, address, timeout_s)
            case {"tcpSocket": target}:
                port = named_port(container, target["port"])
                return await _ask_tcp(target.get("host") or address, port, timeout_s)
            case _:
                return False, f"no such kind of probe here: {', '.join(probe)}"
    except (OSError, aiohttp.ClientError, ValueError) as error:
        return False, str(error) or type(error).__name__


async def _ask_command(command: list[str], timeout_s: float, execute: Execute) -> tuple[bool, str]:
    code, printed = await execute(command, timeout_s)
    return code == 0, f"command timed out after {timeout_s:g}s" if code is None else printed[:_SHOWN]


async def _ask_http(request: Object, container: Object, address: str, timeout_s: float) -> tuple[bool, str]:
    host, port = request.get("host") or address, named_port(container, request["port"])
    url = f"{request.get('scheme', 'HTTP').lower()}://{host}:{port}/{request.get('path', '/').lstrip('/')}"
    headers = {"User-Agent": "kube-probe/1.34"} | {one["name"]: one["value"] for one in request.get("httpHeaders", [])}
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, headers=headers, ssl=False, allow_redirects=False) as answer,
        ):
            return answer.status < 400, f"HTTP probe failed with statuscode: {answer.status}"
    except TimeoutError:
        return False, f'Get "{url}": context deadline exceeded'


async def _ask_tcp(host: str, port: int, timeout_s: float) -> tuple[bool, str]:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), timeout_s)
    except TimeoutError:
        return False, f"dial tcp {host}:{port}: i/o timeout"
    writer.close()
    return True, ""


async def keep_asking(
    probe: Object,
    *,
    asked: Callable[[], Awaitable[tuple[bool, str]]],
    changed: Callable[[bool], Awaitable[None]],
    failed: Callable[[str], None],
    initially: bool | None,
) -> None:
    """Ask for as long as the container runs; each change, and each failure, is told."""
    state = ProbeState(probe.get("successThreshold", 1), probe.get("failureThreshold", 3), initially)
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    while True:
        success, message = await asked()
        if not success:
            failed(message)
        if state.take(success=success):
            await changed(success)
        await asyncio.sleep(probe.get("periodSeconds", 10))
