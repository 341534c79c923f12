"""Runs pytest again and again, each time in a fork of a process that has imported what no mutant changes.

Most of a short run is imports. Reads a JSON list a line: how many seconds it may take, and pytest's arguments; answers
with a line of JSON: its exit status, a signal's number below 0, or null where it was ended.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path

_SHARED = (
    "pytest pytest_asyncio.plugin pytest_timeout xdist.plugin _pytest.pytester _pytest.legacypath hypothesis.stateful "
    "asyncio confluent_kafka kio.index kio.serial cramjam crc32c pydantic typer rich.console yaml"
)


def main() -> None:
    """Serve until there is no more input; what tests say goes to the file that is named."""
    said = Path(sys.argv[1])
    for module in _SHARED.split():
        importlib.import_module(module)
    for line in sys.stdin:
        seconds, arguments = json.loads(line)
        sys.stdout.write(json.dumps(_run(arguments, said, seconds)) + "\n")
        sys.stdout.flush()


def _run(arguments: list[str], said: Path, seconds: float) -> int | None:
    child = os.fork()
    if child == 0:
        _become_pytest(arguments, said)
    until_s = time.monotonic() + seconds
    try:
        while time.monotonic() < until_s:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                child = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        return None
    finally:
        if child:
            # With all that it may have started.
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _become_pytest(arguments: list[str], said: Path) -> None:
    os.setsid()
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    import pytest

    code = int(pytest.ExitCode.INTERNAL_ERROR)
    try:
        code = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
