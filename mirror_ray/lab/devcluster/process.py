"""A program of a cluster on this machine: one process with its log, which ends with ours."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from mirror_ray.lab.devcluster.guard import guarded
from mirror_ray.model.errors import MirrorError

#: How long a program may take to start: twenty times what it takes where nothing else runs.
START_S: Final = 180.0
_POLL_S: Final = 0.02
#: How many lines of its log are shown of a program that does not start.
_LAST_LINES: Final = 30
#: As log4j's layout of Kafka writes the level: ``[time] ERROR ...``.
_ERROR_LINE: Final = re.compile(r"\b(ERROR|FATAL)\b")


class GuardedProcess:
    """Starts, freezes and ends a program, as often as is asked. The process ends with ours, however ours ends."""

    def __init__(self, title: str, log_path: Path) -> None:
        """``title``: what error messages call it."""
        self.title, self.log_path = title, log_path
        self._process: subprocess.Popen[bytes] | None = None
        #: Where in its log the last start begins.
        self.log_start = 0

    @property
    def pid(self) -> int | None:
        """Process id; None while it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def running(self) -> bool:
        """Whether the process exists; a suspended one does."""
        return self.pid is not None

    def run(
        self, program: Sequence[str], *, directory: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the program, the path of which comes first, and return at once; its output goes to the log."""
        with self.log_path.open("ab") as log:
            self.log_start = log.tell()
            # A session of its own: Ctrl-C in the terminal is ours to handle.
            self._process = subprocess.Popen(  # noqa: S603 - a program of ours, whose arguments are ours
                guarded([*program]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=directory,
                env=environment,
            )

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait until ``ready`` says so.

        Raises:
            MirrorError: It has ended, or takes longer than ``timeout_s``; the text has the end of its log.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            ended = not self.running
            if ready():
                return
            if ended or time.monotonic() > deadline:
                what = "ended while it started" if ended else f"does not serve after {timeout_s:g} s"
                raise MirrorError(f"{self.title} {what}; see {self.log_path}:\n{self._log_excerpt()}")
            time.sleep(_POLL_S)

    def _log_excerpt(self) -> str:
        """Of the log since the last start: the lines of errors, and the last ones."""
        lines = self.log_path.read_bytes()[self.log_start :].decode(errors="replace").splitlines()
        errors = [line for line in lines[:-_LAST_LINES] if _ERROR_LINE.search(line)]
        return "\n".join([*errors[:_LAST_LINES], *lines[-_LAST_LINES:]])

    def stop(self, timeout_s: float = 10.0) -> None:
        """End it in good order (SIGTERM), or by SIGKILL if that takes longer than ``timeout_s``."""
        self.terminate()
        self.wait_stopped(timeout_s)

    def terminate(self) -> None:
        """Send SIGTERM and return at once; `wait_stopped` waits for the end."""
        self.resume()
        self._signal(signal.SIGTERM)

    def wait_stopped(self, timeout_s: float = 10.0) -> None:
        """Wait until it has ended; kill it after ``timeout_s``."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it without warning (SIGKILL)."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def suspend(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it after `suspend` (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
