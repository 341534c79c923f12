"""Programs that tests use as they are and that no package index of ours has: a browser, a Prometheus."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def program(name: str, package: str) -> str:
    """The path of a program; installed from Debian's package where it is missing and we may.

    Skips the test where it can't be had, and says what to do.
    """
    lock = Path(tempfile.gettempdir()) / f"mirror-ray-apt-{os.getuid()}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        found = shutil.which(name)
        if found is None and os.getuid() == 0 and shutil.which("apt-get"):
            _install(package)
            found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: apt-get install {package}")
    return found


def _install(package: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", package]):
        subprocess.run(
            ["apt-get", *arguments],  # noqa: S607 - the machine's own
            env=environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
