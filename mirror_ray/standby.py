"""Run as a process of its own in the place of one of Ray's agents, which it becomes when somebody first asks for it.

    python -S -E standby.py PORT COMMAND...

It listens on PORT of loopback; at the first connection it gives the port free and turns into COMMAND. Whoever asked
finds the connection lost, and asks again: Ray's raylet does. With port 0 it only waits. The raylet holds the other end
of its standard input, and ends when an agent of it ends: so this ends with the raylet, and not before.

Nothing is imported from this package, so that it starts in some milliseconds.
"""

from __future__ import annotations

import os
import select
import socket
import sys


def main(port: int, command: list[str]) -> None:
    """Wait until the raylet has ended, or somebody has asked for what ``command`` would start."""
    with socket.socket() as door:
        waited_for: list[int] = [sys.stdin.fileno()]
        if port:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(("127.0.0.1", port))
            door.listen()
            waited_for.append(door.fileno())
        while True:
            ready, _, _ = select.select(waited_for, [], [])
            if door.fileno() in ready:
                break
            if not os.read(sys.stdin.fileno(), 1):
                return
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
