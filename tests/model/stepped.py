"""An event loop that runs only when it is told to, by a clock of the world's, so that all happens in one order."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any, TypeVarTuple

Ts = TypeVarTuple("Ts")


class SteppedLoop(asyncio.AbstractEventLoop):
    """The loop of one process. ``run`` does what is ready and due, and nothing happens in between.

    Several may run inside each other: while a process stands still in the middle of a step, others go on.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = 0
        self._runs = False
        self._errors: list[BaseException] = []

    def run(self, goes_on: Callable[[], bool]) -> None:
        """Do all that is ready, and what follows from it, while ``goes_on`` says so.

        Raises:
            BaseException: What a callback raised.
        """
        if self._runs:
            return
        with self.inside():
            while goes_on() and self._next():
                self._ready.popleft()._run()
                if self._errors:
                    raise self._errors.pop()

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """As if called by one of its callbacks."""
        around, before = asyncio._get_running_loop(), self._runs
        asyncio._set_running_loop(self)
        self._runs = True
        try:
            yield
        finally:
            self._runs = before
            asyncio._set_running_loop(around)

    def _next(self) -> bool:
        while self._timers and (self._timers[0][0] <= self._now_s() or self._timers[0][2].cancelled()):
            self._ready.append(heapq.heappop(self._timers)[2])
        while self._ready and self._ready[0].cancelled():
            self._ready.popleft()
        return bool(self._ready)

    # ---- what asyncio asks of a loop

    def time(self) -> float:
        return self._now_s()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # typeshed wants any generator
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._runs

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error of a callback is kept. That a task was thrown away with its process is none."""
        if "exception" in context:
            self._errors.append(context["exception"])

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when it is due."""
