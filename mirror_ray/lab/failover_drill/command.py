"""The command as an operator runs it, in a process of its own that can be killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from mirror_ray.failover.plan import STEPS, FailoverStep
from mirror_ray.model.errors import MirrorError

_WITHIN_S: Final = 180.0


class FailoverCommand:
    """`mirror-ray` as an operator runs it, and the steps that it has told."""

    def __init__(self, arguments: list[str]) -> None:
        self.step_s: dict[FailoverStep, float] = {}
        self._arguments = [sys.executable, "-m", "mirror_ray", *arguments]
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """It runs, and is no more at the end."""
        with subprocess.Popen(  # noqa: S603 - mirror-ray itself, whose arguments the rehearsal writes
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
        """All that it has said."""
        return "".join(self._lines)

    @property
    def told(self) -> int:
        """How many steps it has told of."""
        return sum(f"  {step}: " in line for line in self._lines for step in STEPS)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait_for(self, steps: int) -> None:
        """Wait until it has told of so many steps, or has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self.told >= steps or self._ended, _WITHIN_S)

    def wait(self) -> int:
        """Its exit code."""
        try:
            return self._process.wait(_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise MirrorError(f"a command does not end: {self.text}") from None

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def _read(self, said: IO[str]) -> None:
        last_s = time.monotonic()
        for line in said:
            with self._changed:
                self._lines.append(line)
                now_s = time.monotonic()
                for step in STEPS:
                    if f"  {step}: " in line:
                        self.step_s[step], last_s = now_s - last_s, now_s
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
