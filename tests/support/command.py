"""The command ``mirror-ray`` as a user runs it: a process of its own, with its own Ray unless told otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mirror_ray.lab.devcluster import DevCluster
from tests.support import command_process
from tests.support.waiting import PATIENCE, wait_until

T = TypeVar("T")

PROGRAM = str(Path(sys.executable).with_name("mirror-ray"))
#: With its own Ray's start, on a machine that is busy otherwise.
TIMEOUT_S = 120.0
#: A command takes a second of a processor's time, which what it asks about needs, too.
_ASKED_EVERY_S = 1.0


def mirror_ray(
    *arguments: str, exit_code: int = 0, timeout_s: float = TIMEOUT_S, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``mirror-ray`` and return its output.

    Raises:
        AssertionError: It ended with another exit code, or had to be ended; the text has all of its output.
    """
    command, timeout_s = [PROGRAM, *arguments], timeout_s * PATIENCE
    done = command_process.run(command, environment(env), timeout_s)
    end = f"not done within {timeout_s:g} s" if done.exit_code is None else f"exit {done.exit_code}"
    assert end == f"exit {exit_code}", f"mirror-ray {' '.join(arguments)}: {end}, not {exit_code}\n{done.out}{done.err}"
    return subprocess.CompletedProcess(command, exit_code, done.out, done.err)


def answer(*arguments: str, exit_code: int = 0) -> Any:
    """What a command prints with ``-o json``."""
    return json.loads(mirror_ray(*arguments, "-o", "json", exit_code=exit_code).stdout)


def wait_for(name: str, condition: Callable[[], T], message: str, timeout_s: float = 60.0) -> T:
    """`wait_until` for something about the system ``name``: when it fails, the error has what the system says."""
    try:
        return wait_until(condition, timeout_s, message, every_s=_ASKED_EVERY_S)
    except AssertionError as error:
        told = [_said(ask, "--name", name) for ask in ("status", "lag", "topics", "groups", "replicators", "events")]
        raise AssertionError("\n".join([str(error), *told])) from None


def _said(*arguments: str) -> str:
    done = command_process.run([PROGRAM, *arguments], environment(), TIMEOUT_S)
    return f"$ mirror-ray {' '.join(arguments)}\n{done.out}{done.err}"


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without anything that is set for Ray."""
    return {key: value for key, value in os.environ.items() if not key.startswith("RAY_")} | dict(more or {})


def mm2_file(path: Path, clusters: Sequence[DevCluster], *lines: str) -> str:
    """Write an ``mm2.properties`` for plain ``clusters`` with these further lines; returns its path."""
    told = [f"clusters = {', '.join(cluster.name for cluster in clusters)}"]
    # The page costs a process, and is tried where it is the matter.
    told.append("gateway.enabled = false")
    told += [f"{cluster.name}.bootstrap.servers = {cluster.bootstrap}" for cluster in clusters]
    path.write_text("\n".join([*told, *lines, ""]))
    return str(path)
