"""Rays that mirror-ray started for itself on this machine: remembered in the cache directory, found again, ended.

Nothing here imports Ray; ``mirror_ray.cli.launch`` starts them, ``mirror_ray.attach`` finds systems in them.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

_STOP_TIMEOUT_S = 5.0

#: Ray puts sockets below its temporary directory, and a socket's path has room for about a hundred characters.
_LONGEST_TEMP_DIR = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRay:
    """A Ray of a system's own."""

    name: str
    #: Of its GCS, on loopback.
    address: str
    #: Ray's processes in the order to end them, each with its creation time, since process ids come again.
    processes: tuple[tuple[int, float], ...]
    session_dir: str
    #: Whether it stays when the process that started it ends.
    detached: bool
    #: That process, and its command; 0 and "": not known.
    starter_pid: int = 0
    starter: str = ""

    @property
    def ends_with(self) -> str | None:
        """The process with which it ends, in words; None: it stays until `down`."""
        return None if self.detached else f"{self.starter or 'another command'} (process {self.starter_pid})"


def find(name: str) -> OwnRay | None:
    """The Ray that runs for the system of that name, if one does. What a dead one left behind is removed."""
    path = _path(name)
    try:
        known = json.loads(path.read_text())
        own = OwnRay(**known | {"processes": tuple((pid, created) for pid, created in known["processes"])})
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    if all(_process(pid, created) for pid, created in own.processes):
        return own
    stop(own)
    return None


def is_own(address: str) -> bool:
    """Whether a Ray of some system's own has this address."""
    return any(own is not None and own.address == address for own in map(find, names()))


def names() -> list[str]:
    """Systems that have a Ray of their own here."""
    return [path.stem for path in sorted(_directory().glob("*.json")) if find(path.stem)]


def remember(own: OwnRay) -> None:
    """Let other processes find it."""
    path = _path(own.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(asdict(own)))
    unfinished.replace(path)


def stop(own: OwnRay) -> None:
    """End its processes, in order, and forget it. Workers end with their raylet."""
    for process in [_process(pid, created) for pid, created in own.processes]:
        if process is None:
            continue
        with suppress(psutil.NoSuchProcess):
            workers = process.children(recursive=True)
            process.terminate()
            _, late = psutil.wait_procs([process, *workers], timeout=_STOP_TIMEOUT_S)
            for each in late:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
    _path(own.name).unlink(missing_ok=True)


def prepare_environment(*, loopback: bool) -> None:
    """Set what Ray and its processes read from the environment; what the user has set for authentication stays.

    Ray turns token authentication on when it starts a cluster, but a client of a running cluster has to be told.
    """
    if "RAY_AUTH_TOKEN" in os.environ or _token_path().exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    if loopback:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


def temporary_directory() -> str:
    """Where Rays of our own keep sessions and logs; apart from Ray's default, whose newest session others look for."""
    parent = tempfile.gettempdir()
    return str(Path(parent if len(parent) < _LONGEST_TEMP_DIR else "/tmp") / f"mirror-ray-{os.getuid()}")  # noqa: S108


def processes_of(pids: list[int]) -> tuple[tuple[int, float], ...]:
    """Process ids with their creation times."""
    return tuple((pid, psutil.Process(pid).create_time()) for pid in pids)


def _process(pid: int, created: float) -> psutil.Process | None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _token_path() -> Path:
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")


def _directory() -> Path:
    from mirror_ray.devcluster.jars import cache_dir

    return cache_dir() / "systems"


def _path(name: str) -> Path:
    return _directory() / f"{name}.json"
