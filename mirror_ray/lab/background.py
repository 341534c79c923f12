"""Threads that run until they are stopped, and waiting for a condition."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from mirror_ray.model.errors import MirrorError

_POLL_S = 0.02


class BackgroundThread:
    """Runs ``_run`` in a daemon thread, from ``start`` to ``stop`` or as long as the context lasts.

    ``_run`` returns soon after ``_stopping`` is set. An error that it raises is raised again by ``check`` and ``stop``.
    """

    def __init__(self, name: str, *, stop_timeout_s: float = 360.0) -> None:
        """``name`` is the thread's, in messages; ``stop_timeout_s``: how long ``stop`` waits for the thread's end."""
        self.name = name
        self._stop_timeout_s = stop_timeout_s
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run_guarded, name=name, daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Have the thread end soon; returns at once."""
        self._stopping.set()

    def stop(self) -> None:
        """Have the thread end and wait for it. Raises as ``join`` does."""
        self.ask_to_stop()
        self.join()

    def join(self) -> None:
        """Wait until the thread has ended. Raises MirrorError if it failed, or still runs after ``stop_timeout_s``."""
        if self._thread.ident is not None:
            self._thread.join(self._stop_timeout_s)
            if self._thread.is_alive():
                raise MirrorError(f"{self.name} has not ended within {self._stop_timeout_s:g} s")
        self.check()

    def check(self) -> None:
        """Raise MirrorError if the thread has failed."""
        if self._error is not None:
            raise MirrorError(f"{self.name} failed: {self._error!r}") from self._error

    def _run_guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - raised again by `check`, in a thread that can handle it
            self._error = error

    def _run(self) -> None:
        raise NotImplementedError


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str, every_s: float = _POLL_S) -> None:
    """Call ``condition`` until it is true. After ``timeout_s`` raises MirrorError, which names ``what``."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise MirrorError(f"waited {timeout_s:.0f} s in vain until {what}")
        time.sleep(every_s)
