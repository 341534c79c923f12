"""Files that can't be written, in sentences: a full disk, a directory that may not be written to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirror_ray.model.errors import MirrorError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """An error of the operating system in the block is one of writing ``path``.

    Raises:
        MirrorError: It can't be written; the text says why.
    """
    try:
        yield
    except OSError as error:
        raise MirrorError(f"{path} can't be written: {error.strerror or error}") from error


def os_error_text(error: OSError) -> str:
    """What the operating system says of an error, with the file where it names one."""
    text = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {text}" if error.filename else text
