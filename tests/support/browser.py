"""A real headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.debian import program
from tests.support.waiting import PATIENCE

_START_S = 30.0
_POLL_S = 0.05


class Page:
    """One tab. ``errors`` has what its scripts failed on."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def listen(self) -> None:
        """Take what the browser says, until it ends."""
        async for message in self._socket:
            reply = json.loads(message.data)
            if (answer := self._answers.pop(reply.get("id", 0), None)) is not None:
                answer.set_result(reply)
            elif reply.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(reply["params"]["exceptionDetails"]))
            elif reply.get("method") == "Log.entryAdded" and reply["params"]["entry"]["level"] == "error":
                self.errors.append(str(reply["params"]["entry"]))

    async def call(self, method: str, **parameters: Any) -> Any:
        """A command of the protocol."""
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        reply = await asyncio.wait_for(answer, _START_S)
        assert "error" not in reply, reply
        return reply["result"]

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        reply = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    async def wait(self, expression: str, timeout_s: float = 10.0) -> None:
        """Wait until an expression is true.

        Raises:
            AssertionError: It was not in time; with what the page shows.
        """
        timeout_s *= PATIENCE
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not await self.evaluate(f"!!({expression})"):  # noqa: ASYNC110 - a page has no event for us
                    await asyncio.sleep(_POLL_S)
                return
        shown = await self.evaluate("document.body.innerText")
        raise AssertionError(f"not within {timeout_s:g} s: {expression}; errors {self.errors}; the page: {shown}")

    async def open(self, url: str) -> None:
        """Go there, and wait until it is loaded."""
        await self.call("Page.navigate", url=url)
        await self.wait("document.readyState === 'complete'")

    async def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """Show it in a window like that."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def enter(self, element: str) -> None:
        """Press Enter on an element, a JavaScript expression, as somebody without a mouse does."""
        await self.evaluate(f"{element}.focus()")
        await self.press("Enter")

    async def press(self, key: str) -> None:
        """Press a key and let it go."""
        text = {"Enter": "\r", "Space": " "}.get(key, "")
        name = " " if key == "Space" else key
        for kind in ("keyDown", "keyUp"):
            given = {"text": text} if kind == "keyDown" and text else {}
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=key,
                windowsVirtualKeyCode=_CODES.get(key, 0),
                **given,
            )

    async def type(self, text: str) -> None:
        """Write into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def shoot(self) -> bytes:
        """A picture of the window, as PNG."""
        reply = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(reply["data"])


_CODES = {"Enter": 13, "Tab": 9, "Space": 32, "Escape": 27}


@contextlib.asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """A tab of a new browser; ``folder`` is for its profile, and may still be written to for a moment afterwards."""
    command = [
        program("chromium", "chromium"),
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *("--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"),
    ]
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=nowhere, stderr=nowhere)
    try:
        port = await _port(folder / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                (tab,) = [target for target in await answer.json() if target["type"] == "page"]
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                listening = asyncio.create_task(page.listen())
                for domain in ("Page", "Runtime", "Log"):
                    await page.call(f"{domain}.enable")
                yield page
                listening.cancel()
    finally:
        process.terminate()
        await process.wait()


async def _port(path: Path) -> int:
    """The browser writes its port into a file of two lines."""
    text = ""
    async with asyncio.timeout(_START_S * PATIENCE):
        while "\n" not in text:
            await asyncio.sleep(_POLL_S)
            text = await asyncio.to_thread(_text, path)
    return int(text.splitlines()[0])


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
