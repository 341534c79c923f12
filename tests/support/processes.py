"""The processes of a system, and the addresses that they speak from and to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil

from mirror_ray.own_ray import OwnRay


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


def addresses(processes: Iterable[psutil.Process]) -> set[str]:
    """Where they listen, and both ends of their connections; IPv4-mapped addresses as IPv4."""
    found: set[str] = set()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in process.net_connections("inet"):
                # An end that is not connected is an empty tuple.
                found |= {str(ip).removeprefix("::ffff:") for ip in (*each.laddr[:1], *each.raddr[:1])}
    return found
