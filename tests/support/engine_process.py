"""A ReplicationEngine in a process of its own, to be stopped and continued by signals: ``EngineProcess``."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, Self

import psutil

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.model.assignment import Assignment

_REPORT_S = 0.05


class EngineProcess:
    """Copies until it is killed at the end of the ``with`` block; what it reports is kept."""

    def __init__(self, settings: MirrorSettings, assignments: Sequence[Assignment], *, stop_after: int = 0) -> None:
        """``stop_after``: as by SIGSTOP, when so many Produce requests are composed, and the last one is not sent."""
        self.records = 0
        self.events: list[str] = []
        self.given_up = 0
        self._order = pickle.dumps((settings, list(assignments), stop_after))

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.support.engine_process"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        self._process.stdin.write(self._order)
        self._process.stdin.close()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()

    def stop(self) -> None:
        """SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    @property
    def stopped(self) -> bool:
        """Whether it stands still."""
        return psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said: dict[str, Any] = json.loads(line)
            self.records = said["records"]
            self.given_up += said["given_up"]
            self.events += said["events"]


def _stop_after_composing(requests: int) -> None:
    from mirror_ray.replication.sender import Sender

    compose, composed = Sender._compose_some, 0

    def compose_and_stop(sender: Sender, version: int) -> list[Any]:
        nonlocal composed
        made = compose(sender, version)
        composed += len(made)
        if composed >= requests:
            Sender._compose_some = compose  # type: ignore[method-assign]
            os.kill(os.getpid(), signal.SIGSTOP)
        return made

    Sender._compose_some = compose_and_stop  # type: ignore[method-assign,assignment]


async def _run() -> None:
    from mirror_ray.replication.engine import ReplicationEngine

    settings, assignments, stop_after = pickle.load(sys.stdin.buffer)  # noqa: S301 - pickled by the test itself
    if stop_after:
        _stop_after_composing(stop_after)
    engine = ReplicationEngine(settings, "replicator-1", "node")
    await engine.start()
    engine.assign(assignments)
    while True:
        report = engine.report()
        events = [text for *_, text in report.events]
        said = {"records": report.records, "given_up": len(report.given_up), "events": events}
        print(json.dumps(said), flush=True)  # noqa: T201 - this is how it reports
        await asyncio.sleep(_REPORT_S)


if __name__ == "__main__":
    asyncio.run(_run())
