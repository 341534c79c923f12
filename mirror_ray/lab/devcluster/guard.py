"""Runs a program that ends with the process that started it, however that process ends.

Run as a script: ``guard.py OWNER_PID PROGRAM ARGUMENT...``. It executes the program in its own process, and leaves a
small child that kills the program once the owner has ended. PR_SET_PDEATHSIG would not do: it fires when the *thread*
that started the child ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

POLL_S = 0.2


def guarded(program: list[str]) -> list[str]:
    """The command that runs a program so that it ends with this process; the first element is the program's path."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *program]


def main() -> None:
    """Start the watcher and execute the program."""
    owner = int(sys.argv[1])
    # Opened before the check: from here on the descriptor means the owner, even if its pid is reused.
    owner_fd, program_fd = _descriptor(owner), _descriptor(os.getpid())
    if os.getppid() != owner:
        sys.exit(f"process {owner} has ended")
    program = os.getpid()
    if os.fork() == 0:
        _watch(owner, owner_fd, program, program_fd)
        os._exit(0)
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is wanted; it is given the command by us


def _watch(owner: int, owner_fd: int | None, program: int, program_fd: int | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if owner_fd is not None and program_fd is not None:
        select.select([owner_fd, program_fd], [], [])
    else:
        while _alive(owner) and os.getppid() == program:
            time.sleep(POLL_S)
    # While the program runs it is our parent, so its pid can't belong to anything else.
    if os.getppid() == program:
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, signal.SIGKILL)


def _descriptor(pid: int) -> int | None:
    if sys.platform != "linux":
        return None
    return os.pidfd_open(pid)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
