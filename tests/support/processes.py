"""The processes of a system, and the addresses that they speak from and to."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator

import psutil

from mirror_ray.own_ray import OwnRay
from tests.support.waiting import wait_until


def family(own: OwnRay) -> list[psutil.Process]:
    """Ray's processes that were started for a system, and all of their descendants: the actors are among them."""
    roots = [psutil.Process(pid) for pid, _ in own.processes]
    return with_descendants(roots)


def with_descendants(roots: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Processes and what they started."""
    found: dict[int, psutil.Process] = {}
    for root in roots:
        for process in [root, *root.children(recursive=True)]:
            found[process.pid] = process
    return list(found.values())


def wait_ended(process: psutil.Process, timeout_s: float) -> None:
    """Wait until a process has ended, whether anybody has asked for its exit status or not.

    Raises:
        AssertionError: It is still there, and the text says what it does.
    """

    def ended() -> bool:
        try:
            return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    try:
        wait_until(ended, timeout_s, f"process {process.pid} ended")
    except AssertionError as error:
        told = process.as_dict(["status", "ppid", "name", "num_threads", "create_time", "cpu_times"])
        raise AssertionError(f"{error}: {told}") from None


def addresses(processes: Iterable[psutil.Process]) -> set[str]:
    """Where they listen, and both ends of their connections; IPv4-mapped addresses as IPv4."""
    found: set[str] = set()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            for connection in process.net_connections("inet"):
                # An end that is not connected is an empty tuple.
                found |= {str(ip).removeprefix("::ffff:") for ip in (*connection.laddr[:1], *connection.raddr[:1])}
    return found


def kill_process(pid: int) -> None:
    """SIGKILL. An actor that has not said its pid yet has 0: that would kill all of the tests' process group."""
    assert pid > 0
    os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """SIGSTOP, and SIGCONT to whatever is left of it."""
    assert pid > 0
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
