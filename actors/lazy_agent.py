"""Run as a process of its own in the place of one of Ray's agents, which it becomes when somebody first asks for it.

    python -S -E lazy_agent.py PORT COMMAND...

It listens on PORT of loopback; at the first connection it turns into COMMAND, a Python program of Ray's, which then
listens with the same socket: whoever asked is answered as soon as it can. The port is never free meanwhile, for Ray
shows its token to whoever listens there, and another user of the machine may wait for that. With port 0 it only waits.
The raylet holds the other end of its standard input, and ends when an agent of it ends: so this ends with the raylet,
and not before.

Nothing is imported from this package, so that it starts in some milliseconds.
"""

from __future__ import annotations

import os
import select
import socket
import sys

#: The program that COMMAND turns into: COMMAND's own, which gets our socket where it binds one of its own to the port.
_WITH_THE_DOOR = """
import os, runpy, socket, sys
door, port = int(sys.argv.pop(1)), int(sys.argv.pop(1))
bind = socket.socket.bind
def take(self, address):
    if address[1] == port:
        os.dup2(door, self.fileno(), inheritable=False)
    else:
        bind(self, address)
socket.socket.bind = take
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


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
        door.set_inheritable(True)
        python, *options = command[: _program(command)]
        program = command[_program(command) :]
        handed = [python, *options, "-c", _WITH_THE_DOOR, str(door.fileno()), str(port), *program]
        os.execv(python, handed)  # noqa: S606 - no shell is wanted


def _program(command: list[str]) -> int:
    """Where in Python's command line the program stands, behind Python and its options."""
    return next(place for place, word in enumerate(command) if place and not word.startswith("-"))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
