"""This program in namespaces of its own: nobody else's networks and processes are touched, and all ends with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from mirror_ray.model.errors import MirrorError

_MARK: Final = "MIRROR_RAY_NODES_APART"
_NAMESPACES: Final = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private")
#: Process 1 has to reap what others leave behind: a machine's namespace ends with the last of its processes.
_REAPING: Final = '"$@"; exit $?'
_NEEDED: Final = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "nft": "nftables"}


def stand_apart(module: str, arguments: list[str]) -> None:
    """Run ``python -m module`` again, in new namespaces, and end with its exit code; at once where this is that run.

    Raises:
        MirrorError: It takes root, or a program that is missing.
    """
    if _MARK in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)  # noqa: S607 - as the machine's owner has it
        return
    if sys.platform != "linux" or os.geteuid() != 0:
        raise MirrorError("nodes in networks of their own take Linux and root: run it by sudo")
    missing = {package for program, package in _NEEDED.items() if shutil.which(program) is None}
    if missing:
        raise MirrorError(f"programs are missing: apt-get install {' '.join(sorted(missing))}")
    if not Path("/dev/net/tun").exists():
        raise MirrorError("/dev/net/tun is missing, which delays packets between the regions: modprobe tun")
    command = ["unshare", *_NAMESPACES, "bash", "-c", _REAPING, "bash", sys.executable, "-m", module, *arguments]
    sys.exit(subprocess.run(command, env={**os.environ, _MARK: "1"}, check=False).returncode)  # noqa: S603 - itself
