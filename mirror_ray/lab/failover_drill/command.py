"""`mirror-ray failover` and `failback` as an operator runs them, in a process that can be killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from mirror_ray.failover.plan import FailoverStep
from mirror_ray.model.errors import MirrorError

_WITHIN_S: Final = 180.0


class FailoverCommand:
    """A command of `mirror-ray` as a process, and the plan's steps that its messages have reported."""

    def __init__(self, arguments: list[str]) -> None:
        #: Seconds of each reported step.
        self.step_s: dict[FailoverStep, float] = {}
        self._arguments = [sys.executable, "-m", "mirror_ray", *arguments]
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it; it has ended when the context ends."""
        with subprocess.Popen(  # noqa: S603 - mirror-ray itself, with the drill's arguments
            self._arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as self._process:
            reader = threading.Thread(target=self._read, args=(self._process.stderr,), daemon=True)
            reader.start()
            try:
                yield
            finally:
                self._process.kill()
                reader.join()

    @property
    def text(self) -> str:
        """All of its messages."""
        return "".join(self._lines)

    @property
    def reported(self) -> int:
        """How many steps it has reported."""
        return sum(f"  {step}: " in line for line in self._lines for step in FailoverStep)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait_for(self, steps: int) -> None:
        """Wait until it has reported so many steps, or has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self.reported >= steps or self._ended, _WITHIN_S)

    def wait(self) -> int:
        """Wait until it ends; returns its exit code. Raises MirrorError if it does not end within three minutes."""
        try:
            return self._process.wait(_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise MirrorError(f"a command does not end: {self.text}") from None

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def _read(self, messages: IO[str]) -> None:
        last_s = time.monotonic()
        for line in messages:
            with self._changed:
                self._lines.append(line)
                now_s = time.monotonic()
                for step in FailoverStep:
                    if f"  {step}: " in line:
                        self.step_s[step], last_s = now_s - last_s, now_s
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
