"""Files that users name: read within bounds, and looked at for changes."""

from __future__ import annotations

import stat
from pathlib import Path


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file, ``most_bytes`` + 1 of it at most: whoever gets so many tells that it is larger.

    Raises:
        ValueError: It can't be read; names it, and says why.
    """
    try:
        # Not so much as opened: whoever opens a pipe waits for its other end.
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(most_bytes + 1)
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{str(path)!r} can't be read: {error}") from error
    raise ValueError(f"{path} can't be read: it is not a regular file")


def file_stamp(path: str) -> tuple[int, int, int] | None:
    """Differs where the file may have changed; None where there is none to be seen. Cheap."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
