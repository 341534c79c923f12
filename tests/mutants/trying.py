"""Runs tests over a copy of the project with one fault in it; the working tree is only read."""

from __future__ import annotations

import json
import os
import re
import shutil
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
_FIRST_S, _WHOLE_S, _ONE_TEST_S = 600, 3600, 120
#: The same order and the same random values each time, and nothing is written down.
_REPEATABLE = ("-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0")
_PASSED, _FAILED = 0, 1


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
        self._root, self._said, self._built = folder / "project", folder / "said", folder / "cargo"
        self._root.mkdir()
        for path in sorted(_ROOT.iterdir()):
            if path.is_dir() and not path.name.startswith(".") and path.name not in ("build", "dist"):
                ignored = shutil.ignore_patterns("__pycache__", "target")
                shutil.copytree(path, self._root / path.name, symlinks=True, ignore=ignored)
            elif path.is_file():
                shutil.copy(path, self._root, follow_symlinks=False)
        self._check_imported()
        self._pytest = subprocess.Popen(
            [sys.executable, "-P", self._root / "tests/mutants/forking.py", self._said],
            cwd=self._root,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End what runs the tests."""
        self._pytest.terminate()
        self._pytest.communicate()

    def judge(self, mutant: Mutant, *, whole: bool) -> Verdict:
        """Try a mutant by its own tests; where these pass, and it is wanted, by all of the fast tiers."""
        began_s = time.monotonic()
        path = self._root / mutant.file
        text = path.read_text()
        try:
            _write(path, mutant.applied(text))
            if mutant.is_of_kernel:
                self._build_kernel()
            killed_by = self.fails(mutant.tests, _FIRST_S)
            if killed_by is None and whole:
                killed_by = self.fails(WHOLE)
        finally:
            _write(path, text)
            if mutant.is_of_kernel:
                self._build_kernel()
        return Verdict(mutant, killed_by, time.monotonic() - began_s)

    def fails(self, tests: Sequence[str], seconds: int = _WHOLE_S) -> str | None:
        """The first test that fails; None: they pass.

        Raises:
            TryingError: The tests can't be run at all.
        """
        arguments = ["-q", "-x", "--no-header", "--tb=no", f"--timeout={_ONE_TEST_S}", *_REPEATABLE, *tests]
        assert self._pytest.stdin is not None
        assert self._pytest.stdout is not None
        self._pytest.stdin.write(json.dumps([seconds, arguments]) + "\n")
        self._pytest.stdin.flush()
        status = json.loads(self._pytest.stdout.readline() or "3")
        if status == _PASSED:
            return None
        if status is None:
            return f"no end within {seconds} s"
        said = self._said.read_text() if self._said.exists() else ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
        if status == _FAILED and failed:
            return failed[1]
        if status < 0:
            return f"a process that died of signal {-status}"
        raise TryingError(f"the tests do not run (status {status}):\n{said[-2000:]}")

    def _build_kernel(self) -> None:
        command = ["cargo", "build", "--quiet", "--release", "--locked", "--features", "python"]
        try:
            built = subprocess.run(
                [*command, "--target-dir", self._built],
                cwd=self._root / "kernel",
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise TryingError(f"the kernel's mutants need Cargo: {error}") from None
        if built.returncode:
            raise TryingError(f"the kernel does not build:\n{built.stderr[-2000:]}")
        extension = self._root / "mirror_ray/records/_kernel.abi3.so"
        extension.unlink(missing_ok=True)
        shutil.copy(self._built / "release/lib_kernel.so", extension)

    def _environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self._root), "HYPOTHESIS_STORAGE_DIRECTORY": str(self._said.parent)}

    def _check_imported(self) -> None:
        """The environment knows where the project itself lies: what is imported must be the copy."""
        ask = [sys.executable, "-P", "-c", "import mirror_ray; print(mirror_ray.__file__)"]
        found = subprocess.run(
            ask, cwd=self._root, env=self._environment(), capture_output=True, text=True, check=True
        ).stdout.strip()
        if not Path(found).is_relative_to(self._root):
            raise TryingError(f"tests would import {found}, and not the copy in {self._root}")


def _write(path: Path, text: str) -> None:
    """What was compiled of the file before goes: two texts of one second and one length look alike to Python."""
    path.write_text(text)
    Path(cache_from_source(str(path))).unlink(missing_ok=True)
