"""Runs pytest again and again, each time in a fork of a process that has imported what no mutant changes.

Most of a short test run is imports. Reads one JSON list of pytest's arguments a line, and answers with a JSON list: its
exit status (null: it was ended), and the file that holds what it said.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time

_SHARED = (
    "pytest pytest_asyncio.plugin pytest_timeout hypothesis hypothesis.stateful asyncio confluent_kafka kio.index "
    "kio.serial cramjam crc32c pydantic typer rich.console yaml xdist.plugin _pytest.pytester _pytest.legacypath"
)


def main() -> None:
    """Serve until there is no more input."""
    output, timeout_s = sys.argv[1], float(sys.argv[2])
    for module in _SHARED.split():
        importlib.import_module(module)
    for line in sys.stdin:
        status = _run(json.loads(line), output, timeout_s)
        sys.stdout.write(json.dumps([status, output]) + "\n")
        sys.stdout.flush()


def _run(arguments: list[str], output: str, timeout_s: float) -> int | None:
    child = os.fork()
    if child == 0:
        os.setsid()
        with open(output, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        import pytest

        code = 3
        try:
            code = int(pytest.main(arguments))
        finally:
            sys.stdout.flush()
            os._exit(code)
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main()
