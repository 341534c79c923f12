"""Rays that mirror-ray started for itself on this machine: remembered in the cache directory, found again, ended.

Nothing here imports Ray; ``actors.loopback_ray`` starts them, ``actors.runtime`` finds systems in them. What another
user has made is a ConfigError, what can't be written a MirrorError.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from mirror_ray.model.errors import ConfigError
from mirror_ray.private import home, make_secret, private_directory, read_private, write_private

_STOP_TIMEOUT_S = 5.0

#: Below its temporary directory Ray puts sockets, ``/session_2026-11-24_20-26-00_123456_4194304/sockets/plasma_store``,
#: and a socket's path has room for 107 bytes, on macOS for 103.
_LONGEST_TEMP_DIR_BYTES = (103 if sys.platform == "darwin" else 107) - 64


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
    try:
        known = json.loads(read_private(_path(name)) or "null")
        processes = tuple((int(pid), float(created)) for pid, created in known["processes"])
        own = OwnRay(**known | {"processes": processes})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if all(_process(pid, created) for pid, created in own.processes):
        return own
    stop(own)
    return None


def is_own(address: str) -> bool:
    """Whether a Ray of some system's own has this address."""
    return any(own is not None and own.address == address for own in map(find, names()))


def names() -> list[str]:
    """Systems that have a Ray of their own here; what is not ours is passed over."""
    found = []
    for path in sorted(_directory().glob("*.json")):
        with suppress(ConfigError):
            found += [path.stem] if find(path.stem) else []
    return found


def remember(own: OwnRay) -> None:
    """Let other processes of this user find it."""
    prepare_to_remember()
    write_private(_path(own.name), json.dumps(asdict(own)))


def prepare_to_remember() -> None:
    """Raise what `remember` would, before anything is started."""
    private_directory(_directory())


def stop(own: OwnRay) -> None:
    """End its processes, in order, and forget it. Workers end with their raylet. Ctrl-C waits until that is done."""
    with _uninterrupted():
        for process in [_process(pid, created) for pid, created in own.processes]:
            if process is not None:
                _end(process)
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
    """Where Rays of our own keep sessions and logs; apart from Ray's default, whose newest session others look for.

    Ray gives everybody all rights to what is in it: it is in a directory that nobody else may enter.
    """
    below = Path(f"mirror-ray-{os.getuid()}") / "ray"
    path = Path(tempfile.gettempdir()) / below
    if len(os.fsencode(path)) > _LONGEST_TEMP_DIR_BYTES:
        path = Path("/tmp") / below  # noqa: S108 - Ray's sockets take no longer name; the directory is private
    private_directory(path.parent)
    return str(private_directory(path))


def protect_token() -> bool:
    """See that Ray's token, by which whoever reads it runs code as this user, is there and nobody else's to read.

    Ray itself would let everybody read it. A token in ``RAY_AUTH_TOKEN`` is seen by nobody else. Returns whether others
    could read it until now.
    """
    if "RAY_AUTH_TOKEN" in os.environ or os.environ.get("RAY_AUTH_MODE") != "token":
        return False
    path = _token_path()
    was_open = make_secret(path, secrets.token_hex(32))
    # Ray's own code for it looks in HOME alone.
    os.environ.setdefault("RAY_AUTH_TOKEN_PATH", str(path))
    return was_open


@contextmanager
def private_umask() -> Iterator[None]:
    """What is started meanwhile makes files that nobody else can read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def processes_of(pids: list[int]) -> tuple[tuple[int, float], ...]:
    """Process ids with their creation times."""
    return tuple((pid, psutil.Process(pid).create_time()) for pid in pids)


def _process(pid: int, created: float) -> psutil.Process | None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _end(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        workers = process.children(recursive=True)
        process.terminate()
        _, late = psutil.wait_procs([process, *workers], timeout=_STOP_TIMEOUT_S)
        for survivor in late:
            with suppress(psutil.NoSuchProcess):
                survivor.kill()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """SIGINT and SIGTERM, as they come, come after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    held = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(signum, lambda number, _: came.append(number)) for signum in held]
    try:
        yield
    finally:
        for signum, handler in zip(held, before, strict=True):
            signal.signal(signum, handler or signal.SIG_DFL)
        for number in came:
            signal.raise_signal(number)


def _token_path() -> Path:
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    return Path(named) if named else home("RAY_AUTH_TOKEN_PATH") / ".ray" / "auth_token"


def _directory() -> Path:
    from mirror_ray.jars.maven import cache_dir

    return cache_dir() / "systems"


def _path(name: str) -> Path:
    return _directory() / f"{name}.json"
