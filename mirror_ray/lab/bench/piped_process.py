"""A process of a benchmark's own, at the other end of a pipe."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_PROCESSES: Final = multiprocessing.get_context("spawn")


@contextmanager
def piped_process(target: Callable[..., None], *args: object) -> Iterator[Any]:
    """Run ``target`` with its end of a pipe and ``args`` in a process that ends with the context; gives our end."""
    ours, theirs = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=target, args=(theirs, *args), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()
