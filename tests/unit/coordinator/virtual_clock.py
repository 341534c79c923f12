"""An event loop whose clock jumps to the next timer: nobody sleeps, and the machine's load changes nothing."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

#: How long threads are waited for at a time, in real seconds.
_THREADS_S = 0.001


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for threads alone; what else would be waited for is over at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = time.monotonic()
        #: Calls that threads are working on.
        self.working = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.working or timeout is None:
            return super().select(_THREADS_S if timeout is None else min(timeout, _THREADS_S))
        ready = super().select(0)
        if not ready:
            self.now_s += max(0.0, timeout)
        return ready


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """``time`` stands still while anything runs, and jumps to the next timer when nothing does."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def stand_still(self, seconds: float) -> None:
        """Let time go by without running anything, as when the process is stopped."""
        self._jumping.now_s += seconds

    def run_in_executor(  # type: ignore[override]  # its stub has ParamSpecs
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        self._jumping.working += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._on_done)
        return future

    def _on_done(self, _: asyncio.Future[Any]) -> None:
        self._jumping.working -= 1


def virtual_loop() -> VirtualClockLoop:
    """The loop that the test runs in."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualClockLoop)
    return loop


def now_s() -> float:
    """Seconds on the clock of the loop that runs."""
    return asyncio.get_running_loop().time()
