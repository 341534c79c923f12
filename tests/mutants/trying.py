"""Runs tests over a copy of the project with one fault in it; the working tree is only read."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

from tests.mutants.mutant import Mutant

_ROOT = Path(__file__).parents[2]
#: The fast tiers as a whole.
WHOLE = ("tests/unit", "tests/model")
#: After so long tests hang: a mutant is killed by that, too.
_FIRST_S, _WHOLE_S = 240.0, 1800.0
#: The same order and the same random values each time, and nothing is written down.
_REPEATABLE = ("-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0")
_OF_ONE_TEST_S = 90
#: What pytest's exit status means.
_PASSED, _FAILED, _BROKEN = 0, 1, 2


class TryingError(Exception):
    """A verdict can't be reached: tests fail without a fault, or don't run with one."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant."""

    mutant: Mutant
    #: The test that failed, or that nothing came to an end; None: it lives.
    killed_by: str | None
    seconds: float


class Bench:
    """A copy of the project in a folder of its own, in which one mutant at a time is tried."""

    def __init__(self, folder: Path) -> None:
        """Copy what the fast tiers need: all but hidden files and what is built."""
        self._root = folder
        for path in sorted(_ROOT.iterdir()):
            if path.is_dir() and not path.name.startswith(".") and path.name not in ("build", "dist"):
                shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            elif path.is_file():
                shutil.copy(path, folder)
        self._check_imported()

    def judge(self, mutant: Mutant, *, whole: bool) -> Verdict:
        """Try a mutant by its own tests and, where these pass and it is wanted, by all of the fast tiers."""
        began_s = time.monotonic()
        path = self._root / mutant.file
        text = path.read_text()
        try:
            self._write(path, mutant.applied(text))
            killed_by = self.fails(mutant.tests, _FIRST_S)
            if killed_by is None and whole:
                killed_by = self.fails(WHOLE, _WHOLE_S)
        finally:
            self._write(path, text)
        return Verdict(mutant, killed_by, time.monotonic() - began_s)

    def fails(self, tests: Sequence[str], timeout_s: float = _WHOLE_S) -> str | None:
        """The first test that fails; None: they pass.

        Raises:
            TryingError: The tests can't be run at all.
        """
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--tb=no", *_REPEATABLE]
        command += [f"--timeout={_OF_ONE_TEST_S}", *tests]
        with subprocess.Popen(
            command,
            cwd=self._root,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as running:
            try:
                said, _ = running.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                return f"no end within {timeout_s:g} s"
            finally:
                _end(running)
        if running.returncode == _PASSED:
            return None
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
        if running.returncode == _FAILED and failed:
            return failed[1]
        raise TryingError(f"the tests do not run (status {running.returncode}):\n{said[-2000:]}")

    def _environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self._root), "HYPOTHESIS_STORAGE_DIRECTORY": str(self._root / ".random")}

    def _check_imported(self) -> None:
        """The environment knows where the project itself lies: what is imported must be the copy."""
        ask = [sys.executable, "-c", "import mirror_ray; print(mirror_ray.__file__)"]
        found = subprocess.run(
            ask, cwd=self._root, env=self._environment(), capture_output=True, text=True, check=True
        ).stdout.strip()
        if not Path(found).is_relative_to(self._root):
            raise TryingError(f"tests would import {found}, and not the copy in {self._root}")

    def _write(self, path: Path, text: str) -> None:
        """What was compiled of the file before goes: two texts of one second and one length look alike to Python."""
        path.write_text(text)
        Path(cache_from_source(str(path))).unlink(missing_ok=True)


def _end(running: subprocess.Popen[str]) -> None:
    """End the tests, and what they may have started."""
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
