"""Files and directories that no other user of the machine can read, write to, or have made for us beforehand.

Each function raises a ConfigError where what is there belongs to another user, or is something else than it should be;
a MirrorError where it can't be made or written.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from mirror_ray.model.errors import ConfigError
from mirror_ray.writing import writing

_DIRECTORY_MODE = 0o700
_OF_OTHERS = 0o077
_ABSENT = {errno.ENOENT, errno.ENAMETOOLONG}


def home(instead: str) -> Path:
    """The user's home directory; raises ConfigError, which names the variable ``instead``, where there is none."""
    try:
        return Path.home()
    except RuntimeError:
        raise ConfigError(f"this user has no home directory: set HOME, or {instead}") from None


def private_directory(path: Path) -> Path:
    """The directory, made with mode 0700 where it is missing; one of ours that others may look into is closed to them.

    Its parents are made as they come. A link is never followed, and what another user has made is never taken.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=_DIRECTORY_MODE)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise ConfigError(f"{path} is no directory: remove it")
        _refuse_foreign(path, found.st_uid)
        if found.st_mode & _OF_OTHERS:
            _close(path)
    return path


def write_private(path: Path, content: str) -> None:
    """Write a file with mode 0600, whole or not at all, in the place of one that is there."""
    with writing(path):
        unfinished = _temporary(path, content)
        try:
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


def read_private(path: Path) -> str | None:
    """What is in a file of ours; None: there is none."""
    try:
        # A pipe that somebody has put there is not waited for.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    try:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{path} is no file: remove it")
        _refuse_foreign(path, found.st_uid)
        with open(number, encoding="utf-8", errors="replace", closefd=False) as file:
            return file.read()
    finally:
        os.close(number)


def make_secret(path: Path, content: str) -> bool:
    """A secret that must be no other user's: written with mode 0600 where it is missing; one that is there stays.

    A link is followed, for that is how secrets are mounted; root's file, where others may not read it, is as good as
    ours. Returns whether one was there that others could read until now.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        _make(path, content)
        return False
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    if found.st_uid != 0:
        _refuse_foreign(path, found.st_uid)
    if found.st_uid == os.geteuid() and found.st_mode & _OF_OTHERS:
        with writing(path):
            path.chmod(0o600)
        return True
    if found.st_mode & stat.S_IROTH:
        raise ConfigError(f"{path} is root's, and everybody may read it: it is no secret; chmod 0600 or 0640")
    return False


def _make(path: Path, content: str) -> None:
    with writing(path):
        path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        unfinished = _temporary(path, content)
        try:
            # Whoever is first has made it; nobody reads half of one.
            with suppress(FileExistsError):
                os.link(unfinished, path)
        finally:
            unfinished.unlink()


def _temporary(path: Path, content: str) -> Path:
    """A file of mode 0600 beside ``path``, which holds ``content``."""
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(content)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _refuse_foreign(path: Path, owner: int) -> None:
    if owner != os.geteuid():
        raise ConfigError(f"{path} belongs to {_user(owner)}, not to {_user(os.geteuid())}, who runs this: remove it")


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _close(path: Path) -> None:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(number, _DIRECTORY_MODE)
    finally:
        os.close(number)
