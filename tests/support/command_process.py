"""The process that a test's command runs in: a fork of one that has imported what commands import, Ray above all.

The imports take a second of a processor's time. All else is as in a process that a shell starts: environment,
descriptors, exit code, what is done at a process's end.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.support.command_imports"])


class Ended(NamedTuple):
    """How a command ended, and what it wrote."""

    #: None: it did not, and was ended by SIGTERM.
    exit_code: int | None
    out: str
    err: str


def run(arguments: Sequence[str], env: Mapping[str, str], timeout_s: float) -> Ended:
    """Run a command with this environment until it ends."""
    with tempfile.TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        process = _FORKS.Process(target=_run, args=(list(arguments), dict(env), out, err))
        process.start()
        try:
            process.join(timeout_s)
            exit_code = process.exitcode
        finally:
            process.terminate()
            process.join()
        return Ended(exit_code, out.read_text(), err.read_text())


def _run(arguments: list[str], env: dict[str, str], out: Path, err: Path) -> None:
    for number, path in enumerate((Path(os.devnull), out, err)):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = arguments
    from mirror_ray.cli import main

    try:
        main()
    finally:
        # What multiprocessing leaves out.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
