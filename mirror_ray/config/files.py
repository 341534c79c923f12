"""Reads files that users name, within bounds, and detects their changes."""

from __future__ import annotations

import stat
from pathlib import Path


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file, cut after ``most_bytes`` + 1 bytes: so many mean that the file is larger.

    Raises:
        ValueError: It can't be read; the text has its name and the reason.
    """
    try:
        # Opening a pipe would wait for its other end.
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(most_bytes + 1)
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{str(path)!r} can't be read: {error}") from error
    raise ValueError(f"{path} can't be read: it is not a regular file")


def file_stamp(path: str) -> tuple[int, int, int] | None:
    """A value that changes when the file does; None: the file can't be read. Cheap."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
